package AgentStream::Sentinel;

# A replica of the Redis server of AgentStream::Machines, and three Sentinels
# that watch both.
#
#     my $s = AgentStream::Sentinel->new(redis => {…}, login => 'user:password@');
#     my $m = AgentStream::Machines->new(2, store => sub { $s->start($_[0]) });

use strict;
use warnings;

use AgentStream::Process qw(free_ports wait_for);


sub new {
    my ($class, %args) = @_;

    return bless { redis => {}, login => '', processes => [], %args }, $class;
}


# With TLS if the machines have it.  redis: options of the replica, which are
# those of the master; login: of the machines.
#
# -> the address of the store; its first host is a port where nobody listens

sub start {
    my ($self, $m) = @_;
    my ($nobody, $replica, @ports) = free_ports(5);

    mkdir "$m->{dir}/replica";

    $self->{m} = $m;
    $self->{port} = $ports[0];
    $self->{port_replica} = $replica;
    $self->{replica} = AgentStream::Process->start(command => ['redis-server',
        $m->server_options($replica, %{ $self->{redis} }),
        '--dir', "$m->{dir}/replica", '--repl-diskless-sync-delay', '0',
        '--replicaof', "127.0.0.1 $m->{port}"], out => "$m->{dir}/replica.log");

    my $auth = $m->{auth} ? "sentinel auth-pass main $m->{auth}\n" : '';

    for my $port (@ports) {
        my $conf = "$m->{dir}/sentinel-$port.conf";

        open my $fh, '>', $conf or die "$conf: $!\n";
        print $fh conf($m->server_options($port)), "dir $m->{dir}\n",
                  "requirepass open\nsentinel sentinel-pass open\n",
                  "sentinel monitor main 127.0.0.1 $m->{port} 2\n",
                  $auth, "sentinel down-after-milliseconds main 1000\n",
                  "sentinel failover-timeout main 3000\n";
        close $fh;

        push @{ $self->{processes} }, AgentStream::Process->start(
            command => ['redis-server', $conf, '--sentinel'],
            out => "$m->{dir}/sentinel-$port.log");
    }

    wait_for(sub { $m->redis('INFO', 'replication') =~ /state=online/ }, 10)
        or die "the replica does not follow\n";

    wait_for(sub { $self->ask('SENTINEL', 'MASTER', 'main')
                   =~ /num-slaves\n1\n.*num-other-sentinels\n2\n/s }, 15)
        or die "the Sentinels do not know each other\n";

    return 'sentinel' . ($m->{cert} ? 's' : '') . "://$self->{login}main\@"
           . join(',', map { "127.0.0.1:$_" } $nobody, @ports)
           . ' sentinel_auth=:open'
           . ($m->{cert} ? " ssl_trusted_certificate=$m->{cert}" : '');
}


# options of a command line as lines of a configuration

sub conf {
    my $text = join ' ', map { $_ eq '' ? '""' : $_ } @_;

    return join '', map { "$_\n" } grep { length && !/^save/ }
           split /\s*--(?=[a-z])/, $text;
}


# a Sentinel

sub ask {
    my ($self, @command) = @_;

    local $self->{m}{port} = $self->{port};
    local $self->{m}{auth} = 'open';
    local $self->{m}{db} = 0;

    return $self->{m}->redis(@command);
}


# -> the port of the master

sub master {
    my ($self) = @_;

    return ($self->ask('SENTINEL', 'GET-MASTER-ADDR-BY-NAME', 'main')
            =~ /(\d+)\n$/)[0];
}


sub stop {
    my ($self) = @_;

    $self->{replica}->signal('CONT');
    $_->stop('KILL', 5) for $self->{replica}, @{ $self->{processes} };
}


1;
