#!/usr/bin/perl

# A replica that lags is promoted: Redis has forgotten the last things that it
# had acknowledged.  As long as the owner of a turn lives, nobody notices it: it
# stores packets, ends, whole turns and takeovers again.  If the owner is lost at
# the same time, clients that had more get a stream_reset.
#
# Broken by: an owner that does not compare what Redis has with what it has
# stored (a PUT without GAP); a turn, an end or a takeover that is forgotten as
# soon as Redis has acknowledged it; a number that stands for two packets; a
# prompt that is sent again.

use FindBin;
use lib "$FindBin::Bin/lib";

use AgentStream;
use AgentStream::Attach;
use AgentStream::Machines;
use AgentStream::MachinesRun;
use AgentStream::Process qw(free_ports slurp);
use Time::HiRes qw(sleep);

my ($sentinel) = free_ports(1);
my (@processes, $control);

my $m = AgentStream::Machines->new(3, timeout => 120, store => sub {
    start('sentinel', 'node', "$FindBin::Bin/lib/resp.mjs", $sentinel);
    master($_[0]{port});
    return "sentinel://main\@127.0.0.1:$sentinel";
});
my ($x, $y, $z) = $m->machines();

# the rest waits for leases, so it is only a part of "make test-machines"
my $long = $ENV{AGENTSTREAM_MACHINES};

lives();
lost() if $long;

$_->stop('KILL', 5) for @processes;
$m->done();


# The owners live.  The turns: one that runs all the time, one that is begun, one
# that ends, and one that is taken over while the replica does not follow.

sub lives {
    my $replica = follow();
    my @names = (qw(runs begins ends), $long ? 'moves' : ());
    my %s = map { $_ => $x->session() } @names;
    my (%c, %d);

    # nobody is taken for dead before a lease has passed
    sleep(6.2) if $long;
    $c{moves} = $z->send_message($s{moves}, 'text:100:24:100') if $long;
    $c{runs} = $x->send_message($s{runs}, 'text:60:24:100');
    $c{ends} = $x->send_message($s{ends}, 'text:12:24:100');
    hear($x, $_, 6) for values %c;
    $d{$_} = $y->open(events_of($s{$_})) for keys %c;
    hear($y, $_, 7) for values %d;

    $m->redis('WAIT', 1, 1000);
    tunnel('hold', 'replica');

    $c{begins} = $x->send_message($s{begins}, 'text:60:24:100');
    hear($x, $c{begins}, 4);
    $d{begins} = $y->open(events_of($s{begins}));
    !$long or wait_for(sub { $m->expire_lease($z);
                             $y->log_text() =~ /taken over .* $s{moves}/ }, 10)
        or diag('moves: not taken over');
    ok($x->wait([$c{ends}, $d{ends}], timeout => 10), 'ends: before it fails');
    hear($x, $c{runs}, $c{runs}->packets() + 3);

    promote($replica);

    for my $t ($x, $y) {
        ok(wait_for(sub { $t->turn($s{ends}, 'text:1:24:0')->status() == 200 },
                    3), 'ends: the next turn begins');
    }

    for my $name (@names) {
        ok($x->wait([$c{$name}, $d{$name}], timeout => 20), "$name: both end");
        # the first owner may have shown what was not continued
        my $told = $name eq 'moves' && join_raw($c{$name}) =~ /"stream_reset"/;
        ok($told || join_raw($d{$name}) eq join_raw($c{$name}),
           "$name: the same");
        is(AgentStream::MachinesRun::text({ conns => [$c{$name}] }),
           joined_text($d{$name}), "$name: the same text");
        check_text($d{$name}, $x->messages($s{$name}), $name);
        is(prompts($x, $s{$name}), $name eq 'ends' ? 3 : 1, "$name: prompts");
    }

    check_text($y->request(events_of($s{$_})), $y->messages($s{$_}),
               "$_: later, elsewhere") for grep { $_ ne 'ends' } @names;
    $m->check_all('lives', map { [$c{$_}], [$d{$_}] } @names);
}


# The owner is lost with what the replica lacks: one turn is read on the machine
# that goes on with it, which has it all, the other one is not.

sub lost {
    my $replica = follow();
    my @s = map { $x->session() } 1, 2;

    sleep(6.2);
    my @c = map { $x->send_message($_, 'text:120:24:100') } @s;
    hear($x, $_, 8) for @c;
    my $d = $y->open(events_of($s[0]));
    hear($y, $d, 9);

    $m->redis('WAIT', 1, 1000);
    tunnel('hold', 'replica');
    hear($x, $_, $_->packets() + 10) for @c;
    hear($y, $d, scalar $c[0]->packets());
    $m->lose($x);
    promote($replica);

    my @e = map { $y->open(events_of($s[$_], ($c[$_]->packets())[-1]{id})) }
            0, 1;

    ok($y->wait([$d, @e], timeout => 30), 'lost: all end');

    ok(join_raw(@$_) !~ /"stream_reset"/, 'lost, but read: no difference')
        for [$d], [$c[0], $e[0]];
    ok(join_raw($c[1], $e[1]) =~ /"stream_reset"/,
       'lost, and not read: who had more is told');

    for ([0, $d], [0, $c[0], $e[0]], [1, $c[1], $e[1]]) {
        my ($i, @conns) = @$_;

        is(AgentStream::MachinesRun::text({ conns => \@conns }),
           stored_text($y->messages($s[$i]), turn_id($c[$i]), 'text'),
           'lost: all of it');
    }

    is(prompts($y, $_), 1, 'lost: one prompt') for @s;
    $m->check_all('lost', [$d], [$c[0], $e[0]], [$c[1], $e[1]]);
    is($y->turn($_, 'text:1:24:0')->status(), 200, 'lost: the next turn')
        for @s;
    my ($ends) = $m->redis('EVAL', "return redis.call('HGET', redis.call('KEYS',"
                 . " '*$s[0]*:m:' .. ARGV[1])[1], 'ends')", 0,
                 turn_id($c[0])) =~ /(\d+)/;
    cmp_ok($ends, '>=', scalar $c[0]->packets(),
           'lost: Redis knows where the first epoch ended');
}


# a replica that follows through a tunnel -> its port

sub follow {
    my ($port) = free_ports(1);
    my $name = "replica$port";

    start("tunnel$port", 'node', "$FindBin::Bin/lib/tunnel.mjs",
          "replica=$m->{port}");

    my $said = wait_for(sub { slurp("$m->{dir}/tunnel$port.log")
                              =~ /^listening (.+)$/m && $1 }, 20);
    ($control, my $tunnel) = split ' ', $said;

    mkdir "$m->{dir}/$name";
    $m->{next} = start($name, 'redis-server', '--port', $port, '--bind',
        '127.0.0.1', '--save', '', '--dir', "$m->{dir}/$name",
        '--repl-diskless-sync-delay', '0', '--replicaof', "127.0.0.1 $tunnel");

    wait_for(sub { $m->redis('INFO', 'replication') =~ /state=online/ }, 15)
        or die "the replica does not follow\n";

    return $port;
}


# the master is gone, and the replica has got what it has got

sub promote {
    my ($port) = @_;

    $m->{redis}->stop('KILL', 5);
    tunnel('reset', 'replica');
    $m->{redis} = $m->{next};
    $m->{port} = $port;
    $m->redis('REPLICAOF', 'NO', 'ONE');
    master($port);
    my @left = grep { !$_->{lost} } $x, $y, $z;
    ok(wait_for(sub { @left == grep { $_->log_text() =~ /connected to \S+:$port\b/
                                      && $_->status()->{store}{connected} }
                      @left }, 20), 'the replica is used');
}


# what the Sentinel says

sub master {
    my ($port) = @_;
    my $length = length $port;
    my $r = bless { port => $sentinel }, 'AgentStream::Machines';

    wait_for(sub { $r->redis('CONTROL', '{"SENTINEL": "*2\\r\\n$9\\r\\n'
               . "127.0.0.1\\r\\n\$$length\\r\\n$port\"}") =~ /^\d/ }, 10)
        or die "the Sentinel does not run\n";
}


sub tunnel {
    local $m->{port_control} = $control;

    return $m->tunnel(@_);
}


sub start {
    my ($name, @command) = @_;
    my $dir = $m ? $m->{dir} : AgentStream->build() . '/t';

    push @processes, AgentStream::Process->start(command => \@command,
                         out => "$dir/$name.log");

    return $processes[-1];
}
