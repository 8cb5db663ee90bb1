package AgentStream::Process;

# Child processes of a test.  They are started, waited for and stopped by their
# id, and every wait has a limit.  Processes that are left at the end are
# killed.

use strict;
use warnings;

use Socket qw(:DEFAULT IPPROTO_TCP);
use POSIX qw(:sys_wait_h dup2);
use Time::HiRes qw(sleep time);

use Exporter 'import';

our @EXPORT_OK = qw(alive family free_ports reserve_port scaled slurp wait_for);

my $scale = $ENV{AGENTSTREAM_SCALE} // ($ENV{AGENTSTREAM_ASAN} ? 3 : 1);
my $owner = $$;
my (%running, @reserved);


# a time limit in seconds; a sanitized run gets more time

sub scaled {
    my ($seconds) = @_;

    return $seconds * $scale;
}


sub wait_for {
    my ($condition, $seconds) = @_;
    my $end = time() + scaled($seconds // 5);
    my $value;

    until ($value = $condition->()) {
        return if time() > $end;
        sleep(0.01);
    }

    return $value;
}


# Below the range from which the kernel gives ports to connections: one of those
# could be taken before a slow program listens on it.  Not with rand(), because
# some tests choose its seed.

sub free_ports {
    my ($n) = @_;
    my ($end) = slurp('/proc/sys/net/ipv4/ip_local_port_range') =~ /^(\d+)/;
    my ($begin, @ports) = 10000;

    open my $random, '<:raw', '/dev/urandom' or die "/dev/urandom: $!\n";

    for (1 .. 1000) {
        my $port = 0;

        if ($end && $end > $begin + 1000) {
            read $random, my $bytes, 4;
            $port = $begin + unpack('L', $bytes) % ($end - $begin);
        }

        $port = reserve_port($port) or next;
        push @ports, $port;
        return @ports if @ports == $n;
    }

    die "no free port: $!\n";
}


# Until a program listens there, and when it is restarted, the port must not
# become that of a test that runs at the same time.  So it stays bound to a
# socket that does not listen, as long as this test runs.  Programs that listen
# set SO_REUSEADDR and are not in its way; another call of this has not set it
# yet when it binds, and gets another port. -> the port, or nothing

sub reserve_port {
    my ($port) = @_;

    socket(my $socket, PF_INET, SOCK_STREAM, IPPROTO_TCP) or die "socket: $!\n";
    bind($socket, pack_sockaddr_in($port, INADDR_LOOPBACK)) or return;
    setsockopt($socket, SOL_SOCKET, SO_REUSEADDR, 1) or die "SO_REUSEADDR: $!\n";
    push @reserved, $socket;

    return (unpack_sockaddr_in(getsockname $socket))[0];
}


sub slurp {
    my ($file) = @_;

    open my $fh, '<:raw', $file or return '';
    local $/;

    return scalar <$fh> // '';
}


# command => [...], out => file | undef, err => file, env => {}

sub start {
    my ($class, %args) = @_;
    my $pid = fork() // die "fork: $!\n";

    if ($pid == 0) {
        $ENV{$_} = $args{env}{$_} for keys %{ $args{env} // {} };

        redirect($args{out} // '/dev/null', 1);
        redirect($args{err} // $args{out} // '/dev/null', 2);
        open STDIN, '<', '/dev/null';
        setpgrp(0, 0);

        # what a test sends must arrive, also if the tests run in the background
        # of a shell, which then ignores some of them
        $SIG{$_} = 'DEFAULT' for qw(HUP INT QUIT);

        # no process outlives a test that was killed
        no warnings 'exec';
        exec 'setpriv', '--pdeathsig', 'TERM', @{ $args{command} };
        POSIX::_exit(127);
    }

    my $self = bless { pid => $pid }, $class;
    $running{$pid} = $self;

    return $self;
}


sub redirect {
    my ($to, $fd) = @_;

    if (ref $to) {
        dup2(fileno($to), $fd);
        return;
    }

    open my $fh, '>>', $to or POSIX::_exit(126);
    dup2(fileno($fh), $fd);
}


sub signal {
    my ($self, $signal) = @_;

    return kill $signal, $self->{pid};
}


sub exited {
    my ($self) = @_;

    if (!defined $self->{status} && waitpid($self->{pid}, WNOHANG) != 0) {
        $self->{status} = $?;
        delete $running{ $self->{pid} };
    }

    return defined $self->{status};
}


# -> exit status as in $?, or undef if it had to be killed

sub stop {
    my ($self, $signal, $seconds) = @_;

    $self->signal($signal // 'TERM') unless $self->exited();

    return $self->{status} if wait_for(sub { $self->exited() }, $seconds);

    kill 'KILL', -$self->{pid}, $self->{pid};
    wait_for(sub { $self->exited() }, 5);

    return;
}


sub children {
    my ($pid) = @_;

    open my $fh, '<', "/proc/$pid/task/$pid/children" or return ();

    return split ' ', <$fh> // '';
}


END {
    if ($$ == $owner) {
        my $status = $?;

        for my $process (values %running) {
            kill 'KILL', -$process->{pid}, $process->{pid};
            waitpid $process->{pid}, 0;
        }

        $? = $status;
    }
}


# all processes below this one, those that its threads started included

sub family {
    my ($pid) = @_;
    my @children = map { split ' ', slurp($_) }
                   glob "/proc/$pid/task/*/children";

    return map { ($_, family($_)) } @children;
}


# those that run

sub alive {
    return grep { slurp("/proc/$_/stat") =~ /\) [^Z]/ } @_;
}


1;
