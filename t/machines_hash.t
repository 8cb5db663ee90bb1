#!/usr/bin/perl

# The configuration of docs/machines.md for a balancer that sends all requests of
# a session to the same machine, without Redis: a session has one turn at a time,
# whoever asks; when its machine is lost, the client that comes back is sent
# there where the others' sessions stayed, and gets the turn after a reset.
#
# Broken by: a key that differs between the routes of a session; a balancer that
# buffers, or asks no other machine when one is lost.

use FindBin;
use lib "$FindBin::Bin/lib";

use AgentStream;
use AgentStream::Attach;
use AgentStream::Docs qw(example);

my $first = AgentStream->new(workers => 1, timeout => 100);
my @machines = ($first, map { AgentStream->new(workers => 1, nginx => 0,
                                  opencode => $first->{port_opencode}) } 1, 2);

for my $t (@machines[1, 2]) {
    $t->{fake} = $first->{fake};
    $t->start_nginx();
}

my $conf = example('machines.md', 'hash');

$conf =~ s/10\.0\.0\.$_:8080/127.0.0.1:$machines[$_ - 1]{port}/ for 1 .. 3;

my $b = AgentStream->new(nginx => 0, opencode => 'none', conf => $conf,
                         workers => 1);
$b->{fake} = $first->{fake};
$b->start_nginx();

# sessions that are on different machines

my %on;

for (1 .. 30) {
    my $s = $first->session();
    my @before = map { started($_) } 0 .. 2;

    check_turn($b->turn($s, 'text:1:24:0'), "a turn in $s") if $_ == 1;
    $b->turn($s, 'text:1:24:0') if $_ > 1;

    my ($at) = grep { started($_) != $before[$_] } 0 .. 2;

    $on{$at // 'nowhere'}{$s} = 1;
    last if 3 == keys %on && 1 < keys %{ $on{1} };
}

is(join(' ', sort keys %on), '0 1 2', 'sessions are on all machines');

my ($s, $same) = sort keys %{ $on{1} };
my ($other) = keys %{ $on{2} };

# one turn at a time, and all routes lead to it

my $c = $b->send_message($s, 'text:60:24:100');
hear($b, $c, 4);
is($b->turn($s, 'text:1:24:0')->status(), 409, 'busy: the same machine is asked');

my $d = $b->open(events_of($s));
hear($b, $d, 5);
is(join('', map { $_->{raw} } ($d->packets())[0 .. 3]),
   join('', map { $_->{raw} } ($c->packets())[0 .. 3]),
   'a reader gets the packets of this machine');

# its machine is lost

kill 'KILL', $machines[1]{master}{pid}, $machines[1]->workers();
ok($b->wait([$c, $d]), 'the machine is lost: the streams break');

my ($last) = (map { $_->{id} } $c->packets())[-1];
my $e = $b->open('GET', "/sessions/$s/events?last_event_id=$last");

ok($b->wait([$e], timeout => 30), 'the client comes back, until the turn ends');
like(($e->packets())[0]{data}, qr/^\{"type":"stream_reset"/,
     'it begins anew, after a reset');
is(joined_text($e), stored_text($first->messages($s), turn_id($c), 'text'),
   'and gets all of it');
is(prompts($first, $s), 2, 'no prompt is sent again');

my $before = started(2);
$b->turn($other, 'text:1:24:0');
is(started(2), $before + 1, 'sessions of other machines stay there');

# the end

wait_for(sub { $machines[1]{master}->exited() }, 5);

for my $t ($b, @machines[0, 2]) {
    $t->{active} //= $t->active();
    $t->check_exit();
}

$first->{fake}->stop('TERM', 5);
delete $_->{fake} for $b, @machines;
alarm(0);
done_testing();


sub started {
    my ($i) = @_;

    return $machines[$i]->status()->{turns}{started};
}
