#!/usr/bin/perl

# A worker that dies before Redis has said whether its turn begins.  The turn is
# an orphan like any other: prompts that come later do not wait for it, neither
# with the same client_request_id nor with another one.
#
# Broken by: a turn whose owner is dead, that counts as one of which Redis has not
# said yet whether it begins (zone_taken_locked()), or does after somebody has
# claimed it (store_claim()).

use FindBin;
use lib "$FindBin::Bin/lib";

use AgentStream;
use AgentStream::Attach;
use AgentStream::Machines;
use Time::HiRes qw(sleep);

my $m = AgentStream::Machines->new(2, workers => 2, tunnels => 1, killed => 1);
my ($x, $y) = $m->machines();
my $s = $y->session();

$m->tunnel('hold', 'redis2');
my $c = $y->send_message($s, request('one'));

# sent to Redis, which does not answer
sleep(0.5);
kill 'KILL', $_ for $y->workers();
sleep(0.5);
$m->tunnel('up', 'redis2');
ok(wait_for(sub { $y->status()->{store}{connected} }, 15), 'connected again');

# until the leases of the dead workers are over
sleep(7);

for my $id ('one', 'two') {
    my $d = $y->send_message($s, request($id));

    ok($y->wait([$d], timeout => 15), "$id: it is answered");
    like($d->status() // '', qr/^(?:200|502)$/, "$id: and not refused as busy");
}

check_turn($y->turn($s, request('three')), 'the next one');
$c->close();
$m->finish();
done_testing();


sub request {
    my ($id) = @_;

    return { content => 'text:2:24:0', client_request_id => $id };
}
