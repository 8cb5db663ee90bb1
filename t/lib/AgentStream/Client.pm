package AgentStream::Client;

# A client connection: sends requests, and reads responses as they arrive,
# without blocking, so that one test can have hundreds of them.  Server-sent
# events are parsed as they arrive, each with its time of arrival.
#
# The bytes come from a socket, or from curl for HTTP/2 and TLS.

use strict;
use warnings;

use Errno qw(EAGAIN EWOULDBLOCK EINTR);
use IO::Select;
use IO::Socket::INET;
use Socket qw(SHUT_WR SOL_SOCKET SO_LINGER SO_RCVBUF);
use Time::HiRes qw(time);

use AgentStream::Process qw(scaled);
use AgentStream::Response;


# host => …, port => …, request => bytes, responses => how many (1)

sub open {
    my ($class, %args) = @_;

    my $socket = IO::Socket::INET->new(
        PeerAddr => $args{host} // '127.0.0.1',
        PeerPort => $args{port},
        $args{from} ? (LocalAddr => $args{from}) : ()) or die "connect to port $args{port}: $!\n";

    my $self = bless { fh => $socket, socket => 1, buffer => '',
        method => $args{method} // 'GET', started => time(),
        want => $args{responses} // 1, responses => [] }, $class;

    # when this is set, the buffer does not grow: the server cannot send what
    # the client does not read

    $socket->sockopt(SO_RCVBUF, $args{rcvbuf}) if $args{rcvbuf};

    $socket->autoflush(1);
    $self->send($args{request}) if defined $args{request};
    $socket->blocking(0);

    return $self;
}


# curl => [arguments]

sub curl {
    my ($class, @args) = @_;

    pipe(my $reader, my $writer) or die "pipe: $!\n";

    my $process = AgentStream::Process->start(out => $writer,
        err => '/dev/null',
        command => ['curl', '-sNik', '--noproxy', '*',
                    '--max-time', scaled(60), @args]);

    $reader->blocking(0);

    return bless { fh => $reader, buffer => '', process => $process,
        started => time(), want => 1, responses => [] }, $class;
}


sub send {
    my ($self, $bytes, $more) = @_;

    local $SIG{PIPE} = 'IGNORE';
    my $blocking = $self->{fh}->blocking(1);

    print { $self->{fh} } $bytes;
    $self->{fh}->blocking($blocking);
    $self->{want} += $more // 0;

    return $self;
}


sub close {
    my ($self) = @_;

    $self->{closed} = time();
    CORE::close($self->{fh}) if $self->{fh};
    $self->{process}->stop('TERM', 2) if $self->{process};
    $self->{fh} = undef;

    return $self;
}


# resets the connection, as the kernel does for a process that died with unread
# bytes

sub reset {
    my ($self) = @_;

    setsockopt($self->{fh}, SOL_SOCKET, SO_LINGER, pack('ii', 1, 0));

    return $self->close();
}


# ends sending, but goes on reading

sub half_close {
    my ($self) = @_;

    shutdown($self->{fh}, SHUT_WR);

    return $self;
}


# the n-th response, by default the first

sub response {
    my ($self, $n) = @_;

    return $self->{responses}[$n // 0]
           // AgentStream::Response->new(dechunk => 1);
}


sub status { return $_[0]->response()->{status} }
sub body { return $_[0]->response()->{body} }
sub header { return $_[0]->response()->header($_[1]) }
sub packets { return @{ $_[0]->response()->{packets} } }
sub comments { return @{ $_[0]->response()->{comments} } }
sub ended { return $_[0]->response()->{ended} }


sub finished {
    my ($self) = @_;

    return 1 unless $self->{fh};

    my $responses = $self->{responses};

    return @$responses >= $self->{want} && $responses->[-1]{ended};
}


# Reads from all clients until each is finished or `until` is true for it. ->
# true if this happened in time

sub wait {
    my ($class, $clients, %args) = @_;

    my $end = time() + scaled($args{timeout} // 10);
    my %open = map { fileno($_->{fh}) => $_ }
               grep { $_->{fh} && !$_->finished() } @$clients;
    my $select = IO::Select->new(map { $_->{fh} } values %open);

    my @check = keys %open;

    while (%open) {
        my @done = grep {
            $open{$_}->finished() || $args{until} && $args{until}->($open{$_})
        } @check;

        for my $fd (@done) {
            my $client = delete $open{$fd};

            $select->remove($fd);
            $client->close() if $client->{eof};
        }

        # `until` may be about another client
        if (@done) {
            @check = keys %open;
            next;
        }

        my $left = $end - time();
        return 0 if $left <= 0;

        @check = map { fileno $_ } $select->can_read($left);
        $open{$_}->read() for @check;
    }

    return 1;
}


sub read {
    my ($self) = @_;
    my $now;

    for ( ;; ) {
        my $n = sysread($self->{fh}, my $bytes, 65536);
        $now //= time();

        if (!defined $n) {
            return if $! == EAGAIN || $! == EWOULDBLOCK || $! == EINTR;
            $n = 0;
        }

        if ($n == 0) {
            $self->{eof} = 1;
            $self->{process} && AgentStream::Process::wait_for(
                sub { $self->{process}->exited() });

            my $last = $self->{responses}[-1];
            my $clean = !$self->{process} || $self->{process}{status} == 0;

            $last->eof($clean) if $last && !$last->{ended};
            $self->{want} = @{ $self->{responses} };
            $self->close() unless $last;
            return;
        }

        $self->{buffer} .= $bytes;
        $self->parse($now);

        return if $self->finished();
    }
}


sub parse {
    my ($self, $now) = @_;

    while (length $self->{buffer}) {
        my $responses = $self->{responses};

        if (!@$responses || $responses->[-1]{ended}) {
            last if @$responses == $self->{want};

            push @$responses, AgentStream::Response->new(
                dechunk => $self->{socket});
        }

        $responses->[-1]->take(\$self->{buffer}, $now) or last;
    }
}


1;
