#!/usr/bin/perl

# Places in a queue whose worker was killed are freed by themselves, even if
# nobody sends to that session any more; those of living workers stay.
#
# Broken by: tickets that are only looked at when somebody comes
# (zone_sweep()), or a sweep that takes those of the living.

use FindBin;
use lib "$FindBin::Bin/lib";

use AgentStream;
use AgentStream::Attach;

my $t = AgentStream->new(attach(timeout => 60,
    http => 'agentstream_zone 1m retain=1s;',
    location => 'agentstream_busy queue;'));
my @workers = $t->workers();
my $s = $t->session();

my $a = on_worker($t, $workers[0], send_to($s, 'text:2:24:45000 n=0'));
hear($t, $a, 1);
my $free = $t->status()->{zone}{free_bytes};

# 64 bytes each: five pages or more

my @dead = map { on_worker($t, $workers[1], send_to($s, "text:1:24:0 n=$_")) }
           1 .. 340;
my $b = on_worker($t, $workers[0], send_to($s, 'text:1:24:0 n=999'));
my $taken;
ok(wait_for(sub { $taken = $free - $t->status()->{zone}{free_bytes};
                  $taken >= 5 * 4096 }, 5), 'they take room');

kill_worker($t, $workers[1]);
$t->wait(\@dead, timeout => 3);
$_->close() for @dead;

my $left;
ok(wait_for(sub { sleep(0.3);
                  $left = $free - $t->status()->{zone}{free_bytes};
                  $left <= 2 * 4096 }, 12), 'it comes back by itself');
note("$taken bytes were taken, $left are");
ok(turn_state($t, $s)->{running}, 'while the turn in front still runs');

$t->request('POST', "/sessions/$s/interrupt");
ok($t->wait([$a, $b], timeout => 20), 'who is alive has its turn');
check_turn($b, 'who is alive');
is(join(' ', prompt_numbers($t, $s)), '0 999', 'nobody else had one');

done_killed($t);
