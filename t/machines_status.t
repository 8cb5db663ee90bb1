#!/usr/bin/perl

# What agentstream_status says of a store: the turns of other machines that are
# copied, how long Redis takes to acknowledge packets, packets that it has not
# acknowledged, and leases that could not be renewed.
#
# Broken by: a copy that is not counted, or counted for ever; a round trip that
# is not measured; packets that seem to be stored while Redis is away, or to wait
# for ever; a lease that ends unnoticed, or is said to end when it was renewed.

use FindBin;
use lib "$FindBin::Bin/lib";

use AgentStream;
use AgentStream::Attach;
use AgentStream::Machines;

my $m = AgentStream::Machines->new(2);
my ($x, $y) = $m->machines();
my $s = $x->session();

# a turn that is read elsewhere

my $c = $x->send_message($s, 'text:110:24:100');
hear($x, $c, 4);
my $d = $y->open(events_of($s));
hear($y, $d, 5);

is(of($y, 'turns_copied'), 1, 'a turn is copied');
is(of($x, 'turns_copied'), 0, 'not on its own machine');
cmp_ok(of($y, 'packets_copied'), '>=', 4, 'packets are copied');

my $trips = $x->status()->{histograms}{store_round_trip};

cmp_ok($trips->{count}, '>=', 1, 'round trips are measured');
cmp_ok($trips->{sum_ms} / $trips->{count}, '<', 1000, 'in milliseconds');
is($y->status()->{histograms}{store_round_trip}{count}, 0,
   'a copy stores nothing');

# Redis is away for longer than a lease

$m->{redis}->stop('KILL', 5);
ok(wait_for(sub { of($x, 'packets_waiting') > 5 }), 'Redis is away: packets wait');
is(of($x, 'leases_lost'), 0, 'Redis is away: the lease is not over yet');
ok(wait_for(sub { of($x, 'leases_lost') == 1 && of($y, 'leases_lost') == 1 }, 12),
   'Redis is away: both leases end, once');

$m->start_redis();
ok($m->connected(), 'Redis is back');
ok($x->wait([$c], timeout => 30) && $y->wait([$d], timeout => 30),
   'Redis is back: the turn ends for both');
is(join_raw($d), join_raw($c), 'Redis is back: with the same packets');
ok(wait_for(sub { of($x, 'packets_waiting') == 0 }), 'nothing waits any more');
ok(wait_for(sub { of($y, 'turns_copied') == 0 }), 'nothing is copied any more');
is(of($x, 'leases_lost'), 1, 'the lease is held again');

$m->done();


sub of {
    my ($t, $name) = @_;

    return $t->status()->{store}{$name};
}
