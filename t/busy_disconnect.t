#!/usr/bin/perl

# The last client leaves: with "continue" the turn runs on and can be attached
# to again; with "abort" it is aborted upstream after agentstream_detach_timeout
# and ends as cancelled, unless somebody attaches before, on any worker.
#
# Broken by: a turn that belongs to its connection; a grace time counted from
# the turn's start; readers counted in the owner's worker only; a watcher that
# stays when its worker was killed; the abort sent more than once.

use FindBin;
use lib "$FindBin::Bin/lib";

use AgentStream;
use AgentStream::Attach;

my $t = AgentStream->new(attach(timeout => 90, server => '
        location /abort {
            agentstream /opencode/;
            agentstream_on_disconnect abort;
        }
        location /grace {
            agentstream /opencode/;
            agentstream_on_disconnect abort;
            agentstream_detach_timeout 2s;
        }'));
my @workers = $t->workers();
my ($c, $s, $d);


# continue: nobody there for most of the turn

$s = $t->session();
$c = $t->send_message($s, 'text:20:24:60');
my $id = cut_after($t, $c, 2);
ok(wait_for(sub { !turn_state($t, $s)->{running} }), 'continue: runs on');
$d = $t->request(events_of($s, $id));
my $all = $t->request(events_of($s));
check_turn($all, 'continue');
check_text($all, $t->messages($s), 'continue');
is(join_raw($c, $d), join_raw($all), 'continue: the rest can be had');
is(aborts($s), 0, 'continue: nothing aborted');

# abort: at once, that is within a second

$s = $t->session();
$c = sent('abort', $s, $workers[0]);
hear($t, $c, 3);
$c->close();
my $since = time();
ok(wait_for(sub { aborts($s) }, 3), 'abort: sent upstream');
cmp_ok(aborted_at($s) - $since, '<', 1.5, 'abort: at once');
is_cancelled($s, 'abort');

# ... and also when it left before the first packet

$s = $t->session();
$t->control('config', { rules => [{ url => "$s/prompt_async", times => 1,
                                    delay => 1500 }] });
$c = sent('abort', $s, $workers[0], 'text:30:24:100');
sleep(0.3);
$c->close();
ok(wait_for(sub { aborts($s) }, 5), 'abort: left before the first packet');
ok(wait_for(sub { !turn_state($t, $s)->{running} }), 'abort: it is over');
ok(wait_for(sub { $t->control('stats')->{playing} == 0 }, 8),
   'abort: nothing runs upstream');
$t->control('config', { rules => [] });

# a reader on the other worker keeps it

$s = $t->session();
$c = sent('abort', $s, $workers[0], 'text:30:24:60');
hear($t, $c, 1);
$d = on_worker($t, $workers[1], events_of($s));
hear($t, $d, 2);
$c->close();
$t->wait([$d]);
check_turn($d, 'abort: a reader on the other worker keeps it');
is(last_packet($d)->{stopReason}, 'end_turn', 'abort: to its good end');
is(aborts($s), 0, 'abort: nothing aborted');

# when the last of several leaves

$s = $t->session();
my @c = (sent('abort', $s, $workers[0], 'text:80:24:60'));
hear($t, $c[0], 1);
push @c, map { on_worker($t, $_, events_of($s)) } @workers, @workers;
hear($t, $_, 2) for @c;

for (0 .. 3) {
    $c[$_]->close();
    sleep(0.2);
}

is(aborts($s), 0, 'abort: one is still there');
$c[4]->close();
ok(wait_for(sub { aborts($s) }, 3), 'abort: the last one left');
is_cancelled($s, 'abort, several');

# grace: nobody comes back

$s = $t->session();
$c = sent('grace', $s, $workers[0]);
sleep(1);
hear($t, $c, 3);
$c->close();
$since = time();
ok(wait_for(sub { aborts($s) }, 6), 'grace: aborted');
cmp_ok(aborted_at($s) - $since, '>', 1.4, 'grace: not before its time');
cmp_ok(aborted_at($s) - $since, '<', 4, 'grace: not long after');
is_cancelled($s, 'grace');

# grace: somebody does, twice, on either worker; the time starts again

$s = $t->session();
$c = sent('grace', $s, $workers[0], 'text:50:24:100');
my @pieces = ($c);

for my $pid ($workers[1], $workers[0]) {
    my $id = cut_after($t, $pieces[-1], 3);
    sleep(1.2);
    push @pieces, on_worker($t, $pid, events_of($s, $id));
}

$t->wait([$pieces[-1]]);
is(join_raw(@pieces), join_raw($t->request(events_of($s))),
   'grace: came back, nothing lost');
is(last_packet($pieces[-1])->{stopReason}, 'end_turn',
   'grace: came back, to its good end');
is(aborts($s), 0, 'grace: nothing aborted');

# many reloads: a client in a worker of any generation is a client

$s = $t->session();
my @keep = ($t->send_message($t->session(), 'text:60:24:100'));

for (1 .. 4) {
    $t->reload();
    push @keep, $t->send_message($t->session(), 'text:50:24:100');
    hear($t, $keep[-1], 1);
}

my @many = map { sent('abort', $t->session(), $_, 'text:20:24:100') }
           my @now = newest();
$t->wait([@many, @keep], timeout => 20);
is(join(' ', map { last_packet($_)->{stopReason} // 'none' } @many),
   'end_turn end_turn', 'after many reloads: a client counts');

# a worker that was killed watches nothing

@workers = newest();
ok(wait_for(sub { $t->workers() == 2 }), 'old workers are gone');
$s = $t->session();
$c = sent('abort', $s, $workers[0], 'text:80:24:100');
hear($t, $c, 1);
$d = on_worker($t, $workers[1], events_of($s));
hear($t, $d, 1);
$c->close();
sleep(1);
is(aborts($s), 0, 'killed: watched by the other worker');
kill_worker($t, $workers[1]);
ok(wait_for(sub { aborts($s) }, 5), 'killed: watched by nobody');

done_killed($t);


sub sent {
    my ($where, $session, $pid, $order) = @_;

    return on_worker($t, $pid, 'POST', "/$where/$session/send-message",
                     body => { content => $order // 'text:80:24:100' });
}


sub aborts {
    my ($session) = @_;

    return scalar grep { $_ =~ m{^POST /session/\Q$session\E/abort} }
                  $t->upstream();
}


# when OpenCode heard of it, which this test may learn later

sub aborted_at {
    my ($session) = @_;

    return (map { $_->{time} }
            grep { $_->{url} =~ m{^/session/\Q$session\E/abort} }
            @{ $t->control('log') })[0];
}


sub last_packet {
    my ($client) = @_;

    return packet_json(($client->packets())[-1] // {});
}


sub is_cancelled {
    my ($session, $name) = @_;

    ok(wait_for(sub { !turn_state($t, $session)->{running} }),
       "$name: the turn is over");

    my $c = $t->request(events_of($session));

    check_turn($c, $name);
    is(last_packet($c)->{stopReason}, 'cancelled', "$name: cancelled");
    is(turn_state($t, $session)->{stopReason}, 'cancelled',
       "$name: the state says so");
    is(aborts($session), 1, "$name: aborted once");
    is($t->request(events_of($session, ($c->packets())[-1]{id}))->status(),
       204, "$name: nothing more");
    is($t->turn($session, 'text:2:24:0')->status(), 200,
       "$name: the session is free");
}


# the workers of the last generation; the master counts upwards

sub newest {
    return (sort { $b <=> $a } $t->workers())[0, 1];
}
