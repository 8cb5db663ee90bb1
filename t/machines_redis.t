#!/usr/bin/perl

# Redis has faults while turns run on two machines: it is stopped for longer
# than a lease, killed and started again, with and without its data, emptied,
# and full.  Running turns and their readers go on, numbers never stand for two
# packets, new prompts are refused while it is away, and afterwards all is as
# before.
#
# Broken by: a reader that waits for a Redis that is away; a turn whose records
# or end do not reach Redis after an outage; leases that an outage ends and
# that are taken for deaths; a prompt that is sent although Redis could not be
# asked.

use FindBin;
use lib "$FindBin::Bin/lib";

use AgentStream;
use AgentStream::Attach;
use AgentStream::Machines;

my $m = AgentStream::Machines->new(2, redis => { appendonly => 'yes' });
my ($x, $y) = $m->machines();

# the rest takes longer, and runs with "make test-machines" only
my $long = $ENV{AGENTSTREAM_MACHINES};

during('killed', 30, sub { $m->{redis}->stop('KILL', 5); sleep(1.5); refused();
                           $m->start_redis(appendonly => 'yes') });
during('restarted empty', 30, sub { $m->{redis}->stop('KILL', 5); sleep(0.3);
                              unlink glob "$m->{dir}/appendonlydir/*";
                              $m->start_redis() });
during('emptied', 30, sub { $m->redis('FLUSHALL') });
full() if $long;
stopped() if $long;

$m->done();


# a turn on each machine, read on both, while the fault happens

sub during {
    my ($name, $n, $fault) = @_;
    my @c;

    for my $t ($x, $y) {
        my $s = $x->session();
        my $sender = $t->send_message($s, "text:$n:24:100");
        hear($t, $sender, 4);
        my $other = $t == $x ? $y : $x;
        my $reader = $other->open(events_of($s));
        hear($other, $reader, 5);
        push @c, [$s, $sender, $reader, $t, $other];
    }

    $fault->();
    ok($x->wait([map { $_->[1] } @c], timeout => 20), "$name: turns go on");

    ok(wait_for(sub { $m->leases() == 2 }, 10), "$name: both are back");

    for (@c) {
        my ($s, $sender, $reader, $t, $other) = @$_;

        check_turn($sender, "$name: the sender");
        ok($t->wait([$reader], timeout => 10), "$name: the reader ends");
        check_text($reader, $t->messages($s), "$name: the reader");
        my $all = $other->request(events_of($s));
        is(join_raw($all), join_raw($sender), "$name: both have it all");
        is(prompts($t, $s), 1, "$name: one prompt");
        is($other->turn($s, 'text:2:24:0')->status(), 200,
           "$name: the next turn, elsewhere");
    }

    $m->check_all($name, map { ([$_->[1]], [$_->[2]]) } @c);
    unlike($x->log_text() . $y->log_text(), qr/taken (it )?over/,
           "$name: nobody is taken for dead");
}


# while Redis is away

sub refused {
    my $s = $x->session();
    my $c = $x->turn($s, 'text:1:24:0');

    is($c->status(), 503, 'away: a prompt is refused');
    like($c->body(), qr/The store cannot be reached/, 'away: and told why');
    is(prompts($x, $s), 0, 'away: no prompt is sent');
}


sub full {
    my $s = $x->session();
    my $c = $x->send_message($s, 'text:40:24:50');
    hear($x, $c, 4);
    my $d = $y->open(events_of($s));
    hear($y, $d, 4);

    $m->redis('CONFIG', 'SET', 'maxmemory', '1');
    my $n = $c->packets();
    ok($x->wait([$c], until => sub { $_[0]->packets() > $n + 10 }),
       'full: the turn goes on');
    is($y->turn($x->session(), 'text:1:24:0')->status(), 503,
       'full: a prompt is refused');
    ok($x->wait([$c]), 'full: the turn ends');
    $m->redis('CONFIG', 'SET', 'maxmemory', '0');

    ok($y->wait([$d]), 'full: the reader elsewhere gets the rest');
    is(join_raw($d), join_raw($c), 'full: all of it');
    is($y->turn($s, 'text:1:24:0')->status(), 200, 'full: the next turn');
    $m->check_all('full', [$c], [$d]);
}


# longer than a lease: nobody may be taken for dead when it goes on

sub stopped {
    sleep(6);
    during('stopped', 130, sub {
        $m->{redis}->signal('STOP');
        sleep(8);
        $m->{redis}->signal('CONT');
    });
}
