#!/usr/bin/perl

# What is known of a session already, so that OpenCode is not asked.
#
# A session that has had a turn: the zone knows its directory, so that its next
# turn needs no look-up.  What happened to the session in between is noticed all
# the same: it was deleted, or deleted and has a name, or moved to another
# directory; OpenCode was restarted.  A prompt that names files asks OpenCode
# always.
#
# A session that has had no turn here: whether OpenCode is working in it is known
# from the answer to an earlier question and from the events since.
#
# Broken by: a look-up for each turn; a 404 of the prompt that is told as it is,
# or not followed by a look-up (turn_forget()); a turn that waits for events of a
# directory that the session has left (turn_poll()); a directory that is known
# without an event stream, or that decides which files may be read
# (turn_recall()); a question for each first turn (hub_quiet()); events that do
# not count (hub_event()), or do not while OpenCode answers (hub_asks()); a list
# that is not read (hub_busy()); an answer that is believed after events were
# missed (hub_doubt()).

use FindBin;
use lib "$FindBin::Bin/lib";

use AgentStream;

my $DIRECTORY = '/workspace/demo';

my $t = AgentStream->new();

$t->control('config', { strict => JSON::PP::true });

# ---- the second turn

my $id = $t->create_session();

is(lookups(sub { check_turn($t->turn($id, 'text:3:5:1'), 'first turn') }), 1,
   'the first turn looks the session up');
is(lookups(sub { check_turn($t->turn($id, 'text:3:5:1'), 'second turn') }), 0,
   'the second does not');
is(directory(), $DIRECTORY, 'its prompt has the directory');

my $other = $t->create_session();

is(lookups(sub { check_turn($t->turn($other, 'text:3:5:1'), 'another') }), 1,
   'another session is looked up');

# ---- files

my $c;

is(lookups(sub {
    $c = $t->turn($id, { content => [{ type => 'resource_link', name => 'x',
                                       uri => 'file:///etc/passwd' }] });
}), 1, 'a file: the session is looked up');
is_error_packet($c->response(), 400, 'a file outside of its directory');
is(lookups(sub { check_turn($t->turn($id, 'text:3:5:1'), 'without') }), 0,
   'and known afterwards');

# ---- moved: OpenCode answers in the new directory

opencode('PATCH', $id, { directory => '/workspace/moved' });

$c = $t->turn($id, 'text:3:5:1');

check_turn($c, 'moved');
is(join('', map { packet_json($_)->{content}{text} // '' }
            grep { packet_json($_)->{type} eq 'agent_message_chunk' }
            $c->packets()), said($id), 'moved: nothing is missing');

is(lookups(sub { check_turn($t->turn($id, 'text:3:5:1'), 'there') }), 0,
   'the new directory is known');
is(directory(), '/workspace/moved', 'and used');

# ---- deleted

opencode('DELETE', $id);

$c = $t->turn($id, 'text:3:5:1');

is_error_packet($c->response(), 404, 'deleted');
like($c->body(), qr/"Session not found"/, 'deleted: as if it had never been');
is_error_packet($t->turn($id, 'text:3:5:1')->response(), 404,
                'deleted: still');

# ---- deleted, with a name

check_turn($t->turn('@task', 'text:3:5:1'), 'name');

is(made(sub { check_turn($t->turn('@task', 'text:3:5:1'), 'name again') }), 0,
   'a name: the session is known');

opencode('DELETE', (made_ids())[-1]);

is(made(sub { check_turn($t->turn('@task', 'text:3:5:1'), 'made anew') }), 1,
   'a name whose session was deleted: it is made anew');
is(made(sub { check_turn($t->turn('@task', 'text:3:5:1'), 'and again') }), 0,
   'and known');

# ---- other sessions, which have had no turn

my @new = map { $t->create_session() } 1 .. 10;
my $nobody = $t->create_session();

is(asked(sub { check_turn($t->turn($new[0], 'text:3:5:1'), 'new') }), 0,
   'a session without events: OpenCode is not asked whether it works there');

works($new[1]);
is(asked(sub { check_turn($t->turn($new[1], 'text:3:5:1'), 'worked') }), 1,
   'a session with events: it is asked');
is(asked(sub { check_turn($t->turn($new[2], 'text:3:5:1'), 'new') }), 0,
   'another one without: it is not');

# while it answers: the answer may be older than the event

works($new[3]);
$t->control('config', { strict => JSON::PP::true, rules => [
    { url => '^/session/status', delay => 600, times => 1 }] });
$c = $t->send_message($new[3], 'text:3:5:1');
wait_for(sub { grep { /status/ } ($t->upstream())[-1] });
works($new[4]);
$t->wait([$c]);
check_turn($c, 'a slow answer');
is(asked(sub { check_turn($t->turn($new[4], 'text:3:5:1'), 'meanwhile') }), 1,
   'events while it answers count');

# events that were missed may have been of any session

$t->control('emit', { raw => "data: nonsense\n\n" });
wait_for(sub { $t->status()->{opencode}{events_skipped} });
is(asked(sub { check_turn($t->turn($new[5], 'text:3:5:1'), 'nonsense') }), 1,
   'an event that cannot be read: it is asked');
is(asked(sub { check_turn($t->turn($new[6], 'text:3:5:1'), 'new') }), 0,
   'once');

$t->control('close', {});
is(asked(sub { check_turn($t->turn($new[7], 'text:3:5:1'), 'closed') }), 1,
   'the stream was away: it is asked');

# what OpenCode has listed counts, too

works($new[8]);
$t->control('config', { strict => JSON::PP::true, rules => [
    { url => '^/session/status', times => 1, status => 200,
      body => qq({"$new[9]":{"type":"busy"}}) }] });
check_turn($t->turn($new[8], 'text:3:5:1'), 'another one is busy');
is(asked(sub { check_turn($t->turn($new[9], 'text:3:5:1'), 'listed') }), 1,
   'a session that was busy: it is asked');

# an answer that is none

works($nobody);
$t->control('config', { strict => JSON::PP::true, rules => [
    { url => '^/session/status', status => 500, body => '{}', times => 1 }] });
check_turn($t->turn($nobody, 'text:3:5:1'), 'no answer at first');

# ---- the event stream is away

$t->control('restart', {});

is(lookups(sub { check_turn($t->turn($other, 'text:3:5:1'), 'restarted') }), 1,
   'OpenCode was restarted: the session is looked up');
is(lookups(sub { check_turn($t->turn($other, 'text:3:5:1'), 'restarted') }), 0,
   'and known afterwards');

$t->done();


# how many requests of this kind OpenCode gets meanwhile

sub requests {
    my ($method, $url, $do) = @_;
    my $before = grep { $_->{method} eq $method && $_->{url} =~ $url }
                      @{ $t->control('log') };

    $do->();

    return (grep { $_->{method} eq $method && $_->{url} =~ $url }
                 @{ $t->control('log') }) - $before;
}


sub lookups { return requests('GET', qr{^/session/ses_\w+$}, @_) }
sub asked { return requests('GET', qr{^/session/status}, @_) }
sub made { return requests('POST', qr{^/api/session$}, @_) }


sub made_ids {
    return map { JSON::PP::decode_json($_->{body})->{id} }
           grep { $_->{url} eq '/api/session' } @{ $t->control('log') };
}


# of the last prompt

sub directory {
    my ($prompt) = grep { $_->{url} =~ /prompt_async/ }
                        reverse @{ $t->control('log') };
    my ($dir) = $prompt->{url} =~ /directory=([^&]*)/;

    $dir =~ s/%(..)/chr hex $1/ge;

    return $dir;
}


# as OpenCode reports that it begins to work in a session

sub works {
    my ($session) = @_;

    $t->control('emit', { raw => 'data: {"id":"evt_x",'
        . qq("type":"session.status","properties":{"sessionID":"$session",)
        . qq("status":{"type":"busy"}}}\n\n) });
}


# somebody else, not through the module

sub opencode {
    my ($method, $session, $body) = @_;

    is($t->request($method, "/session/$session", port => $t->{port_opencode},
                   defined $body ? (body => $body) : ())->status(),
       200, "$method in OpenCode");
}


# the last text that OpenCode has stored

sub said {
    my ($session) = @_;
    my $messages = JSON::PP::decode_json($t->request('GET',
        "/session/$session/message", port => $t->{port_opencode})->body());

    return join '', map { $_->{text} // '' }
                    grep { $_->{type} eq 'text' } @{ $messages->[-1]{parts} };
}
