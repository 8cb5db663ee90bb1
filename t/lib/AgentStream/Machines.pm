package AgentStream::Machines;

# Several machines: nginx instances with zones of their own, in front of one
# scripted OpenCode, and a Redis server that they share.
#
#     my $m = AgentStream::Machines->new(3, location => '…');
#     my ($a, $b, $c) = $m->machines();
#
# redis => {…}: options of the Redis server; a value may be a list.  tls => 1: it
# is connected to with TLS, and has the certificate $m->{cert}, of 127.0.0.1.
#
# store => sub { … }: makes the address that the machines get, when Redis runs.
# killed => 1: workers are killed on purpose.
# bot => {…}: they serve one bot, with the arguments of Bot.pm's bot_conf(), on
# the platforms $m->{chat}.
#
# tunnels => 1: each machine reaches Redis and OpenCode through tunnels that can
# be cut (tunnel.mjs): $m->tunnel('hold', 'redis1') for the first machine,
# "opencode1" for its way to OpenCode.
#
# networks => 1: beside that, each machine has a network of its own, where the
# system permits it (Netns.pm).  $m->cut($i) cuts the i-th machine off from
# everything, $m->mend($i) ends that; without such a network only Redis and
# OpenCode are cut off, by the tunnels.
#
# clocks => 1: each machine has clocks of its own (clock.c): $m->clock($x, WALL,
# TICKS) moves its time of day, in seconds, and the clock of its timers, in
# milliseconds.
#
# check_all() holds what all clients of a test have received against the
# promise: a number of a packet stands for the same bytes everywhere, and
# between resets a client's numbers have no gaps.

use strict;
use warnings;

use Digest::SHA qw(sha1_hex);
use File::Path qw(remove_tree);
use FindBin;
use IO::Socket::INET;
use POSIX ();
use Test::More;

use AgentStream;
use AgentStream::Bot qw(bot_conf);
use AgentStream::Chat;
use AgentStream::Netns;
use AgentStream::Process qw(free_ports slurp wait_for);


sub new {
    my ($class, $n, %args) = @_;
    my $self = bless { machines => [], args => {} }, $class;
    my $http = delete $args{http} // '';
    my $redis = delete $args{redis} // {};
    my $tls = delete $args{tls};
    my $failure = delete $args{failure} // 'refuse';
    my $password = delete $args{password} // '';
    my $db = delete $args{db} // 0;
    my $wait = delete $args{wait} // 1;
    my $store = delete $args{store};
    my $bot = delete $args{bot};
    my $networks = delete $args{networks};
    my $tunnels = delete $args{tunnels} || $networks;
    my $clocks = delete $args{clocks};
    my $own = delete $args{own} // [];
    $self->{killed} = delete $args{killed};
    my %worker = (workers => 1, timeout => 120, %args);

    my $first = AgentStream->new(%worker, nginx => 0);
    $self->{first} = $first;
    $self->{dir} = $first->{dir};
    ($self->{port}) = free_ports(1);

    my $user = $password ne '' ? ":$password@" : '';
    $self->{auth} = $redis->{requirepass};
    $self->{db} = $db;

    $self->make_certificate() if $tls;
    $self->start_redis(%$redis);

    if ($bot) {
        $self->{chat} = AgentStream::Chat->start(dir => $first->{dir});
        $worker{server} = $first->{server} = bot_conf($self->{chat}, %$bot);
    }

    my $address = $store ? $store->($self)
                         : "redis://${user}127.0.0.1:$self->{port}/$db";

    $http .= "agentstream_store $address;
              agentstream_store_failure $failure;\n";

    my $direct = $http;
    $self->{networks} = [$networks ? map { AgentStream::Netns->new() } 1 .. $n
                                   : ()];
    $self->start_tunnels($n) if $tunnels;

    for my $i (1 .. $n) {
        my %own = %{ $own->[$i - 1] // {} };
        my $t = $i == 1 ? $first : AgentStream->new(%worker, nginx => 0,
                                       opencode => $first->{port_opencode});

        $http = $direct;

        if ($tunnels) {
            my $net = $t->{network} = $self->{networks}[$i - 1];
            my $host = $net ? $net->{here} : '127.0.0.1';

            $http =~ s/127\.0\.0\.1:$self->{port}\b/$host:$self->{ports}{"redis$i"}/;
            $t->{port_upstream} = $self->{ports}{"opencode$i"};
        }

        $t->{env} = $self->clock_of($t, "$self->{dir}/clock$i") if $clocks;
        $t->{$_} = $own{$_} for keys %own;
        $t->{http} = $http;
        $t->{fake} //= $first->{fake};
        $t->start_nginx();
        push @{ $self->{machines} }, $t;

        if ($wait) {
            $self->connected() or die "no connection to Redis\n";
            $self->learn_owners();
        }
    }

    return $self;
}


# only the Redis server, whose output goes to this directory; its port is
# {port}, and {redis}->stop() ends it

sub server {
    my ($class, $dir) = @_;
    my $self = bless { dir => $dir, machines => [] }, $class;

    ($self->{port}) = free_ports(1);
    $self->start_redis();

    return $self;
}


sub machines {
    my ($self) = @_;

    return @{ $self->{machines} };
}


# all workers have stored their leases, and hear what is published: each has a
# connection of its own for that

sub connected {
    my ($self) = @_;
    my $workers = 0;

    $workers += $_->{workers} for grep { !$_->{lost} } $self->machines();

    return wait_for(sub { $self->leases() >= $workers
                          && $self->hearing() >= $workers }, 15);
}


sub leases {
    my ($self) = @_;

    return scalar grep { /^as1:w:/ } split /\n/, $self->redis('KEYS', 'as1:w:*');
}


sub hearing {
    my ($self) = @_;

    return scalar grep { /^as1:i:/ }
           split /\n/, $self->redis('PUBSUB', 'SHARDCHANNELS', 'as1:i:*');
}


sub start_redis {
    my ($self, %args) = @_;

    $self->{redis} = AgentStream::Process->start(
        command => ['redis-server', $self->server_options($self->{port}, %args),
                    '--dir', $self->{dir}],
        out => "$self->{dir}/redis.log");

    wait_for(sub { $self->redis('PING') =~ /PONG/ }, 10)
        or die "redis-server did not start\n";
}


# options of a Redis server that listens on this port

sub server_options {
    my ($self, $port, %args) = @_;

    %args = ('tls-port' => $port, 'tls-replication' => 'yes',
             'tls-auth-clients' => 'no', 'tls-cert-file' => $self->{cert},
             'tls-key-file' => "$self->{dir}/key.pem",
             'tls-ca-cert-file' => $self->{cert}, %args) if $self->{cert};

    return ('--port', $self->{cert} ? 0 : $port, '--bind', '127.0.0.1',
            '--save', '',
            map { ("--$_", ref $args{$_} ? @{ $args{$_} } : $args{$_}) }
            sort keys %args);
}


sub make_certificate {
    my ($self) = @_;

    $self->{cert} = "$self->{dir}/cert.pem";

    system('openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=test '
           . "-addext subjectAltName=IP:127.0.0.1 -keyout $self->{dir}/key.pem "
           . "-out $self->{cert} >/dev/null 2>&1") == 0
        or die "openssl req failed\n";
}


sub start_tunnels {
    my ($self, $n) = @_;
    my @names = map { ("redis$_", "opencode$_") } 1 .. $n;
    my %to = (redis => $self->{port},
              opencode => $self->{first}{port_opencode});

    my $said = $self->{first}->start_server('tunnel', qr/^listening (.+)$/m,
        'node', "$FindBin::Bin/lib/tunnel.mjs",
        map { my ($what, $i) = /^([a-z]+)(\d+)/;
              my $net = $self->{networks}[$i - 1];
              "$_=$to{$what}" . ($net ? "\@$net->{here}" : '') } @names);

    $self->{tunnel} = $self->{first}{tunnel};
    ($self->{port_control}, my @ports) = split ' ', $said;
    @{ $self->{ports} }{@names} = @ports;
}


# tells the tunnels what to do (tunnel.mjs) -> their answer

sub tunnel {
    my ($self, @words) = @_;
    my $s = IO::Socket::INET->new(PeerAddr => '127.0.0.1',
                PeerPort => $self->{port_control}) or die "tunnel: $!\n";

    print $s "@words\n";
    my $answer = <$s> // die "tunnel: no answer to @words\n";
    chomp $answer;

    return $answer;
}


# the i-th machine hears nothing any more, and nobody hears it

sub cut {
    my ($self, $i) = @_;

    if (my $net = $self->{networks}[$i - 1]) {
        $self->{machines}[$i - 1]{cut} = 1;
        $net->cut();
        return;
    }

    $self->tunnel('hold', $_) for "redis$i", "opencode$i";
}


sub mend {
    my ($self, $i) = @_;

    if (my $net = $self->{networks}[$i - 1]) {
        $net->mend();
        delete $self->{machines}[$i - 1]{cut};
        return;
    }

    for ("redis$i", "opencode$i") {
        $self->tunnel('reset', $_);
        $self->tunnel('up', $_);
    }
}


# the environment of a machine whose clocks can be moved

sub clock_of {
    my ($self, $t, $file) = @_;
    my $lib = "$self->{dir}/clock.so";

    -e $lib || system('cc', '-shared', '-fPIC', '-O', '-o', $lib,
                      "$FindBin::Bin/lib/clock.c") == 0
        or die "clock.c cannot be compiled\n";

    $t->{clock} = $file;
    $self->clock($t, 0, 0);

    return { LD_PRELOAD => $lib, AGENTSTREAM_CLOCK => $file };
}


sub clock {
    my ($self, $t, $wall, $ticks) = @_;

    # in place, because it is mapped
    open my $fh, -e $t->{clock} ? '+<' : '>', $t->{clock}
        or die "$t->{clock}: $!\n";
    binmode $fh;
    print $fh pack 'qq', $wall, $ticks;
    close $fh or die "$t->{clock}: $!\n";
}


# the other machines take this one's workers for dead, at once: its lease is
# gone until it renews it

sub expire_lease {
    my ($self, $t) = @_;

    my ($machine) = map { /^([0-9a-f]+)-/ } $self->owners($t);

    # workers that were started later are this machine's, too
    my @leases = grep { length } split /\n/,
                 $self->redis('KEYS', "as1:w:$machine-*");

    $self->redis('DEL', @leases) if @leases;
}


# the names of a machine's workers; they hold leases now

sub owners {
    my ($self, $t) = @_;
    my ($i) = grep { $self->{machines}[$_] == $t } 0 .. $#{ $self->{machines} };

    return @{ $self->{owners}[$i] };
}


# which leases are whose, when each machine has started

sub learn_owners {
    my ($self) = @_;
    my %known = map { $_ => 1 } map { @$_ } @{ $self->{owners} // [] };

    my @new = grep { !$known{$_} } map { /^as1:w:(\S+)/ }
              split /\n/, $self->redis('KEYS', 'as1:w:*');

    push @{ $self->{owners} }, \@new;
}


# -> what redis-cli prints

sub redis {
    my ($self, @command) = @_;

    my $pid = open(my $fh, '-|') // die "redis-cli: $!\n";

    if ($pid == 0) {
        open STDERR, '>', '/dev/null';
        my @auth = defined $self->{auth}
                   ? ('--no-auth-warning', '-a', $self->{auth}) : ();
        push @auth, '--tls', '--cacert', $self->{cert} if $self->{cert};
        { exec 'timeout', '5', 'redis-cli', '-p', $self->{port}, @auth,
               '-n', $self->{db} // 0, @command; }
        POSIX::_exit(127);
    }

    local $/;

    return scalar <$fh> // '';
}


# how many scripts Redis has run

sub scripts {
    my ($self) = @_;

    return ($self->redis('INFO', 'commandstats')
            =~ /cmdstat_evalsha:calls=(\d+)/)[0] // 0;
}


# SIGKILL of master and workers at once

sub lose {
    my ($self, $t) = @_;
    my @pids = ($t->{master}{pid}, $t->workers());

    kill 'KILL', @pids;
    wait_for(sub { $t->{master}->exited() }, 5);
    $t->{lost} = 1;
}


# clients: what each received over all its connections, [[client, …], …]

sub check_all {
    my ($self, $name, @clients) = @_;
    my (%bytes, %ends, @wrong);

    for my $connections (@clients) {
        my ($turn, $last, $reset) = ('', 0, 0);

        for my $p (map { $_->packets() } @$connections) {
            $reset = 1 if $p->{data} =~ /^\{"type":"stream_reset"/;

            my ($t, $n) = ($p->{id} // '') =~ /^(\w+):(\d+)$/ or next;

            # a rebuilt turn has no other ids
            next if $n == 999_999_999_999_999;

            push @wrong, "$t ends with $ends{$t} and $n"
                if $p->{data} =~ /^\{"type":"(prompt_response|error)"/
                   && ($ends{$t} //= $n) != $n;

            my $hash = sha1_hex($p->{raw});

            push @wrong, "$t:$n has two versions"
                if ($bytes{"$t:$n"} //= $hash) ne $hash;

            my ($epoch, $seq) = (int($n / 1e9), $n % 1e9);
            my ($e, $s) = (int($last / 1e9), $last % 1e9);

            push @wrong, "$t:$n after $last"
                if $t eq $turn && !$reset
                   && ($seq != $s + 1 || $epoch < $e);

            ($turn, $last, $reset) = ($t, $n, 0);
        }
    }

    return @wrong if $name eq '';

    ok(!@wrong, "$name: every number stands for the same bytes, without gaps")
        or diag(join "\n", @wrong[0 .. ($#wrong < 9 ? $#wrong : 9)]);
}


sub done {
    my ($self) = @_;

    $self->finish();
    done_testing();
}


sub finish {
    my ($self) = @_;
    my @alive = grep { !$_->{lost} } $self->machines();

    for my $t ($self->machines()) {
        my @bad = grep { (/ \[(alert|crit|emerg)\] /
                          || /exited (on signal|with code [1-9])/)
                         && !($self->{killed} && /exited on signal 9/) }
                  split /^/, $t->log_text();

        ok(!@bad, 'no alerts') or diag(@bad);
    }

    for my $t (@alive) {
        $t->check_exit();
        $t->check_sanitizer();
    }

    if ($self->{tunnel}) {
        $self->{tunnel}->stop('TERM', 5);
    }

    $_->remove() for @{ $self->{networks} // [] };
    $self->{redis}->signal('CONT');
    $self->{redis}->stop('TERM', 5);
    $self->{chat}->stop() if $self->{chat};
    $self->{first}{fake}->stop('TERM', 10) if $self->{first}{fake};
    alarm(0);

    if (Test::More->builder->is_passing()) {
        remove_tree(map { $_->{dir} } $self->machines());
    }
}


1;
