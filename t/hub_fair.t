#!/usr/bin/perl

# An event stream that has more to say than the worker can read: clients and
# other turns of that worker do not wait until it pauses.
#
# Broken by: a call that is read as long as there is more of it (call_take()
# without "yield"); a call that does not continue after others had their turn
# (call_yield_handler()).  Without a limit (CALL_TURN) a cycle takes 3 ms.

use FindBin;
use lib "$FindBin::Bin/lib";

use AgentStream;
use File::Temp;
use IO::Socket::INET;

my $SIZE = 100;         # megabytes
my $DELTAS = 40;        # of a turn beside it, 2 ms apart
my $TURN = 229376;      # bytes that are read at most before others come next
my $BUFFER = 32768;

my ($port, $pid, $over) = flood();

my $t = AgentStream->new(workers => 1, timeout => 60, level => 'debug',
    env => cycles(),
    server => "
    location /flood { agentstream /flood-api/; }

    location /flood-api/ {
        internal;
        proxy_pass http://127.0.0.1:$port/;
        proxy_http_version 1.1;
        proxy_set_header Connection '';
    }");

my $c = $t->open('POST', '/flood/ses_flood/send-message',
                 body => { content => 'flood' });

# While the worker is stopped, the stream fills the sockets' buffers.

sysread $over, my $byte, 1;

my ($worker) = $t->workers();

kill STOP => $worker;
sysread $over, $byte, 1;
kill CONT => $worker;

my $paced = $t->turn($t->session(), "text:$DELTAS:16:2");

check_turn($paced, 'a paced turn meanwhile');

ok($t->wait([$c]), 'its own turn ends');
is($c->status(), 400, 'its own turn: OpenCode has refused the prompt');
is($t->status()->{opencode}{events_skipped}, 0, 'every event was read');

# what was read from the stream in each cycle of the event loop, and while a
# packet of the other turn waited: from when its event was read to the next write.
# Some events make no packet, and what was read of one may not be all of it; such
# waits last until another packet is sent, so the longest quarter does not count.

my ($sum, $most, $all, $waits, @waits) = (0, 0, 0, undef);
my $flood = flood_fd();

open my $log, '<', $t->{dir} . '/error.log' or die "error.log: $!\n";

while (<$log>) {
    if (/epoll timer:/) {
        $sum = 0;

    } elsif (/ writev: \d+ of /) {
        push @waits, $waits if defined $waits;
        undef $waits;

    } elsif (/recv: fd:(\d+) (\d+) of $BUFFER$/) {
        if ($1 != $flood) {
            $waits //= 0;
            next;
        }

        $sum += $2;
        $all += $2;
        $waits += $2 if defined $waits;
        $most = $sum if $sum > $most;
    }
}

my $longest = (sort { $b <=> $a } @waits)[@waits / 4];

cmp_ok(scalar @waits, '>=', 3, @waits . ' packets had to wait');
note("at most $longest bytes were read before most of them were sent");
cmp_ok($longest, '<=', $TURN + $BUFFER, 'they do not wait longer');

note("$all bytes read, at most $most in one cycle");
cmp_ok($all, '>', $SIZE * 1048576 / 2, 'the flood was read');
cmp_ok($most, '<=', $TURN + $BUFFER, 'others come next after a while');
cmp_ok($most, '>=', $TURN, 'and not before');

# The CPU time of a cycle, with the debug log of this test in it.  Now and then a
# machine takes some for itself, so one of a hundred does not count; and when it
# is busy all of them take longer, so they are also compared with what the bytes
# of one cycle cost on the average.

my @cycles = sort { $a <=> $b } unpack 'L*',
             AgentStream::Process::slurp($ENV{AGENTSTREAM_CYCLES});
my $slow = $cycles[@cycles * 99 / 100] / 1000;
my $mean = 0;

$mean += $_ / 1000 / $all * ($TURN + $BUFFER) for @cycles;

my $allowed = 1.5 * $mean > 2 ? 1.5 * $mean : 2;

note(sprintf '%d cycles, p50 %.2f ms, p99 %.2f, at most %.2f; %.2f ms for their '
     . 'bytes', scalar @cycles, $cycles[@cycles / 2] / 1000, $slow,
     $cycles[-1] / 1000, $mean);

SKIP: {
    skip 'a sanitized worker is slower', 1 if $ENV{AGENTSTREAM_ASAN};
    cmp_ok($slow, '<=', $allowed, 'a cycle takes at most 2 ms');
}

kill TERM => $pid;
waitpid $pid, 0;
$t->done();


# the environment of an nginx that notes what its cycles cost (lib/cycle.c)

sub cycles {
    my $dir = File::Temp::tempdir(CLEANUP => 1);

    system('cc', '-shared', '-fPIC', '-O', '-o', "$dir/cycle.so",
           "$FindBin::Bin/lib/cycle.c") == 0
        or die "cycle.c cannot be compiled\n";

    $ENV{AGENTSTREAM_CYCLES} = "$dir/cycles";

    return { LD_PRELOAD => "$dir/cycle.so",
             AGENTSTREAM_CYCLES => "$dir/cycles" };
}


# the descriptor that most was read from

sub flood_fd {
    my $text = $t->log_text();
    my %read;

    $read{$1} += $2 while $text =~ /recv: fd:(\d+) (\d+) of $BUFFER$/mg;

    return (sort { $read{$b} <=> $read{$a} } keys %read)[0];
}


# A server with one session, whose event stream sends so many bytes at once, and
# which refuses the prompt after that. -> its port, its process, and a pipe that
# tells when the flood begins and ends

sub flood {
    my $listener = IO::Socket::INET->new(LocalAddr => '127.0.0.1',
        Listen => 16) or die "listen: $!\n";

    pipe(my $reader, my $writer) or die "pipe: $!\n";
    pipe(my $done, my $all) or die "pipe: $!\n";
    my $child = fork() // die "fork: $!\n";

    return ($listener->sockport(), $child, $reader) if $child;

    $SIG{CHLD} = 'IGNORE';
    alarm(120);

    while (my $socket = $listener->accept()) {
        serve($socket, $writer, $all, $done) if fork() == 0;
        $socket->close();
    }

    require POSIX;
    POSIX::_exit(0);
}


sub serve {
    my ($socket, $writer, $all, $done) = @_;

    alarm(120);
    sysread $socket, my $request, 65536;

    if ($request =~ m{^GET /event}) {
        # events that must be parsed to find out that they are nobody's
        my $event = 'data: {"properties":{"list":['
            . join(',', (0) x 2000)
            . ']},"type":"noise"}' . "\n\n";
        my $flood = $event x (1048576 / length $event);

        syswrite $socket, "HTTP/1.1 200 OK\r\n"
            . "Content-Type: text/event-stream\r\n\r\n"
            . 'data: {"id":"evt_1","type":"server.connected","properties":{}}'
            . "\n\n";
        syswrite $writer, 'b';
        sleep(1);

        for (1 .. $SIZE) {
            my $at = 0;

            syswrite $writer, 'f' if $_ == 2;

            while ($at < length $flood) {
                $at += syswrite($socket, $flood, length($flood) - $at, $at)
                       // last;
            }
        }

        syswrite $all, 'e';
        sysread $socket, $request, 1;

    } else {
        my ($status, $body) = $request =~ m{^GET /session/ses_flood[ ?]}
            ? ('200 OK', '{"id":"ses_flood","directory":"/flood"}')
            : $request =~ m{/status} ? ('200 OK', '{}')
            : ('400 Bad Request', '{}');

        sysread $done, my $byte, 1 if $request =~ /prompt_async/;

        syswrite $socket, "HTTP/1.1 $status\r\nConnection: close\r\n"
            . "Content-Type: application/json\r\nContent-Length: "
            . length($body) . "\r\n\r\n$body";
    }

    $socket->close();
    require POSIX;
    POSIX::_exit(0);
}

