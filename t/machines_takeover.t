#!/usr/bin/perl

# A machine is lost, with all its processes at once, or its network is cut and
# no connection ends: its turns go on elsewhere within eight seconds,
# byte-exactly for every client that comes back.  A worker that was stopped for
# longer than its lease, or cut off, finds that its turn has another owner, and
# its clients are told so.
#
# Broken by: a lease that nobody misses; a takeover that sends the prompt or a
# packet again; numbers that stand for two packets; an owner that is not fenced
# (see t/machines_broken.t).

use FindBin;
use lib "$FindBin::Bin/lib";

use AgentStream;
use AgentStream::Attach;
use AgentStream::Machines;
use AgentStream::MachinesRun;

my $m = AgentStream::Machines->new(3, networks => 1, timeout => 120);
my ($x, $y, $z) = $m->machines();

# nobody is taken for dead before a lease has passed
sleep(6);

stopped() if $ENV{AGENTSTREAM_MACHINES};
cut();
lost();

$m->done();


# The worker of one machine is stopped for longer than its lease.

sub stopped {
    my ($worker) = $x->workers();
    my $s = $x->session();
    my $sender = $x->send_message($s, 'text:120:24:100');
    hear($x, $sender, 10);
    my $reader = $y->open(events_of($s));
    hear($y, $reader, 12);

    kill 'STOP', $worker;
    ok(wait_for(sub { $y->log_text() =~ /taken over/ }, 9),
       'stopped: the turn goes on elsewhere');
    sleep(1);
    kill 'CONT', $worker;

    ok($y->wait([$reader, $sender], timeout => 20), 'stopped: both end');
    check_text($reader, $x->messages($s), 'stopped: the reader');
    is(prompts($x, $s), 1, 'stopped: one prompt');
    $m->check_all('stopped', [$sender], [$reader]);
    like($x->log_text(), qr/another worker has taken it over/,
         'stopped: the first owner is told');

    my $all = $z->request(events_of($s));
    is(join_raw($all), join_raw($reader), 'stopped: a third machine');
    is(scalar(grep { /"type":"(prompt_response|error)"/ }
              map { $_->{data} } $all->packets()), 1, 'stopped: one end');
}


# Nobody is told that the first machine cannot be reached any more.

sub cut {
    my @s = map { $x->session() } 1, 2;
    my @sender = map { $x->send_message($_, 'text:150:24:80') } @s;
    hear($x, $_, 8) for @sender;
    my $reader = $y->open(events_of($s[0]));
    hear($y, $reader, 10);

    note($m->{networks}[0] ? 'a network of its own' : 'tunnels');
    $m->cut(1);
    my $began = time();

    # clients notice it by themselves; one stays
    $y->wait(\@sender, timeout => 0.3);
    my @back = map {
        $z->open(events_of($s[$_], ($sender[$_]->packets())[-1]{id}))
    } 0, 1;

    ok(wait_for(sub { my $log = $y->log_text() . $z->log_text();
                      !grep { $log !~ /taken over .*session $_/ } @s }, 9),
       'cut: all turns go on');
    cmp_ok(time() - $began, '<', 8, 'cut: in time');
    ok(!$sender[0]->finished() && !$sender[1]->finished(),
       'cut: no connection has ended');
    $sender[1]->close();
    $m->mend(1);

    ok($y->wait([$reader, @back], timeout => 30), 'cut: all end');
    ok($x->wait([$sender[0]], timeout => 30), 'cut: who has stayed, too');
    is(prompts($y, $_), 1, 'cut: one prompt') for @s;

    for my $i (0, 1) {
        is(AgentStream::MachinesRun::text({ conns => [$sender[$i], $back[$i]] }),
           stored_text($y->messages($s[$i]), turn_id($sender[$i]), 'text'),
           'cut: all of it') if $i;
        check_text($z->request(events_of($s[$i])), $y->messages($s[$i]),
                   'cut: later');
    }

    check_text($reader, $y->messages($s[0]), 'cut: the reader');
    is(AgentStream::MachinesRun::text({ conns => [$sender[0]] }),
       stored_text($y->messages($s[0]), turn_id($sender[0]), 'text'),
       'cut: who has stayed has all of it');
    $m->check_all('cut', [$reader], [$sender[0]], [$back[0]],
                  [$sender[1], $back[1]]);
    wait_for(sub { $x->status()->{store}{connected} }, 15);
}


sub lost {
    my @s = map { $x->session() } 1 .. 5;
    my @sender = map { $x->send_message($_, 'text:150:24:80') } @s;
    hear($x, $_, 8) for @sender;
    my $reader = $y->open(events_of($s[0]));
    hear($y, $reader, 10);

    $m->lose($x);
    my $lost = time();
    $y->wait(\@sender, timeout => 1);

    # they come back, to the two others
    my @back = map {
        ($_ % 2 ? $y : $z)->open(events_of($s[$_],
            ($sender[$_]->packets())[-1]{id}))
    } 0 .. $#s;

    ok(wait_for(sub { my $log = $y->log_text() . $z->log_text();
                      !grep { $log !~ /taken over .*session $_/ } @s }, 9),
       'lost: all turns go on');
    cmp_ok(time() - $lost, '<', 8, 'lost: in time')
        or diag($y->log_text(), $z->log_text());

    ok($y->wait([$reader, @back], timeout => 30), 'lost: all end');

    for my $i (0 .. $#s) {
        my $all = $z->request(events_of($s[$i]));

        is(join_raw($sender[$i], $back[$i]), join_raw($all),
           'lost: byte-exact');
        check_text($all, $y->messages($s[$i]), 'lost: the text');
        is(prompts($y, $s[$i]), 1, 'lost: one prompt');
        is($y->turn($s[$i], 'text:1:24:0')->status(), 200,
           'lost: the next turn');
    }

    is(join_raw($reader), join_raw($sender[0], $back[0]), 'lost: the reader');
    $m->check_all('lost', [$reader], map { [$sender[$_], $back[$_]] } 0 .. $#s);
}
