#!/usr/bin/perl

# A packet for which the zone has enough pages, but not contiguous ones, is
# kept in pieces: its readers get it whole, and so does the worker that takes
# the turn over.
#
# Broken by: pieces that are copied in another order, or not for the successor
# (journal_copy(), journal_walk()); pieces that are not freed with their block.

use FindBin;
use lib "$FindBin::Bin/lib";

use AgentStream;
use AgentStream::Attach;

my $t = AgentStream->new(attach(timeout => 60,
    http => 'agentstream_zone 512k retain=60s;'));
my ($worker, $other) = $t->workers();
my (@s, @c, $c, $d, $s);


# every other turn is over: no two free pages are neighbours

for (1 .. 26) {
    push @s, $t->session();
    push @c, on_worker($t, $other, send_to($s[-1],
                                           'text:1:1200:0 fault=noidle'));
    hear($t, $c[-1], 3);
    $t->turn($t->session(), 'text:1:1200:0');
}

$t->turn($t->session(), 'text:30:40:0') for 1 .. 12;

$s = $t->session();
$c = on_worker($t, $worker, send_to($s, 'text:5:7000:300'));
hear($t, $c, 5);
kill_worker($t, $worker);
$t->wait([$c], timeout => 2);
$d = events($t, $s);
ok($t->wait([$d], timeout => 20), 'taken over: it ends');
check_turn($d, 'taken over');
check_text($d, $t->messages($s), 'taken over');
is((join_raw($d) =~ /^\Q${\ join_raw($c)}\E/) ? 1 : 0, 1,
   'taken over: it begins with what was sent');

$s = $t->session();
$c = $t->turn($s, 'text:5:7000:20');
check_turn($c, 'another one');
is(join_raw($t->request(events_of($s))), join_raw($c),
   'another one: read again');

$t->control('emit', { event => { type => 'session.idle',
                                 properties => { sessionID => $_ } } }) for @s;
ok($t->wait(\@c, timeout => 20), 'the others end');
is(scalar(grep { check_turn($_, 'other', quiet => 1) } @c), 26,
   'and are whole');
is($t->status()->{turns}{failed}, 0, 'no turn has failed');

done_killed($t);
