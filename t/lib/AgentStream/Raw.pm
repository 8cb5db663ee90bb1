package AgentStream::Raw;

# A server that answers every connection with the same bytes, whatever the
# request is: an OpenCode that lies.  It is a separate process, which is
# stopped with the test.
#
#     my $raw = AgentStream::Raw->new();
#     $raw->say("HTTP/1.1 200 OK\r\n\r\n{}");
#
# With endless => TEXT the answer never ends: TEXT is sent again and again.

use strict;
use warnings;

use Errno;
use IO::Select;
use IO::Socket::INET;


sub new {
    my ($class, %args) = @_;

    my $listener = IO::Socket::INET->new(LocalAddr => '127.0.0.1',
        Listen => 128) or die "listen: $!\n";

    pipe(my $reader, my $writer) or die "pipe: $!\n";
    pipe(my $done, my $ack) or die "pipe: $!\n";

    my $pid = fork() // die "fork: $!\n";

    if ($pid == 0) {
        close $_ for $writer, $done;
        serve($listener, $reader, $ack, $args{endless});
        require POSIX;
        POSIX::_exit(0);
    }

    close $_ for $reader, $ack;

    return bless { pid => $pid, port => $listener->sockport(), owner => $$,
                   writer => $writer, done => $done }, $class;
}


sub port {
    my ($self) = @_;

    return $self->{port};
}


# sets the answer from now on

sub say {
    my ($self, $bytes) = @_;

    syswrite $self->{writer}, pack('N', length $bytes) . $bytes;
    sysread $self->{done}, my $ack, 1;
}


sub serve {
    my ($listener, $reader, $ack, $endless) = @_;
    my $select = IO::Select->new($listener, $reader);
    my $writes = IO::Select->new();
    my $answer = '';

    $SIG{PIPE} = 'IGNORE';
    alarm(300);

    while (1) {
        my ($can_read, $can_write) = IO::Select->select($select, $writes);

        for my $fh (@{ $can_write // [] }) {
            $writes->remove($fh)
                unless defined syswrite($fh, $endless) || $!{EAGAIN};
        }

        for my $fh (@{ $can_read // [] }) {
            if ($fh == $reader) {
                my $n = sysread $reader, my $head, 4;
                return unless $n;

                $answer = '';
                my $len = unpack 'N', $head;

                while (length $answer < $len) {
                    sysread $reader, $answer, $len - length $answer,
                            length $answer or return;
                }

                syswrite $ack, '1';

            } else {
                my $c = $listener->accept() or next;

                sysread $c, my $request, 65536;
                syswrite $c, $answer;

                if (defined $endless) {
                    $c->blocking(0);
                    $writes->add($c);
                }
            }
        }
    }
}


sub DESTROY {
    my ($self) = @_;

    return if $$ != $self->{owner};

    close $self->{writer};
    waitpid $self->{pid}, 0;
}


1;
