#!/usr/bin/perl

# Servers that cannot be used: Redis loads its data, is a replica, has lost its
# master, wants a password, is full, or answers to PING and not to scripts.  Each
# counts as away: it is told once, prompts are refused, and it is tried again
# with pauses.  The policy of a server that throws keys away is told, too.  The
# name of a server is resolved again whenever it is connected to, and all its
# addresses are tried.  A server that answers anything at all does no harm.
#
# Broken by: an error that is not noticed, or closes nothing; a pause that is
# short again because PING was answered; a name that is resolved once; an
# address that is tried for ever (the first that was found); an answer that is
# believed without a look at its type and size.

use FindBin;
use lib "$FindBin::Bin/lib";

use AgentStream;
use AgentStream::Attach;
use AgentStream::Machines;
use AgentStream::Process qw(free_ports);
use Time::HiRes qw(sleep time);

faults();
names();

done_testing();


sub faults {
    my $t = AgentStream->new(nginx => 0, workers => 1);
    my ($port) = free_ports(1);
    my $redis = AgentStream::Process->start(
        command => ['node', "$FindBin::Bin/lib/resp.mjs", $port],
        out => "$t->{dir}/resp.log");
    my $m = bless { port => $port }, 'AgentStream::Machines';

    $t->{http} = "agentstream_store redis://127.0.0.1:$port;";
    wait_for(sub { $m->redis('CONTROL') =~ /^\d/ });
    $t->start_nginx();
    ok(wait_for(sub { $t->status()->{store}{connected} }), 'connected');

    my $s = $t->session();

    for (['LOADING', 'SCRIPT', 'LOADING Redis is loading the dataset'],
         ['READONLY', 'EVALSHA', "READONLY You can't write against a replica"],
         ['MASTERDOWN', 'EVALSHA', 'MASTERDOWN Link with MASTER is down'],
         ['NOAUTH', 'PING', 'NOAUTH Authentication required.'],
         ['OOM', 'EVALSHA', 'OOM command not allowed, secret'],
         ['NOPERM', 'SCRIPT', 'NOPERM this user has no permissions'])
    {
        my ($word, $command, $answer) = @$_;
        my $before = length $t->log_text();

        $m->redis('CONTROL', qq({"$command": "-$answer"}));

        ok(wait_for(sub { substr($t->log_text(), $before)
                          =~ /is lost: $word\n?/ }), "$word: told");
        is($t->status()->{store}{connected}, 0, "$word: not connected");
        is($t->turn($s, 'text:1:24:0')->status(), 503,
           "$word: a prompt is refused");

        # with pauses of always the same length there would be about 30
        sleep(3) if $word eq 'NOPERM';
        my $connects = $m->redis('CONTROL');
        cmp_ok($connects, '<=', 10, "$word: it is tried with pauses")
            if $word eq 'NOPERM';

        ok(wait_for(sub { $t->status()->{store}{connected} }, 10),
           "$word: and is used again");
    }

    is(prompts($t, $s), 0, 'no prompt was sent');

    # whatever it answers, it is used as before when it answers well

    for my $seed (1 .. 12) {
        $m->redis('CONTROL', qq({"nonsense": $seed}));
        my @c = map { $t->send_message($t->session(), 'text:3:24:5') } 1 .. 3;
        $t->wait(\@c, timeout => 0.4);
        $_->close() for @c;
    }

    $m->redis('CONTROL');
    ok(wait_for(sub { $t->status()->{store}{connected} }, 15),
       'nonsense: the worker lives, and uses it again');
    unlike($t->log_text(), qr/exited on signal/, 'nonsense: no crash');
    unlike($t->log_text(), qr/secret/, 'only the first word is told');

    unlike($t->log_text(), qr/is not noeviction/, 'a good policy: not told');
    $m->redis('CONTROL', '{"CONFIG": "*2\r\n$16\r\nmaxmemory-policy\r\n'
                         . '$11\r\nallkeys-lru"}' =~ s/\r\n/\\r\\n/gr);
    ok(wait_for(sub { $t->log_text() =~ /is not noeviction/ }),
       'another policy: told');

    $redis->stop('KILL', 5);
    finish($t);
    $t->{fake}->stop('TERM', 5);
}


# the first addresses are dead, the last one is Redis; then it moves

sub names {
    my $t = AgentStream->new(nginx => 0, workers => 1);
    my ($dns) = free_ports(1);
    my ($port) = free_ports(1);
    my $m = bless { port => $port, dir => $t->{dir} }, 'AgentStream::Machines';

    addresses($t, '127.0.0.3', '127.0.0.4', '127.0.0.5', '127.0.0.1');
    $m->start_redis();

    $t->{http} = "resolver 127.0.0.1:$dns valid=1s ipv6=off;
                  resolver_timeout 1s;
                  agentstream_store redis://redis.test:$port;";
    $t->start_nginx();

    # the pauses are longer now than nginx keeps an answer: it then has the
    # addresses always in the same order

    sleep(2.5);

    my $names = AgentStream::Process->start(
        command => ['node', "$FindBin::Bin/lib/dns.mjs", $dns,
                    "$t->{dir}/addresses"], out => "$t->{dir}/dns.log");

    ok(wait_for(sub { $t->status()->{store}{connected} }, 20),
       'names: connected to the address that works');
    check_turn($t->turn($t->session(), 'text:2:24:0'), 'names: a turn');

    my $next = AgentStream::Process->start(command => ['redis-server',
        '--port', $port, '--bind', '127.0.0.2', '--save', ''],
        out => "$t->{dir}/next.log");

    addresses($t, '127.0.0.2');
    $m->{redis}->stop('KILL', 5);

    # it may be connected again when the status is asked for
    ok(wait_for(sub { lost($t) }), 'names: it is lost');
    ok(wait_for(sub { $t->status()->{store}{connected} }, 15),
       'names: connected to its new address');

    my $before = lost($t);

    addresses($t);
    $next->stop('KILL', 5);
    ok(wait_for(sub { lost($t) > $before }), 'names: lost again');
    sleep(1.5);
    is($t->turn($t->session(), 'text:1:24:0')->status(), 503,
       'names: without an address a prompt is refused');

    $names->stop('KILL', 5);
    finish($t);
    $t->{fake}->stop('TERM', 5);
}


# how often its connection broke

sub lost {
    my ($t) = @_;

    return scalar(() = $t->log_text() =~ /is lost: the connection broke/g);
}


sub addresses {
    my ($t, @addresses) = @_;

    open my $fh, '>', "$t->{dir}/addresses" or die "addresses: $!\n";
    print $fh map { "$_\n" } @addresses;
    close $fh;
}


sub finish {
    my ($t) = @_;

    local $t->{fake};
    $t->{active} = $t->active();
    $t->check_exit();
    $t->check_sanitizer();
}
