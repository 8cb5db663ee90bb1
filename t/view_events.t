#!/usr/bin/perl

# GET …/events?view=progress and view=delta: snapshots of a turn, at most one
# per interval, and the end of the turn always.
#
# Broken by: a snapshot that is not cumulative, or is sent again although it
# says nothing new; more of them than the interval allows; an end that is left
# out, or comes twice; a reconnect that does not begin with the whole text; a
# client that returns with the last id and does not get 204; a bad value that
# is not refused; a view of somebody else's session; memory that grows with the
# length of a turn or the number of snapshots.

use FindBin;
use lib "$FindBin::Bin/lib";

use utf8;

use AgentStream;
use AgentStream::Attach;

my $t = AgentStream->new(attach(timeout => 90, server => '
        location /owned {
            agentstream /opencode/;
            agentstream_owner $http_x_user;
        }'));
my @workers = $t->workers();
my ($s, $c, $d, @got);


# values that make no sense

$s = $t->session();

for my $query (qw! view= view=x view=Progress view=delta%20 view=progress2
                   view=progress&interval= view=progress&interval=99ms
                   view=progress&interval=61s view=delta&interval=x
                   view=delta&interval=-1s !)
{
    is_error_packet($t->request(events_of($s, undef, query => $query))
                      ->response(), 400, $query);
}

is($t->request(events_of($s, undef, query => 'view=progress'))->status(), 204,
   'no turn: 204');
is_error_packet($t->request(events_of('ses_unknown', undef,
                                      query => 'view=progress'))->response(),
                404, 'no such session: 404');


# text: 40 deltas in two seconds, on the other worker

$c = on_worker($t, $workers[0], send_to($s, 'text:40:24:50'));
hear($t, $c, 2);

my @views = map { on_worker($t, $workers[1], events_of($s, undef,
                  query => "view=$_&interval=300ms")) } qw(progress delta);

ok($t->wait([$c, @views]), 'they end with the turn');
check_turn($c, 'the sender');

# as many as there are intervals, and one each at both ends; on a busy machine
# the turn takes longer

my @times = map { $_->{time} } $c->packets();
my $allowed = ($times[-1] - $times[0]) / 0.3 + 3;

my $text = joined_text($c);

@got = snapshots($views[1], 'delta');
cmp_ok(scalar @got, '>=', 4, 'delta: several snapshots');
cmp_ok(scalar @got, '<=', $allowed, 'delta: not more than the interval allows');
is(scalar(grep { $_->{phase} ne 'content' } @got[0 .. $#got - 1]), 0,
   'delta: content');
is_deeply($got[-1], { phase => 'final', content => $text },
          'delta: the end has it all');
is(scalar(grep { index($got[$_]{content}, $got[$_ - 1]{content}) != 0 }
          1 .. $#got), 0, 'delta: each contains the one before');
is(scalar(grep { $got[$_]{content} eq $got[$_ - 1]{content} } 1 .. $#got - 1),
   0, 'delta: each says something new');

@got = snapshots($views[0], 'progress');
cmp_ok(scalar @got, '>=', 4, 'progress: several snapshots');
cmp_ok(scalar @got, '<=', $allowed, 'progress: not more than the interval allows');
is_deeply($got[-1], { phase => 'final', text => $text,
                      stopReason => 'end_turn' }, 'progress: the answer');
like($got[-2]{text}, qr/\A\S.*█\n\n⏳ Processing\.\.\.(?: \(\ds\))?\z/s,
     'progress: a cursor and the time');


# the same again: the last turn as one snapshot; with its id, nothing

for my $view (qw(progress delta)) {
    $d = $t->request(events_of($s, undef, query => "view=$view"));
    @got = snapshots($d, "$view again");
    is(scalar @got, 1, "$view again: one snapshot");
    is($got[0]{phase}, 'final', "$view again: the end");

    my $id = ($d->packets())[-1]{id};
    like($id, qr/^msg_\w+:\d+$/, "$view again: it has an id");
    is($t->request(events_of($s, $id, query => "view=$view"))->status(), 204,
       "$view: all of it known: 204");
    is($t->request(events_of($s, $id))->status(), 204,
       'and of its packets, too');

    # any other id means nothing, because a snapshot needs the whole turn

    my $first = ($c->packets())[3]{id};
    @got = snapshots($t->request(events_of($s, $first,
                                           query => "view=$view")), 'older');
    is($got[0]{content} // $got[0]{text}, $text, "$view: whole, from any id");
}


# a client that disconnects in the middle, on the other worker again

$s = $t->session();
$c = $t->open(send_to($s, 'text:30:24:50'));
hear($t, $c, 10);
$d = on_worker($t, $workers[0], events_of($s, undef, query => 'view=delta'));
hear($t, $d, 1);
$d->close();
my $before = packet_json(($d->packets())[0])->{content};
$d = on_worker($t, $workers[1], events_of($s, undef, query => 'view=delta'));
$t->wait([$c, $d]);
@got = snapshots($d, 'reconnected');
is(index($got[0]{content}, $before), 0, 'reconnected: what is there, at once');
is($got[-1]{content}, joined_text($c), 'reconnected: all of it');


# a pause: only the seconds change

$s = $t->session();
$c = $t->open(send_to($s, 'text:3:24:800'));
hear($t, $c, 1);
$d = events($t, $s, undef, query => 'view=progress&interval=100ms');
$t->wait([$c, $d]);
@got = map { $_->{text} } snapshots($d, 'a pause');
is(scalar(grep { $got[$_] eq $got[$_ - 1] } 1 .. $#got), 0,
   'progress: each says something new');


# tools, thoughts, discarded text, errors, questions

my %turns = turns('text-reasoning', 'read-ok', 'error-401',
                  'question-several');

like($turns{'text-reasoning'}{delta}[-1]{thinking}, qr/\S/,
     'thoughts are in the end');
like(join('|', map { $_->{text} } @{ $turns{'read-ok'}{progress} }), qr/🔧 Read/,
     'a tool call has a line');
is($turns{'error-401'}{delta}[-1]{phase}, 'error', 'delta: an error');
is($turns{'error-401'}{progress}[-1]{phase}, 'error', 'progress: an error');
like($turns{'error-401'}{progress}[-1]{text},
     qr/^❌ The agent could not finish: \S/, 'progress: in a sentence');

$c = $t->turn($s = $t->session(), 'replay:text-plain fault=wrongfinal');
is(scalar(grep { packet_json($_)->{type} eq 'chunks_discarded' }
          $c->packets()), 1, 'void text');
@got = snapshots($t->request(events_of($s, undef, query => 'view=delta')),
                 'discarded');
is($got[-1]{content}, joined_text($c), 'it is not in the view');
like($got[-1]{content}, qr/^Rewritten: /, 'but what replaces it');


# what is asked

$s = $t->session();
$c = $t->open(send_to($s, 'replay:question-several wait=1'));
$d = events($t, $s, undef, query => 'view=progress&interval=100ms&follow=1');
$t->wait([$d], until => sub { grep { packet_json($_)->{asked} } $d->packets() });
my ($asked) = map { $_->{asked}[0] } grep { $_->{asked} }
              map { packet_json($_) } $d->packets();
is($asked->{kind}, 'question', 'a question is asked');
like($asked->{id}, qr/^que_/, 'with its id');
like($asked->{text}, qr/\A❓ The agent has questions?:\n\n.*Reply with your /s,
     'as text');
like(packet_json(($d->packets())[-1])->{text}, qr/❓ Waiting for your answer/,
     'the agent waits');

$t->wait([$c], until => sub {
    grep { packet_json($_)->{type} eq 'question_asked' } $c->packets() });
my @questions = @{ (grep { $_->{type} eq 'question_asked' }
                    map { packet_json($_) } $c->packets())[0]{questions} };
is($t->request('POST', "/sessions/$s/questions/$asked->{id}/reply",
               body => { answers => [map { ['x'] } @questions] })->status(),
   200, 'it is answered');
$t->wait([$c]);
$t->wait([$d], until => sub {
    packet_json(($d->packets())[-1])->{phase} eq 'final' });
ok(!packet_json(($d->packets())[-1])->{asked}, 'nothing is asked any more');

# it follows the session

$c = $t->turn($s, 'text:3:24:50');
$t->wait([$d], until => sub {
    2 == grep { packet_json($_)->{phase} eq 'final' } $d->packets() });
is(packet_json(($d->packets())[-1])->{text}, joined_text($c),
   'the next turn follows');
$d->close();


# somebody else's session

my @mine = (headers => { 'X-User' => 'me' });
my @others = (headers => { 'X-User' => 'you' });

$c = $t->request('POST', '/owned/@x/send-message', @mine,
                 body => { content => 'text:3:5:1' });
check_turn($c, 'an owner\'s turn');
is($t->request('GET', '/owned/@x/events?view=progress', @mine)->status(), 200,
   'who has a session can view it');
my $id = packet_json(($c->packets())[0])->{sessionId};
is($t->request('GET', "/owned/$id/events?view=$_", @others)->status(), 404,
   "nobody else can: $_") for qw(progress delta);


# memory: a long turn with many snapshots, of which the client reads none for
# a while

SKIP: {
    skip 'a sanitized worker keeps memory', 2 if $ENV{AGENTSTREAM_ASAN};

    $s = $t->session();
    $t->turn($s, 'text:2000:400:0');
    view_all($s) for 1 .. 3;
    my @before = map { rss($_) } @workers;
    view_all($s) for 1 .. 30;
    my @after = map { rss($_) } @workers;

    cmp_ok($after[$_] - $before[$_], '<', 2048, "worker $_ grows by nothing")
        for 0, 1;
}


# a reload: what is read goes on in the old worker

$s = $t->session();
$c = $t->open(send_to($s, 'text:30:24:50'));
hear($t, $c, 5);
$d = events($t, $s, undef, query => 'view=delta&interval=100ms');
hear($t, $d, 1);
$t->reload();
ok($t->wait([$c, $d]), 'both end after a reload');
@got = snapshots($d, 'reloaded');
is($got[-1]{content}, joined_text($c), 'with the whole text');

$t->done();


sub snapshots {
    my ($client, $name) = @_;
    my @packets = $client->packets();

    is($client->status(), 200, "$name: 200");
    is($client->header('Content-Type'), 'text/event-stream', "$name: SSE");
    is(scalar(grep { defined $_->{id} } @packets[0 .. $#packets - 1]), 0,
       "$name: only the end has an id");

    return map { packet_json($_) } @packets;
}


# both views of captured turns

sub turns {
    my %turns;

    for my $name (@_) {
        my $session = $t->session();
        my @c = ($t->open(send_to($session, "replay:$name delay=10")));

        hear($t, $c[0], 1);

        push @c, map { events($t, $session, undef,
                              query => "view=$_&interval=100ms") }
                 qw(progress delta);
        ok($t->wait(\@c), "$name ends");

        $turns{$name} = { progress => [snapshots($c[1], $name)],
                          delta => [snapshots($c[2], $name)] };
        is($turns{$name}{delta}[-1]{content} // '', joined_text($c[0]),
           "$name: the same text")
            if $turns{$name}{delta}[-1]{phase} eq 'final';
    }

    return %turns;
}


sub view_all {
    my ($session) = @_;
    my @c = map { on_worker($t, $_, events_of($session, undef,
                                              query => 'view=delta')) }
            @workers;

    $t->wait(\@c);
}
