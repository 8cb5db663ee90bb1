package AgentStream::Process;

# Child processes of a test.  They are started, waited for and stopped by their
# id, and every wait has a limit.  Processes that are left at the end are
# killed.

use strict;
use warnings;

use IO::Socket::INET;
use POSIX qw(:sys_wait_h dup2);
use Time::HiRes qw(sleep time);

use Exporter 'import';

our @EXPORT_OK = qw(alive family free_ports scaled slurp wait_for);

my $scale = $ENV{AGENTSTREAM_SCALE} // ($ENV{AGENTSTREAM_ASAN} ? 3 : 1);
my $owner = $$;
my %running;


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
    my ($begin, @sockets) = 10000;

    open my $random, '<:raw', '/dev/urandom' or die "/dev/urandom: $!\n";

    for (1 .. 1000) {
        my @port;

        if ($end && $end > $begin + 1000) {
            read $random, my $bytes, 4;
            @port = (LocalPort => $begin + unpack('L', $bytes)
                                           % ($end - $begin));
        }

        my $socket = IO::Socket::INET->new(LocalAddr => '127.0.0.1', @port,
                                           Listen => 1) or next;

        push @sockets, $socket;
        return map { $_->sockport() } @sockets if @sockets == $n;
    }

    die "no free port: $!\n";
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
