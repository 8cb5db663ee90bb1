#!/usr/bin/perl

# Faults at the worst moment, one by one: an answer of Redis that is lost, a
# worker that dies in the middle of a takeover, an owner that comes back when
# its session has a newer turn, a Redis without memory when a machine is lost,
# clocks that differ and an outage of minutes.
#
# Broken by: a fenced turn that nobody looks at again (current); a claim that
# goes on with fewer records than Redis has, or that is forgotten with its
# answer (ranged, answer); a copy that still belongs to a killed worker
# (killed); a place in a queue that stays when Redis was not told (queue);
# readers that wait for Redis while a turn changes its worker (worker); a claim
# that needs memory (full); an owner that gives its turn up because Redis was
# away for long (emptied); clocks of machines that are compared (clocks); an id
# of a forgotten epoch that is taken for one of another (fourth); a stream in
# Redis that grows without bounds, or a successor that does not notice what was
# dropped (trimmed); a reader of the newest turn that gets an older one from a
# machine that does not know the newest (older); a turn that Redis has lost and
# that cannot be stored again, whose readers wait for it, on its machine or
# elsewhere (begun); a turn that Redis forgets while its packets are stored
# (renewed); a lease that is counted from Redis' answer on instead of from the
# question (lease).

use FindBin;
use lib "$FindBin::Bin/lib";

use AgentStream;
use AgentStream::Attach;
use AgentStream::Machines;
use AgentStream::MachinesRun;

my $m = AgentStream::Machines->new(2, tunnels => 1, clocks => 1,
    timeout => 400, attach(server => '
        location /queue {
            agentstream /opencode/;
            agentstream_busy queue;
        }
        location /small {
            agentstream /opencode/;
            agentstream_turn_size 32k;
        }'), workers => 1, own => [{ workers => 2 }]);
my ($x, $y) = $m->machines();

my %test = (current => \&current, ranged => \&ranged, answer => \&answer,
            killed => \&killed, queue => \&queue, worker => \&worker,
            full => \&full, emptied => \&emptied, clocks => \&clocks,
            fourth => \&fourth, trimmed => \&trimmed, older => \&older,
            begun => \&begun, renewed => \&renewed, lease => \&lease);
my @short = qw(current full queue older begun renewed);
my @names = $ENV{MACHINES_FAULT} ? split ' ', $ENV{MACHINES_FAULT}
            : $ENV{AGENTSTREAM_MACHINES} ? sort keys %test : @short;

my $settled = 0;

for my $name (@names) {
    settle();
    $test{$name}->();
}

$m->done();


# All are connected; nobody is taken for dead before a lease has passed since
# then.

sub settle {
    for my $t ($x, $y) {
        wait_for(sub { ($t->status()->{store}{connected} // 0)
                       == $t->{workers} }, 15);
    }

    $m->connected();
    sleep(6.2) if !$settled++ || $ENV{AGENTSTREAM_MACHINES};
}


# a turn on a worker of the first machine, and a reader on the second

sub turn {
    my ($prompt, %args) = @_;
    my $s = $x->session();
    my ($a) = $x->workers();
    my $sender = on_worker($x, $a, send_to($s, $prompt));
    hear($x, $sender, 4);

    return ($s, $sender, $a) if $args{alone};

    my $reader = $y->open(events_of($s));
    hear($y, $reader, 5);

    return ($s, $sender, $a, $reader);
}


sub taken {
    my ($t, $s) = @_;

    return wait_for(sub { $t->log_text() =~ /taken over .*session $s/ }, 15);
}


sub current {
    my ($s, $sender, $worker, $reader) = turn('text:30:24:100');

    kill 'STOP', $worker;
    $m->expire_lease($x);
    ok(taken($y, $s), 'current: taken over');
    ok($y->wait([$reader], timeout => 15), 'current: it ends elsewhere');
    my $next = $y->send_message($s, 'text:40:24:100');
    hear($y, $next, 5);
    kill 'CONT', $worker;

    ok($x->wait([$sender], timeout => 8), 'current: the first reader ends');
    $m->check_all('current', [$sender], [$reader]);
    is(joined_text($sender), joined_text($reader), 'current: all of it')
        unless join_raw($sender) =~ /stream_reset/;
    $y->wait([$next], timeout => 15);
}


# A machine takes a turn over of which it has not copied many packets, and the
# connection breaks while it asks for them.

sub ranged {
    my ($s, $sender, $worker, $reader) = turn('text:2000:8:2');
    my $fired = $m->tunnel('fired', 'redis2');

    $m->tunnel('hold', 'redis2', 'out');
    my $n = $sender->packets();
    hear($x, $sender, $n + 400);
    kill 'STOP', $x->workers();
    $m->expire_lease($x);

    $m->tunnel('on', 'redis2', 1, 'lose', claim(), 'THEN', 'XRANGE');
    $m->tunnel('up', 'redis2');
    ok(taken($y, $s), 'ranged: taken over');
    is($m->tunnel('fired', 'redis2'), $fired + 1,
       'ranged: records were lost on their way');
    kill 'CONT', $x->workers();

    ok($y->wait([$reader, $sender], timeout => 30), 'ranged: both end');
    check_text($reader, $y->messages($s), 'ranged');
    $m->check_all('ranged', [$sender], [$reader]);
    is(prompts($y, $s), 1, 'ranged: one prompt');
}


# Redis has made a machine the owner, which does not know it.

sub answer {
    my ($s, $sender, $worker, $reader) = turn('text:150:24:100');
    my $fired = $m->tunnel('fired', 'redis2');

    $m->tunnel('on', 'redis2', 1, 'lose', claim());
    kill 'STOP', $x->workers();
    $m->expire_lease($x);
    ok(wait_for(sub { $m->tunnel('fired', 'redis2') > $fired }, 10),
       'answer: the answer to the claim was lost');
    ok(taken($y, $s), 'answer: taken over nevertheless');
    kill 'CONT', $x->workers();

    ok($y->wait([$reader, $sender], timeout => 20), 'answer: both end');
    check_text($reader, $y->messages($s), 'answer');
    $m->check_all('answer', [$sender], [$reader]);
}


sub killed {
    my ($s, $sender, $worker, $reader) = turn('text:200:24:100');
    my $fired = $m->tunnel('fired', 'redis2');

    $m->tunnel('on', 'redis2', 1, 'hold', claim());
    kill 'STOP', $x->workers();
    $m->expire_lease($x);
    ok(wait_for(sub { $m->tunnel('fired', 'redis2') > $fired }, 10),
       'killed: the claim is on its way');
    my ($old) = $y->workers();
    kill_worker($y, $old);
    $m->tunnel('up', 'redis2');

    my $id = ($reader->packets())[-1]{id};
    my $back = $y->open(events_of($s, $id));
    ok(taken($y, $s), 'killed: the next worker takes it over');
    kill 'CONT', $x->workers();

    ok($y->wait([$back, $sender], timeout => 25), 'killed: both end');
    $m->check_all('killed', [$sender], [$reader, $back]);
    is(prompts($y, $s), 1, 'killed: one prompt');
}


# a sender that waits leaves while Redis is away

sub queue {
    my ($s, $sender) = turn('text:40:24:100', alone => 1);
    my $waits = $y->send_message($s, 'text:1:24:0',
                                 path => "/queue/$s/send-message");

    ok(wait_for(sub { queued() == 1 }, 5), 'queue: it waits');
    $m->tunnel('reset', 'redis2');
    $waits->close();
    sleep(0.5);
    $m->tunnel('up', 'redis2');
    $x->wait([$sender], timeout => 15);

    my $next;
    ok(wait_for(sub { $next = $x->turn($s, 'text:1:24:0');
                      $next->status() == 200 }, 8),
       'queue: the place was given up') or diag($next->body());
    is(queued(), 0, 'queue: nobody is left in it');
}


sub queued {
    return scalar split /\n/, $m->redis('KEYS', 'as1:*:q');
}


# A worker dies, and Redis is silent when the other one takes its turn over.

sub worker {
    my $s = $x->session();
    my ($a, $b) = $x->workers();
    my $sender = on_worker($x, $a, send_to($s, 'text:35:24:100'));
    hear($x, $sender, 4);
    my $reader = on_worker($x, $b, events_of($s));
    hear($x, $reader, 6);

    $m->tunnel('hold', 'redis1');
    kill_worker($x, $a);
    taken($x, $s);
    ok($x->wait([$reader], timeout => 8), 'worker: the reader goes on');
    $m->tunnel('up', 'redis1');
    $x->wait([$reader], timeout => 20);
    check_text($reader, $x->messages($s), 'worker');
    $m->check_all('worker', [$sender], [$reader]);
    my $late = $y->request(events_of($s));
    check_text($late, $y->messages($s), 'worker: elsewhere');
}


sub full {
    my ($s, $sender, $worker, $reader) = turn('text:40:24:100');

    kill 'STOP', $worker;
    $m->redis('CONFIG', 'SET', 'maxmemory', '1');
    $m->expire_lease($x);
    ok(taken($y, $s), 'full: taken over');
    ok($y->wait([$reader], timeout => 15), 'full: it ends');
    $m->redis('CONFIG', 'SET', 'maxmemory', '0');
    kill 'CONT', $worker;
    check_text($reader, $y->messages($s), 'full');
    ok($x->wait([$sender], timeout => 20), 'full: the first reader ends');
    $m->check_all('full', [$sender], [$reader]);
}


# Redis is away for minutes, and comes back without its data.

sub emptied {
    my ($s, $sender, $worker, $reader) = turn('text:250:24:100');

    $m->{redis}->stop('KILL', 5);
    sleep(1);
    ahead($_, 200_000) for $x, $y;
    sleep(1);
    $m->start_redis();
    ok(wait_for(sub { $m->leases() == 3 }, 20), 'emptied: all are back');
    ok($x->wait([$sender, $reader], timeout => 40), 'emptied: both end');
    unlike($x->log_text(), qr/another worker .*session $s/,
           'emptied: the owner keeps its turn');
    is(join_raw($reader), join_raw($sender), 'emptied: no difference');
    is(prompts($x, $s), 1, 'emptied: one prompt');
}


sub clocks {
    $m->clock($x, 600, $x->{ahead} // 0);

    my ($s, $sender, $worker, $reader) = turn('text:100:24:100');
    ok($y->request('GET', "/sessions/$s/turn")->body() =~ /"running":true/,
       'clocks: it runs, on both');

    kill 'STOP', $x->workers();
    ok(taken($y, $s), 'clocks: taken over');
    kill 'CONT', $x->workers();
    ok($y->wait([$reader, $sender], timeout => 20), 'clocks: both end');
    check_text($reader, $y->messages($s), 'clocks');
    $m->check_all('clocks', [$sender], [$reader]);

    # retained, and resumed, on both
    my $all = $x->request(events_of($s));
    is(join_raw($all), join_raw($y->request(events_of($s))),
       'clocks: the same later');
    is($x->turn($s, 'text:1:24:0')->status(), 200, 'clocks: the next turn');
    ahead($x, 0);
}


# A reader comes to a machine that knows an older turn of the session, and
# cannot ask for the newest.

sub older {
    my ($s, $sender) = turn('text:3:24:0', alone => 1);
    $x->wait([$sender]);
    $y->request(events_of($s));

    $m->tunnel('reset', 'redis2');
    my $next = $x->send_message($s, 'text:20:24:100');
    hear($x, $next, 6);
    my $reader = $y->open(events_of($s, ($next->packets())[-1]{id}));
    ok($y->wait([$next, $reader], timeout => 20), 'older: both end');
    $m->tunnel('up', 'redis2');

    my ($first) = $reader->packets();
    like($first->{data}, qr/"type":"stream_reset"/, 'older: the reader is told');
    is(joined_text($reader), joined_text($next), 'older: all of the newest');
}


# Redis is emptied, and another turn is begun in the session before the owner of
# the first one has noticed it.

sub begun {
    my ($s, $sender, $worker, $reader) = turn('text:60:24:100');

    $m->tunnel('hold', $_) for qw(redis1 opencode2);
    $m->redis('FLUSHALL');
    my $next = $y->send_message($s, 'text:1:24:0');
    wait_for(sub { $m->redis('KEYS', "*$s*:m:*") =~ /msg_/ }, 10);
    $m->tunnel('up', 'redis1');

    for ([$sender, 'on its machine'], [$reader, 'elsewhere']) {
        ok($x->wait([$_->[0]], timeout => 9,
                    until => sub { join_raw($_[0]) =~ /"stream_reset"/ }),
           "begun: a reader of the first one is told soon, $_->[1]");
        $m->tunnel('up', 'opencode2');
    }

    ok($x->wait([$sender, $reader, $next], timeout => 20), 'begun: all end');

    is($next->status(), 409, 'begun: OpenCode is busy');
    is(prompts($x, $s), 1, 'begun: one prompt');
    is(AgentStream::MachinesRun::text({ conns => [$_] }),
       stored_text($x->messages($s), turn_id($sender), 'text'),
       'begun: all of the first, since the reset') for $sender, $reader;
    $m->check_all('begun', [$sender], [$reader]);
}


# What Redis has of a turn lives on as long as there are packets.

sub renewed {
    my ($s, $sender) = turn('text:90:24:100', alone => 1);
    my @keys = grep { /:(?:s|[mt]:msg_\w+)$/ }
               split /\n/, $m->redis('KEYS', "*$s*");

    is(scalar(@keys), 3, 'renewed: session, turn and packets');
    $m->redis('EXPIRE', $_, 100) for @keys;
    hear($x, $sender, $sender->packets() + 3);
    is(scalar(grep { $m->redis('TTL', $_) > 100 } @keys), 0,
       'renewed: not with each packet');

    # not in one step: after ten seconds without packets the turn is touched
    for (1, 2) {
        ahead($x, 5500);
        hear($x, $sender, $sender->packets() + 3);
    }

    ok(wait_for(sub { 3 == grep { $m->redis('TTL', $_) > 200 } @keys }, 2),
       'renewed: now and then');
    ok(!$sender->finished(), 'renewed: before it ends');
    ok($x->wait([$sender], timeout => 15), 'renewed: it ends');
    check_text($sender, $x->messages($s), 'renewed');
}


# The answer to a renewal comes late: Redis counts from the question on.

sub lease {
    my $lost = $y->status()->{store}{leases_lost};
    my $fired = $m->tunnel('fired', 'redis2');

    $m->tunnel('on', 'redis2', 1, 'hold', 'EVALSHA.*\\$4\\r\\n6000\\r\\n');
    ok(wait_for(sub { $m->tunnel('fired', 'redis2') > $fired }, 10),
       'lease: a renewal is on its way');
    ahead($y, 2500);
    $m->tunnel('up', 'redis2', 'out');
    sleep(0.3);
    is($y->status()->{store}{leases_lost}, $lost, 'lease: it is not over yet');
    ahead($y, 4000);
    ok(wait_for(sub { $y->status()->{store}{leases_lost} > $lost }, 1.3),
       'lease: and ends with the one that Redis counts');
    $m->tunnel('up', 'redis2');
}


# the clock of a machine's timers goes ahead, by so many milliseconds more

sub ahead {
    my ($t, $ms) = @_;

    $m->clock($t, 0, $t->{ahead} = ($t->{ahead} // 0) + $ms);
}


# Where the last three epochs ended is known, but not the fourth.

sub fourth {
    my ($s, $sender, $worker, $reader) = turn('text:150:24:100');
    my @ids = (($reader->packets())[-1]{id});

    for my $i (1 .. 4) {
        my ($from, $to) = $i % 2 ? ($x, $y) : ($y, $x);
        my $taken = takeovers($to, qr/taken over .*session $s/);
        my $told = takeovers($from, qr/another worker .*session $s/);

        # it renews its lease, unless it is soon known that it has none
        wait_for(sub { $m->expire_lease($from);
                       takeovers($to, qr/taken over .*session $s/) > $taken },
                 10) or diag("takeover $i");
        wait_for(sub { takeovers($from, qr/another worker .*session $s/)
                       > $told }, 10) or diag("fence $i");
    }

    ok($y->wait([$reader, $sender], timeout => 30), 'fourth: both end');
    like(($reader->packets())[-1]{id}, qr/:[4-9]\d{9}$/, 'fourth: at least four takeovers');
    $m->check_all('fourth', [$sender], [$reader]);
    check_text($reader, $y->messages($s), 'fourth');

    for my $t ($x, $y) {
        my $old = $t->request(events_of($s, $ids[0]));
        my ($first) = $old->packets();

        like($first->{data}, qr/"type":"stream_reset"/,
             'fourth: an id of the first epoch');
        is(joined_text($old), joined_text($reader), 'fourth: and then all of it');

        my ($known) = grep { $_->{id} =~ /:[4-9]\d{9}$/ } $reader->packets();
        my $back = $t->request(events_of($s, $known->{id}));

        unlike(join_raw($back), qr/stream_reset/,
               'fourth: an id of a known epoch');
    }
}


sub takeovers {
    my ($t, $what) = @_;

    return scalar(() = $t->log_text() =~ /$what/g);
}


# Redis keeps of a turn what its owner keeps.

sub trimmed {
    my $s = $x->session();
    my ($a) = $x->workers();
    my $sender = on_worker($x, $a, 'POST', "/small/$s/send-message",
                           headers => { Accept => 'text/event-stream' },
                           body => { content => 'text:1200:64:5' });

    hear($x, $sender, 800);
    my ($stream) = grep { /:t:msg_/ } split /\n/, $m->redis('KEYS', "*$s*");
    my $n = $m->redis('XLEN', $stream);

    cmp_ok($n, '<', 400, 'trimmed: the stream in Redis');
    cmp_ok($n, '>', 20, 'trimmed: but not all of it');
    my $late = $y->open(events_of($s));
    hear($y, $late, 1);
    like(($late->packets())[0]{data}, qr/"type":"stream_reset"/,
         'trimmed: a late reader elsewhere is told');

    kill 'STOP', $x->workers();
    $m->expire_lease($x);
    my $reader = $y->open(events_of($s, ($sender->packets())[-1]{id}));
    ok(taken($y, $s), 'trimmed: taken over');
    kill 'CONT', $x->workers();
    ok($y->wait([$reader, $late, $sender], timeout => 30), 'trimmed: all end');
    $m->check_all('trimmed', [$sender], [$reader], [$late]);
    is(joined_text($late), stored_text($y->messages($s), turn_id($sender),
                                       'text'), 'trimmed: all of the text');
}


# the bytes of a claim: epoch, owner, "0"

sub claim {
    return '\$1\r\n\d\r\n\$\d+\r\n[0-9a-f]{16}-\d+-\d+\r\n\$1\r\n0\r\n';
}
