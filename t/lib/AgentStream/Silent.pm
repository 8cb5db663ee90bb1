package AgentStream::Silent;

# A server that accepts connections, reads what is sent, and never answers, or
# that does not even accept.  It is part of the test process.
#
#     my $silent = AgentStream::Silent->new();
#     ok(wait_for(sub { grep { /POST/ } $silent->heard() }), 'it arrives');

use strict;
use warnings;

use IO::Socket::INET;


sub new {
    my ($class, %args) = @_;

    my $listener = IO::Socket::INET->new(LocalAddr => '127.0.0.1',
        Listen => $args{backlog} // 1024) or die "listen: $!\n";

    $listener->blocking(0);

    return bless { listener => $listener, port => $listener->sockport(),
                   connections => [] }, $class;
}


# a server whose backlog is full: a connection to it is never established

sub deaf {
    my ($class) = @_;
    my $self = $class->new(backlog => 1);

    $self->{full} = [ map {
        IO::Socket::INET->new(PeerAddr => '127.0.0.1', Blocking => 0,
                              PeerPort => $self->{port})
    } 1 .. 4 ];

    return $self;
}


sub port {
    my ($self) = @_;

    return $self->{port};
}


# -> what each connection has sent so far, including closed ones

sub heard {
    my ($self) = @_;

    while (my $socket = $self->{listener}->accept()) {
        $socket->blocking(0);
        push @{ $self->{connections} }, { socket => $socket, text => '' };
    }

    for my $c (grep { $_->{socket} } @{ $self->{connections} }) {
        my $n;

        1 while $n = sysread $c->{socket}, $c->{text}, 65536, length $c->{text};
        $c->{socket} = undef if defined $n;
    }

    return map { $_->{text} } @{ $self->{connections} };
}


sub close {
    my ($self) = @_;

    $self->{listener} = undef;
    $self->{full} = [];
    $self->{connections} = [];
}


# how many connections are open

sub open_count {
    my ($self) = @_;

    $self->heard();

    return scalar grep { $_->{socket} } @{ $self->{connections} };
}


1;
