#!/usr/bin/perl

# A cursor older than what is kept: "stream_reset" says so, then follows the
# turn so far, rebuilt from OpenCode's messages, to its end; there is never a
# silent gap. agentstream_turn_size drops a turn's oldest packets, an eviction
# or a restart of nginx drops all of them.
#
# Broken by: a cursor clamped to the oldest packet; a rebuilt turn that ends
# with the message it found first; text sent twice when the turn is read again;
# a rebuilt end that an EventSource asks for again and again; 204 for who has no
# cursor while OpenCode works; a turn that is told by OpenCode's messages and by
# its journal, too; a compaction's message taken for a prompt; the session's
# later turns told as parts of this one; an error whose response stays open
# for who follows (args.after not cleared in rebuild_fail()); messages that
# cannot be read taken for none (NGX_OK for all of them in opencode_turn()).

use FindBin;
use lib "$FindBin::Bin/lib";

use AgentStream;
use AgentStream::Attach;

my $t = AgentStream->new(attach(timeout => 90, listen => 'sndbuf=16k',
    server => '
        location /small {
            agentstream /opencode/;
            agentstream_turn_size 32k;
        }'));
my @workers = $t->workers();
my ($c, $s, $d);


# a running turn drops its oldest packets; a client that keeps up sees all of
# them

$s = $t->session();
$c = on_worker($t, $workers[0], 'POST', "/small/$s/send-message",
               body => { content => 'text:150:500:10' });
hear($t, $c, 1);
my $fast = on_worker($t, $workers[1], events_of($s));
my $slow = AgentStream::Client->curl(
    "http://127.0.0.1:$t->{port_pid}/sessions/$s/events");

hear($t, $_, 3) for $c, $fast, $slow;
$slow->{process}->signal('STOP');
hear($t, $c, 100);
my $early = ($c->packets())[4]{id};
my $live = events($t, $s, $early);      # too old, while the turn runs
my $new = events($t, $s);               # all of it, and that is not there
$t->wait([$c, $fast]);
check_turn($c, 'small: the sender');
is(join_raw($fast), join_raw($c), 'small: a reader that keeps up');

# slow before sndbuf and rcvbuf are empty: the rest is rebuilt or whole

$slow->{process}->signal('CONT');
ok($t->wait([$slow, $live, $new], timeout => 15), 'small: the others end');
is_rebuilt($live, $c, 'too old, live');
is_rebuilt($new, $c, 'from the start, live');
is_rebuilt($slow, $c, 'slow', 1);

$d = $t->request(events_of($s, $early), timeout => 10);
is_rebuilt($d, $c, 'too old, over');
is(packet_json(($d->packets())[0])->{reason}, 'journal_dropped',
   'too old, over: the turn is kept, its first packets are not');
my ($s_small, $d_small) = ($s, $d);
$d = $t->request(events_of($s), timeout => 10);
is_rebuilt($d, $c, 'from the start, over');

# a cursor that is still there is not reset

my @p = $c->packets();
$d = $t->request(events_of($s, $p[-10]{id}));
is(join_raw($d), join("\n", map { $_->{raw} } @p[-9 .. -1]),
   'still there: just the rest');
is($t->request(events_of($s, $p[-1]{id}))->status(), 204, 'all of it: 204');

# tools, thoughts, several messages: what is rebuilt says the same

for my $name (qw(tools-sequence text-interleaved)) {
    $s = $t->session();
    $c = $t->turn($s, "replay:$name");
    my $small = $t->session();
    my $e = $t->request('POST', "/small/$small/send-message",
                        body => { content => "replay:$name" });
    is(join(' ', types($e->packets())), join(' ', types($c->packets())),
       "$name: live is live");
}


# nginx restarted while turns run, and after one ended

my @turns = map { { s => $t->session(), order => $_ } }
            'text:40:24:100', 'text:60:24:100', 'text:3:24:0';
$_->{c} = $t->send_message($_->{s}, $_->{order}) for @turns;
my $s_follow = $t->session();
my $followed = $t->send_message($s_follow, 'text:50:24:100');
$t->wait([$turns[2]{c}]);
hear($t, $_, 5) for $followed, map { $_->{c} } @turns;
restart_nginx($t);

for (@turns) {
    $_->{id} = ($_->{c}->packets())[-1]{id};
    $_->{d} = events($t, $_->{s}, $_->{id});
}

# without a cursor it is the turn that OpenCode works on

my $late = events($t, $turns[0]{s});
my $follow = events($t, $s_follow, undef, query => 'follow=1');

is($t->request(events_of($turns[2]{s}))->status(), 204,
   'restart: no cursor, nothing runs');
ok($t->wait([$late, map { $_->{d} } @turns], timeout => 20),
   'restart: all end');

for (@turns[0, 1]) {
    is_rebuilt($_->{d}, $_->{c}, "restart: $_->{order}", 0, $_->{s});
}

is_rebuilt($late, $turns[0]{c}, 'restart: no cursor', 0, $turns[0]{s});

$t->wait([$follow], until => sub {
    grep { $_ eq 'prompt_response' } types($_[0]->packets()) });
my @rebuilt = types($follow->packets());
is(join(' ', @rebuilt[0, 1, -1]), 'stream_reset turn_started prompt_response',
   'restart: follow, no cursor');
$c = $t->turn($s_follow, 'text:3:24:0');
follows($follow, 'restart: follow', @rebuilt, types($c->packets()));

# An EventSource comes back with the last id it got, also after the end: it
# must be told to stop, or it goes round for ever.  Who had all of a turn that
# is not kept any more may get it once again.

for (@turns, { s => $s_small, id => $early, d => $d_small }) {
    my ($id) = grep { defined } (map { $_->{id} } reverse $_->{d}->packets()),
                                $_->{id};

    is($t->request(events_of($_->{s}, $id), timeout => 10)->status(), 204,
       'a rebuilt turn is not sent again and again');
}

# without a cursor nobody knows what turn is meant when none runs

is($t->request(events_of($turns[0]{s}))->status(), 204,
   'restart: no cursor, nothing retained');

# the session takes its next turn while the old one is still running upstream?
# OpenCode says that it is busy, the module does not know

$c = $t->turn($turns[0]{s}, 'text:3:24:0');
check_turn($c, 'restart: the next turn');

# a client that follows gets a turn once that begins while OpenCode is asked

$s = $t->session();
$t->control('config', { rules => [{ url => "^/session/$s\$", times => 1,
                                    delay => 500 }] });
$follow = events($t, $s, undef, query => 'follow=1');
sleep(0.2);
$c = $t->turn($s, 'text:15:24:100');
follows($follow, 'begins meanwhile', types($c->packets()));

# nor does somebody else's turn go unseen, or a broken answer

$s = $t->create_session();
$t->request('POST', "/session/$s/prompt_async", port => $t->{port_opencode},
            body => { messageID => 'msg_000000000001AAAAAAAAAAAAAA',
                      parts => [{ type => 'text', text => 'text:100:8:100' }] });
ok(wait_for(sub { @{ $t->messages($s) } > 1 }), 'not ours: it runs');
$t->control('config', { rules => [{ url => '^/session/status',
                                    body => '[', status => 200 }] });
fails($s, undef, 502, 'not ours: no answer to the status');

for my $body ('<html>', '{}', '[{"info":{"id":"msg_"}}]') {
    $t->control('config', { rules => [{ url => '/message\b', body => $body,
                                        status => 200 }] });
    is($_->{message}, "OpenCode's answer makes no sense", "not ours: $body")
        for fails($s, undef, 502, "not ours: messages are $body");
}

$t->control('config', { rules => [{ url => '/message\b', times => 1,
                                    body => '[]', status => 200 }] });
is($t->request(events_of($s))->status(), 204, 'not ours: no messages');
$d = $t->request(events_of($s), timeout => 25);
is(join(' ', (types($d->packets()))[0, 1, -1]),
   'stream_reset turn_started prompt_response', 'not ours: to its end');
is(joined_text($d), stored_text($t->messages($s),
                                'msg_000000000001AAAAAAAAAAAAAA'),
   'not ours: the text that was stored');
$t->control('config', { rules => [] });

# a compaction puts messages of its own into a turn

$s = $t->session();
$c = $t->send_message($s, 'replay:overflow-error:2 delay=250');
hear($t, $c, 1);
ok(wait_for(sub { @{ $t->messages($s) } >= 3 }, 30), 'compaction: it is there');
restart_nginx($t);
$d = events($t, $s);
ok($t->wait([$d], timeout => 30), 'compaction: it ends');
is_turn($d, turn_id($c), 'compaction');
ok(length joined_text($d), 'compaction: what followed it, too');

# a later turn is not told as a part of this one: with a cursor, both over

$s = $t->session();
my @two = map { $t->turn($s, $_) } 'text:4:24:0', 'text:5:24:0';
restart_nginx($t);
$d = $t->request(events_of($s, ($two[0]->packets())[2]{id}), timeout => 10);
is_turn($d, turn_id($two[0]), 'the former of two');
is(joined_text($d), joined_text($two[0]), 'the former of two: its text');

# and a client that follows gets each turn once: a turn begins when the rebuilt
# one has just ended; while it runs, the session is busy

for my $cursor (0, 1) {
    for my $more (0, 1) {
        my $name = ($cursor ? 'cursor' : 'no cursor')
                   . ($more ? ', while it runs' : ', just over');

        $s = $t->session();
        $c = $t->send_message($s, $more ? 'text:200:24:100' : 'text:20:24:100');
        hear($t, $c, 5);
        my ($id, $last) = (turn_id($c), ($c->packets())[-1]{id});
        restart_nginx($t);
        $d = events($t, $s, $cursor ? $last : undef, query => 'follow=1');
        $t->wait([$d], until => sub { $_[0]->packets() > 1 });

        if (!$more) {
            wait_for(sub { ($t->messages($s)->[-1]{info}{finish} // '')
                           eq 'stop' }, 10);
        }

        my $text = stored_text($t->messages($s), $id);
        my $next = $t->turn($s, 'text:10:24:150');

        if ($more) {
            is_error_packet($next->response(), 409, "$name: refused");
            $d->close();
            next;
        }

        my $end = ($next->packets())[-1]{id};

        ok($t->wait([$d], timeout => 15, until => sub {
            grep { ($_->{id} // '') eq $end } $_[0]->packets() }),
           "$name: the next one, too");

        my @p = $d->packets();
        my ($at) = grep { ($p[$_]{id} // '') =~ /:999999999999999$/ } 0 .. $#p;

        is(join("\n", map { $_->{raw} } @p[$at + 1 .. $#p]), join_raw($next),
           "$name: it is told once");
        is(join(' ', types(@p[0, 1])), 'stream_reset turn_started',
           "$name: the other before it");
        is(packet_json($p[1])->{turnId}, $id, "$name: it is that one");

        my ($message) = map { $_->{messageId} } grep { $_->{type} =~ /chunk$/ }
                        map { packet_json($_) } $next->packets();

        is(scalar(grep { (packet_json($_)->{messageId} // '') eq $message }
                  @p[0 .. $at]), 0, "$name: and not in the other one");
        is(join('', map { $_->{content}{text} // '' } map { packet_json($_) }
                    @p[0 .. $at]),
           $text, "$name: its text");
        is(packet_json($p[$at])->{type}, 'prompt_response', "$name: its end");

        $d->close();
    }
}

# a cursor of a turn OpenCode does not know

$d = $t->request(events_of($t->session(),
                           'msg_000000000000AAAAAAAAAAAAAA:3'));
is($d->status(), 204, 'a turn nobody knows: 204');

# OpenCode gone after a restart

$t->control('config', { rules => [{ url => '^/session/', drop => 1 }] });
fails($turns[1]{s}, $turns[1]{id}, 502, 'OpenCode gone');
$t->control('config', { rules => [] });

# or the session

fails('ses_unknown', undef, 404, 'no such session');

done_killed($t);


# an error is the whole response, also for a client that follows

sub fails {
    my ($session, $id, $status, $name) = @_;
    my @packets;

    local $Test::Builder::Level = $Test::Builder::Level + 1;

    for my $query (undef, 'follow=1') {
        my $client = $t->request(events_of($session, $id, query => $query));

        push @packets, is_error_packet($client->response(), $status,
                            join ', ', $name, $query // (), $status);
        is($client->ended(), 'clean', "$name: and nothing else");
    }

    return @packets;
}


# one turn, and this one

sub is_turn {
    my ($client, $id, $name) = @_;
    my @packets = $client->packets();
    my @types = types(@packets);

    local $Test::Builder::Level = $Test::Builder::Level + 1;

    is("@types[0, 1, -1]", 'stream_reset turn_started prompt_response',
       "$name: rebuilt");
    is(packet_json($packets[1])->{turnId}, $id, "$name: the turn");
    is(scalar(grep { /^(turn_started|prompt_response)$/ } @types), 2,
       "$name: one");
}


sub follows {
    my ($client, $name, @types) = @_;

    local $Test::Builder::Level = $Test::Builder::Level + 1;

    $t->wait([$client], timeout => 5, until => sub {
        $_[0]->packets() >= @types });
    # nothing comes behind it
    $t->wait([$client], timeout => 0.3, until => sub {
        $_[0]->packets() > @types });
    is(join(' ', types($client->packets())), "@types", "$name: each once");
    $client->close();
}


# stream_reset, turn_started, the text as stored, one end

sub is_rebuilt {
    my ($client, $of, $name, $late, $session) = @_;
    my @packets = $client->packets();
    my @types = types(@packets);

    local $Test::Builder::Level = $Test::Builder::Level + 1;

    if ($late) {
        # some of it came before
        shift @packets while @packets
            && packet_json($packets[0])->{type} ne 'stream_reset';

        if (!@packets) {
            is(join_raw($client), join_raw($of), "$name: nothing was lost");
            return;
        }

        @types = types(@packets);
    }

    is("$types[0] $types[1]", 'stream_reset turn_started',
       "$name: begins with stream_reset") or diag("@types[0 .. 5]");
    is(scalar(grep { /^stream_reset$/ } @types), 1, "$name: once");
    ok(length(packet_json($packets[0])->{reason} // ''), "$name: a reason");
    is(packet_json($packets[1])->{turnId}, turn_id($of), "$name: the turn");
    is(join(' ', grep { /^(prompt_response|error)$/ } @types),
       'prompt_response', "$name: one end");
    is($types[-1], 'prompt_response', "$name: at the end");
    is($client->ended(), 'clean', "$name: ends in good order");

    my $rebuilt = bless { responses => [bless { packets => \@packets },
                          ref $client->response()] }, ref $client;
    my $text = stored_text($t->messages($session // $s), turn_id($of));

    ok(joined_text($rebuilt) eq $text, "$name: the text that was stored")
        or diag(length(joined_text($rebuilt)) . ' of ' . length $text);
}
