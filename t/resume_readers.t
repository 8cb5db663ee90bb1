#!/usr/bin/perl

# Twenty readers of one turn, on two workers, some of them stopped for a while
# as a suspended laptop is: all get the same packets.  A worker keeps nothing
# for those who lag, and their lag does not reach OpenCode.
#
# Broken by: packets queued per reader instead of read from the journal when
# the socket can take them; a hub that stops reading for a slow client; a
# reader that is not resumed when its socket is writable again.

use FindBin;
use lib "$FindBin::Bin/lib";

use AgentStream;
use AgentStream::Attach;
use AgentStream::Process qw(slurp);

my $SECONDS = 10;

# small buffers in the kernel: 2M of packets do not fit, and three such readers
# in each worker would be 6M there

my $t = AgentStream->new(attach(timeout => 90, listen => 'sndbuf=32k'));
my @workers = $t->workers();
my $s = $t->session();

my $sender = on_worker($t, $workers[0], send_to($s, 'text:500:2000:10'));
hear($t, $sender, 1);

my @readers = map { on_worker($t, $workers[$_ % 2], events_of($s)) } 1 .. 13;
my @stopped = map { AgentStream::Client->curl(
    "http://127.0.0.1:$t->{port_pid}/sessions/$s/events") } 1 .. 6;

hear($t, $_, 20) for $sender, @readers, @stopped;

$_->{process}->signal('STOP') for @stopped;
my %before = map { $_ => rss($_) } @workers;

# the event streams' queues, every now and then, while the others read on

my ($since, @queues, @rss) = time();

while (time() < $since + $SECONDS
       || !$sender->finished() && time() < $since + 4 * $SECONDS)
{
    $t->wait([$sender, @readers], timeout => 0.05);
    push @queues, hub_queue();
    push @rss, map { rss($_) - $before{$_} } @workers;
}

my ($run, $longest) = (0, 0);

for (@queues) {
    $run = $_ > 0 ? $run + 1 : 0;
    $longest = $run if $run > $longest;
}

cmp_ok(scalar @queues, '>', 4, 'looked often enough');
cmp_ok($longest, '<', 10, 'the hub\'s receive queue does not stay filled');
my ($most) = sort { $b <=> $a } @rss;
check_memory($most, 'no memory for those who lag');
note("most $most kB more, longest time with bytes waiting $longest of "
     . @queues);

ok($t->wait([$sender, @readers]), 'those who are not stopped are done');
check_turn($sender, 'the sender');

my $missing = grep { $_->packets() < 400 } @stopped;
is($missing, 6, 'the stopped ones lag');

$_->{process}->signal('CONT') for @stopped;
ok($t->wait(\@stopped, timeout => 20), 'the stopped ones come to the end');
check_text($sender, $t->messages($s), 'the sender');
is(scalar(grep { join_raw($_) eq join_raw($sender) } @readers), 13,
   'readers: the same packets');
is(scalar(grep { join_raw($_) eq join_raw($sender) } @stopped), 6,
   'stopped readers: the same packets');
is(scalar(grep { ($_->ended() // '') eq 'clean' } @readers, @stopped), 19,
   'all end in good order');

# and it comes back when they are gone

my ($now) = sort { $b <=> $a } map { rss($_) - $before{$_} } @workers;
check_memory($now, 'no memory left behind');

# a reader that never comes back is let go: send_timeout

change_conf($t, [qr/agentstream \/opencode\/;/,
                 "agentstream /opencode/;\n send_timeout 1s;"]);
my @old = $t->reload();
wait_for(sub { !grep { kill 0, $_ } @old });
my $dead = $t->open(events_of($s), port => $t->{port_pid}, rcvbuf => 8192);
ok(wait_for(sub { $t->log_text() =~ /client timed out/ }, 10),
   'a reader that reads nothing is let go');
$dead->close();

$t->done();


# a sanitized worker keeps what it frees

sub check_memory {
    my ($kilobytes, $name) = @_;

    SKIP: {
        skip $name, 1 if $ENV{AGENTSTREAM_ASAN};
        cmp_ok($kilobytes, '<', 3072, $name);
    }
}


# bytes that OpenCode sent and nginx has not read, of all its connections

sub hub_queue {
    my $port = sprintf '%04X', $t->{port_opencode};
    my $bytes = 0;

    for (split /\n/, slurp('/proc/net/tcp')) {
        my (undef, undef, $remote, $state, $queues) = split ' ';

        $bytes += hex((split /:/, $queues)[1])
            if $remote =~ /:$port$/ && $state eq '01';
    }

    return $bytes;
}
