#!/usr/bin/perl

# GET …/events and …/turn: attach, replay, nothing to send, follow, retry, and
# cursors that make no sense.
#
# Broken by: 200 with an empty stream where 204 must stop an EventSource; a
# follower that misses a turn, or gets one twice; a cursor of another session
# that reads its packets; retry: sent again, or for everybody the same.

use FindBin;
use lib "$FindBin::Bin/lib";

use AgentStream;
use AgentStream::Attach;

my $t = AgentStream->new(attach(timeout => 90,
    location => 'agentstream_keepalive 1s;'));
my @workers = $t->workers();
my ($c, $s, @c);


# nothing there

$s = $t->session();
is($t->request(events_of($s))->status(), 204, 'no turn yet: 204');
is_error_packet($t->request(events_of('ses_unknown'))->response(), 404,
                'no such session: 404');
is_deeply(turn_state($t, $s), { turnId => undef, running => \0,
    stopReason => undef, packets => 0, questions => [], permissions => [] },
    'turn: none');

# running: attached on both workers; then over

$c = on_worker($t, $workers[0], send_to($s, 'text:10:24:50'));
hear($t, $c, 3);
my $state = turn_state($t, $s);
is_deeply($state, { turnId => turn_id($c), running => \1,
    stopReason => undef, packets => $state->{packets}, questions => [],
    permissions => [] }, 'turn: running');
cmp_ok($state->{packets}, '>=', 3, 'turn: packets so far');

@c = map { on_worker($t, $_, events_of($s)) } @workers;
ok($t->wait([$c, @c]), 'attached ones end with the turn');
check_turn($c, 'sender');
check_turn($_, 'attached') for @c;
is(join_raw($_), join_raw($c), 'the same bytes') for @c;

my $last = ($c->packets())[-1]{id};
is_deeply(turn_state($t, $s), { turnId => turn_id($c), running => \0,
    stopReason => 'end_turn', packets => scalar $c->packets(),
    questions => [], permissions => [] }, 'turn: over');

for my $pid (@workers) {
    my $d = on_worker($t, $pid, events_of($s, $last));
    $t->wait([$d]);
    is($d->status(), 204, "all of it known, worker $pid: 204");
    is($d->body(), '', '204 has no body');

    $d = on_worker($t, $pid, events_of($s));
    $t->wait([$d]);
    is(join_raw($d), join_raw($c), "no cursor, worker $pid: replayed whole");
    is($d->status(), 200, 'replayed: 200');
    is($d->header('Content-Type'), 'text/event-stream', 'replayed: SSE');
}

# retry: first of all and once, not always the same, not for the sender

unlike($c->body(), qr/^retry:/m, 'no retry: for the sender');
my %retry;

for (1 .. 8) {
    my $body = $t->request(events_of($s))->body();
    my @retry = $body =~ /^retry: (\d+)$/mg;

    $retry{$_} = 1 for @retry;
    ok(@retry == 1 && $body =~ /\Aretry: \d+\n\n/, 'retry: once, at the top');
}

ok(!(grep { $_ < 500 || $_ > 5000 } keys %retry), 'retry: some seconds');
cmp_ok(scalar keys %retry, '>', 2, 'retry: with jitter');

# the next turn of the session follows on the last packet of this one

my $d = $t->turn($s, 'text:3:24:0');
my $e = $t->request(events_of($s, $last));
is(join_raw($e), join_raw($d), 'after a whole turn comes the next one');
is(turn_id($t->request(events_of($s))), turn_id($d), 'replayed is the last');
$e = $t->request(events_of($s, ($c->packets())[2]{id}));
is(join_raw($c), join("\n", map { $_->{raw} } ($c->packets())[0 .. 2],
                      $e->packets()), 'an older turn is resumed as well');

# the header counts, not the query, as the browser's own is newer

$e = $t->request(events_of($s, ($d->packets())[1]{id},
    query => 'last_event_id=' . ($d->packets())[0]{id}));
is(scalar $e->packets(), $d->packets() - 2, 'the header before the query');

# cursors that make no sense: the last turn, from its first packet

for my $id ('', 'x', ':', ':1', '1:', 'msg_:', "msg_x:1", 'msg_x:99999999',
            turn_id($d), turn_id($d) . ':', turn_id($d) . ':x',
            turn_id($d) . ':-1', turn_id($d) . ':1x', turn_id($d) . ':0',
            '../../etc/passwd:1', '"\\', 'x' x 3000, "\xff\xfe:1",
            turn_id($d) . ':' . '9' x 40)
{
    my $name = length $id > 60 ? substr($id, 0, 50) . '...' : $id;

    $e = $t->request(events_of($s, $id));
    is(join_raw($e), join_raw($d), "cursor \"$name\": from the beginning");
}

$e = $t->request(events_of($s, turn_id($d) . ':99999999'));
is($e->status(), 204, 'a cursor behind the end: 204');

# another session's turn stays there

my $other = $t->session();
$t->turn($other, 'text:3:24:0');
$e = $t->request(events_of($other, ($d->packets())[0]{id}));
is(scalar(grep { $_->{id} =~ turn_id($d) } $e->packets()), 0,
   'another session\'s cursor gives nothing of it');
is(scalar $e->packets(), scalar $d->packets(), 'but the own turn, whole');

# a turn that failed before it began

$t->control('config', { rules => [{ method => 'POST', times => 1,
    url => '/prompt_async', status => 500, body => '{}' }] });
$s = $t->session();
$e = $t->turn($s, 'text:3:24:0');
my $p = is_error_packet($e->response(), $e->status(), 'a refused prompt');
is($e->status(), 500, 'with OpenCode\'s status');
$e = $t->request(events_of($s, undef, query => 'follow=1'),
                 timeout => 1);
is($e->status(), 200, 'a follower is not refused for it');
$e->close();

# a turn that is silent for a while: a client that attaches learns that it
# exists

$s = $t->session();
$c = $t->send_message($s, 'text:3:24:0 start=5000');
hear($t, $c, 1);
@c = map { on_worker($t, $_, events_of($s, ($c->packets())[0]{id})) } @workers;
ok($t->wait(\@c, timeout => 3, until => sub { $_[0]->status() }),
   'silent turn: headers at once');
$t->wait(\@c, timeout => 4, until => sub { $_[0]->comments() });
is(scalar(grep { ($_->comments())[0]{time} - $_->response()->{head_time} < 0.3 }
          grep { $_->comments() } @c), 0,
   'silent turn: headers long before the first comment');
is(scalar(grep { $_->comments() && !$_->packets() } @c), 2,
   'silent turn: kept alive, before anything is said');
$t->wait([$c, @c]);
is(join_raw($_), join("\n", map { $_->{raw} }
                      ($c->packets())[1 .. $c->packets() - 1]),
   'silent turn: the rest of it') for @c;


# follow: from before the first turn on, over several, on both workers

$s = $t->session();
my @f = map { on_worker($t, $_, events_of($s, undef, query => 'follow=1')) }
        @workers;

ok($t->wait(\@f, timeout => 5, until => sub { $_[0]->status() }),
   'follow: opened before there is anything');
is($_->status(), 200, 'follow: 200') for @f;

SKIP: {
    skip 'nobody follows', 9 if grep { ($_->status() // 0) != 200 } @f;

    my @turns = map { on_worker($t, $workers[$_ % 2],
                                send_to($s, "text:$_:24:10")) } 1;
    $t->wait(\@turns);
    push @f, events($t, $s, ($turns[0]->packets())[1]{id}, query => 'follow=1');
    push @f, events($t, $s, ($turns[0]->packets())[-1]{id},
                    query => 'follow=1');
    sleep(0.2);

    for my $n (2 .. 4) {
        push @turns, on_worker($t, $workers[$n % 2],
                               send_to($s, "text:$n:24:10"));
        $t->wait([$turns[-1]]);
    }

    my $all = join_raw(@turns);
    my $n = () = $all =~ /^id: /mg;

    $t->wait(\@f, timeout => 5, until => sub {
        ($_[0]->packets())[-1] && ($_[0]->packets())[-1]{id}
            eq ($turns[-1]->packets())[-1]{id} });

    is(join_raw($f[0]), $all, 'follow: all turns, once');
    is(join_raw($f[1]), $all, 'follow: on the other worker too');
    is(join_raw($f[2]), join("\n", (map { $_->{raw} }
        ($turns[0]->packets())[2 .. $turns[0]->packets() - 1]),
        join_raw(@turns[1 .. 3])), 'follow: from a cursor on');
    is(join_raw($f[3]), join_raw(@turns[1 .. 3]),
       'follow: from the end of a turn on');
    is(scalar(() = $_->body() =~ /^retry: /mg), 1, 'follow: retry: once')
        for @f;

    # a reload: they are told to come back, the old workers leave

    my @old = $t->reload();
    ok($t->wait(\@f, timeout => 3), 'follow: closed by a reload');
    is(join(' ', map { $_->ended() // 'open' } @f), 'clean clean clean clean',
       'follow: in good order');
    ok(wait_for(sub { !grep { kill 0, $_ } @old }, 2),
       'follow: keeps no old worker');

    my $g = events($t, $s, ($turns[-1]->packets())[-1]{id},
                   query => 'follow=1');
    my $more = $t->turn($s, 'text:3:24:0');
    $t->wait([$g], until => sub { $_[0]->packets() >= $more->packets() });
    is(join_raw($g), join_raw($more), 'follow: goes on after it');
    $g->close();
}

$_->close() for @f;

$t->done();
