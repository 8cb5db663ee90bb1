#!/usr/bin/perl

# The address of Sentinels: two machines find the master, and find the next one
# when it is lost, while a turn runs.  A prompt waits for a replica, but not for
# one that does not answer.  A Sentinel that names a server which is not the
# master is not believed.
#
# Broken by: a Sentinel that is not asked again, or only the first one; a
# password that is not sent to it; a connection that stays with the old master;
# a role that is not asked for; a prompt that is sent before a replica has
# acknowledged it, or that waits for ever.

use FindBin;
use lib "$FindBin::Bin/lib";

use AgentStream;
use AgentStream::Attach;
use AgentStream::Machines;
use AgentStream::Process qw(free_ports);
use AgentStream::Sentinel;
use Time::HiRes qw(sleep time);

my $sentinel = AgentStream::Sentinel->new();
my $m = AgentStream::Machines->new(2, store => sub { $sentinel->start($_[0]) });
my ($x, $y) = $m->machines();

waits();
fails_over();
lies();

$sentinel->stop();
$m->done();


# With a replica a prompt waits until it is acknowledged; then the replica is
# stopped, so that it does not acknowledge anything.  A busy machine may not let
# it do so in time: then the module says so, or does not wait until the replica
# follows again.  So it is enough if one of a few prompts finds it as it should
# be.

sub waits {
    my ($s, $before, $n, $early, $c, $told) = ($x->session());

    for (1 .. 6) {
        $before = unreplicated();
        check_turn($x->turn($s, 'text:2:24:0'), 'with a replica');
        last if unreplicated() == $before;
        note('the replica was late');
        sleep(2.5);
    }

    is(unreplicated(), $before,
       'with a replica: it has acknowledged the prompt');

    # it is asked whether it follows, while there are packets all the time
    ok(wait_for(sub { $x->log_text() =~ /a replica of \S+ follows/ }, 10),
       'with a replica: it follows');
    $told = told();
    check_turn($x->turn($s, 'text:70:24:50'), 'with a replica, a long turn');
    is(told(), $told, 'with a replica: also while much is stored');

    for (1 .. 6) {
        ($before, $n, $early, $told) = (unreplicated(), prompts($x, $s), 0, told());

        $sentinel->{replica}->signal('STOP');
        my $began = time();
        $c = $x->send_message($s, 'text:2:24:0');

        # on a slow machine it may be too late for this
        while (1) {
            my $sent = prompts($x, $s);
            last if time() - $began > 0.09;
            $early = 1 if $sent > $n;
        }

        ok($x->wait([$c]), 'replica stopped: but not for long');
        check_turn($c, 'replica stopped');
        last if unreplicated() > $before;
        note('no replica was known to follow');
        $sentinel->{replica}->signal('CONT');
        sleep(5);
    }

    ok(!$early, 'replica stopped: the prompt waits');
    is(unreplicated(), $before + 1,
       'replica stopped: the prompt was sent without it');

    # Redis is asked twice, two seconds apart
    ok(wait_for(sub { told() > $told }, 10), 'replica stopped: told');
    check_turn($x->turn($s, 'text:2:24:0'), 'replica stopped for longer');
    is(unreplicated(), $before + 1,
       'replica stopped for longer: the prompt did not wait');
    $sentinel->{replica}->signal('CONT');

    is(prompts($x, $s), $n + 2, 'replica stopped: one prompt each');
}


sub unreplicated {
    return $x->status()->{store}{prompts_unreplicated};
}


sub told {
    return scalar(() = $x->log_text() =~ /no replica of \S+ follows/g);
}


sub fails_over {
    my $s = $x->session();

    ok(wait_for(sub { $m->redis('INFO', 'replication') =~ /state=online/
                      && $m->redis('WAIT', 1, 1000) >= 0 }),
       'failover: the replica follows again');

    my $c = $x->send_message($s, 'text:60:24:100');
    hear($x, $c, 4);
    my $d = $y->open(events_of($s));
    hear($y, $d, 5);

    $m->{redis}->stop('KILL', 5);

    ok(wait_for(sub { $sentinel->master() == $sentinel->{port_replica} }, 30),
       'failover: the Sentinels have chosen the replica');
    my $began = time();

    # the leases are there already, because they are replicated
    $m->{port} = $sentinel->{port_replica};
    ok(wait_for(sub { 2 == grep { $_->status()->{store}{connected}
                                  && $_->log_text()
                                     =~ /connected to \S+:$m->{port}\b/ }
                           $x, $y }, 20),
       'failover: both machines use it');
    my $took = time() - $began;
    cmp_ok($took, '<', 5, 'failover: followed within 5 s');
    note(sprintf 'failover: followed within %.2f s', $took);

    ok($x->wait([$c], timeout => 30), 'failover: the turn ends');
    check_turn($c, 'failover: the sender');
    ok($y->wait([$d], timeout => 10), 'failover: the reader elsewhere ends');
    is(join_raw($d), join_raw($c), 'failover: it has all of it');
    is(prompts($x, $s), 1, 'failover: one prompt');
    check_turn($y->turn($s, 'text:2:24:0'), 'failover: the next turn');
    $m->check_all('failover', [$c], [$d]);
}


# the first Sentinel says that a replica is the master

sub lies {
    my ($replica, $liar) = free_ports(2);

    my @processes = (
        AgentStream::Process->start(command => ['redis-server',
            '--port', $replica, '--bind', '127.0.0.1', '--save', '',
            '--dir', "$m->{dir}/replica", '--dbfilename', 'third.rdb',
            '--replicaof', "127.0.0.1 $m->{port}"],
            out => "$m->{dir}/third.log"),
        AgentStream::Process->start(command => ['node',
            "$FindBin::Bin/lib/resp.mjs", $liar],
            out => "$m->{dir}/liar.log"));

    my $length = length $replica;

    {
        local $m->{port} = $liar;
        ok(wait_for(sub { $m->redis('CONTROL', '{"SENTINEL": "*2\\r\\n$9\\r\\n'
               . "127.0.0.1\\r\\n\$$length\\r\\n$replica\"}") =~ /^\d/ }),
           'a liar: it runs');
        local $m->{port} = $replica;
        ok(wait_for(sub { $m->redis('ROLE') =~ /^slave/ }),
           'a liar: the replica runs');
    }

    my $t = AgentStream->new(nginx => 0, workers => 1,
                             opencode => $m->{first}{port_opencode});
    $t->{fake} = $m->{first}{fake};
    $t->{http} = "agentstream_store sentinel://main\@127.0.0.1:$liar,"
                 . "127.0.0.1:$sentinel->{port} sentinel_auth=:open;";
    $t->start_nginx();

    ok(wait_for(sub { $t->status()->{store}{connected} }, 20),
       'a liar: the other Sentinel is believed');
    my $s = $m->{first}->session();
    check_turn($t->turn($s, 'text:2:24:0'), 'a liar: a turn');
    like($t->log_text(), qr/127.0.0.1:$replica is lost: is not the master/,
         'a liar: the replica says what it is');
    unlike($t->log_text(), qr/connected to 127.0.0.1:$replica/,
           'a liar: the replica is not used');

    delete $t->{fake};
    $t->{active} = $t->active();
    $t->check_exit();
    $t->check_log();
    $_->stop('KILL', 5) for @processes;
}
