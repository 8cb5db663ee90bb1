#!/usr/bin/perl

# OpenCode dies in the middle of a turn, and is restarted or not: the client
# keeps what it received, and the turn ends with an error that says what
# happened.  If OpenCode reports too early that the session is idle, it is
# asked again.  The same between two steps, when no answer is open; but a
# rejected permission request ends a turn in that state, and nothing is lost.
#
# The same between two steps, when no answer is open; but a rejected permission
# request ends a turn in that state, and nothing is lost.
#
# Broken by: any answer that ends the turn as if it were whole; an idle that is
# believed at once; a turn that is followed for ever, or waits 30 seconds for a
# server that has just started.

use FindBin;
use lib "$FindBin::Bin/lib";

use AgentStream;
use AgentStream::Attach;

my $t = AgentStream->new(timeout => 120);
my ($s, $c);


# killed and back at once, and after a while

for my $down (0, 3) {
    ($s, $c) = running();
    $t->control('restart', {});
    rules({ url => '.', drop => 1 }) if $down;
    sleep($down);
    rules();
    ok($t->wait([$c], timeout => 30), "down for $down s: ends");
    lost($c, qr/^OpenCode has lost the turn$/, "down for $down s");
    check_turn($t->turn($s, 'text:3:24:0'), "down for $down s: the next turn");
}

# a client that comes back to a turn nobody knows here gets the same

($s, $c) = running();
$t->control('restart', {});
restart_nginx($t);
$c = $t->request(events_of($s, ($c->packets())[-1]{id}), timeout => 20);
is(packet_json(($c->packets())[-1] // {})->{message},
   'OpenCode has lost the turn', 'rebuilt: the error');

# down for good

($s, $c) = running();
$t->control('restart', {});
rules({ url => '.', drop => 1 });
ok($t->wait([$c], timeout => 40), 'down for good: ends');
lost($c, qr/^OpenCode cannot be reached$/, 'down for good');
rules();

# it only does not answer: what it works on is aborted

($s, $c) = running(500);
rules({ url => '/session/status', status => 500, body => '{}' });
$t->control('close', {});
ok($t->wait([$c], timeout => 40), 'no status: ends');
lost($c, qr/^OpenCode cannot be reached$/, 'no status');
is(scalar(grep { m{^POST /session/$s/abort} } $t->upstream()), 1,
   'no status: aborted');
rules();

# a call that a server has accepted while it started, and never answers

($s, $c) = running();
rules({ url => '/session/status', hang => 1, times => 1 });
$t->control('close', {});
ok($t->wait([$c], timeout => 25), 'no answer: ends, in less than 30 s');
check_turn($c, 'no answer');
check_text($c, $t->messages($s), 'no answer');
rules();

# idle, says the status, but the answer has just begun

($s, $c) = running();
rules({ url => '/session/status', status => 200, body => '{}', times => 1 });
$t->control('close', {});
ok($t->wait([$c], timeout => 30), 'called idle too early: ends');
check_turn($c, 'called idle too early');
check_text($c, $t->messages($s), 'called idle too early');
is(packet_json(($c->packets())[-1])->{stopReason}, 'end_turn',
   'called idle too early: ends well');

# killed after a step, before the next one has begun

$s = $t->session();
$c = $t->send_message($s, 'replay:tools-sequence fault=onestep');
called($c);
$t->control('restart', {});
ok($t->wait([$c], timeout => 30), 'between steps: ends');
check_turn($c, 'between steps');
is(ending($c), 'OpenCode has lost the turn', 'between steps: the error');

restart_nginx($t);
is(ending($t->request(events_of($s, turn_id($c) . ':1'), timeout => 20)),
   'OpenCode has lost the turn', 'between steps, rebuilt: the error');
check_turn($t->turn($s, 'text:3:24:0'), 'between steps: the next turn');

# the same after a call that was rejected: there is no next step

for my $what (qw(permission question)) {
    $s = $t->session();
    $c = $t->send_message($s, "replay:$what-reject fault=onestep");
    called($c);
    $t->control('restart', {});
    ok($t->wait([$c], timeout => 30), "$what rejected: ends");
    check_turn($c, "$what rejected");
    is(ending($c), 'end_turn', "$what rejected: ends well");

    restart_nginx($t);
    is(ending($t->request(events_of($s, turn_id($c) . ':1'), timeout => 20)),
       'end_turn', "$what rejected, rebuilt: ends well");
}

done_killed($t);


# until the first call is done

sub called {
    my ($client) = @_;

    $t->wait([$client], timeout => 20, until => sub {
        grep { (packet_json($_)->{status} // '') =~ /^(completed|failed)$/ }
             $_[0]->packets() });
    sleep(0.3);
}


sub ending {
    my ($client) = @_;
    my $last = packet_json(($client->packets())[-1] // {});

    return $last->{message} // $last->{stopReason};
}


sub rules {
    $t->control('config', { rules => [@_] });
}


sub running {
    my ($n) = @_;
    my $session = $t->session();
    my $client = $t->send_message($session, sprintf 'text:%d:24:50', $n // 60);

    hear($t, $client, 8);

    return ($session, $client);
}


sub lost {
    my ($client, $message, $name) = @_;

    local $Test::Builder::Level = $Test::Builder::Level + 1;

    check_turn($client, $name);
    like(packet_json(($client->packets())[-1])->{message} // 'none', $message,
         "$name: the error");
    cmp_ok(scalar(grep { $_ eq 'agent_message_chunk' }
                  types($client->packets())), '>', 3,
           "$name: what was said is kept");
}
