#!/usr/bin/perl

# agentstream_busy queue: senders to a busy session wait in the order of their
# arrival, on whatever worker they are; each stream is that sender's own turn;
# a sender that disconnects while it waits is dropped, and its prompt is never
# sent.
#
# Broken by: a queue per worker, a waiter woken only by its own worker's turns,
# a place in the queue kept by a client that left or by a worker that died, a
# worker that exits on reload while somebody waits in it, a prompt copied each
# time its sender looks whether it is its turn, an id made before the turn
# begins.

use FindBin;
use lib "$FindBin::Bin/lib";

use AgentStream;
use AgentStream::Attach;
use AgentStream::Process qw(slurp);
use Time::Local qw(timegm);

no warnings 'portable';

my $t = AgentStream->new(attach(timeout => 120,
    location => 'agentstream_busy queue; client_max_body_size 8m;'));
my @workers = $t->workers();
my ($s, @c);


# ten, alternating between the workers

$s = $t->session();
@c = map { my $c = on_worker($t, $workers[$_ % 2],
                             send_to($s, "text:3:24:20 n=$_"));
           sleep(0.05); $c } 0 .. 9;

ok($t->wait(\@c, timeout => 30), 'all had their turn');
is(scalar(grep { check_turn($_, 'queued', quiet => 1) } @c), 10,
   'each a whole one');
is(join(' ', prompt_numbers($t, $s)), join(' ', 0 .. 9),
   'in order, over two workers');

my %ids = map { turn_id($_) => 1 } @c;
is(scalar keys %ids, 10, 'each its own');
is(join(' ', map { turn_id($_) } @c), join(' ', sort keys %ids),
   'ids ascend with the queue');

# made when its turn began, not when it came: in milliseconds, of which an id
# has the low 36 bits

my @began = map { hex(substr turn_id($_), 4, 12) >> 12 } @c;
my @ended = map { msec(packet_json(($_->packets())[-1])->{timestamp}) } @c;
is(scalar(grep { ($began[$_] - $ended[$_ - 1]) % (1 << 36) >= 1 << 35 }
          1 .. 9), 0, 'an id is not older than the end of the turn in front');

# by the times in the packets: this test may be late in reading them

my @from = map { msec(packet_json(($_->packets())[0])->{timestamp}) / 1000 } @c;
my @to = map { $_ / 1000 } @ended;
is(scalar(grep { $from[$_] < $to[$_ - 1] - 0.05 } 1 .. 9), 0,
   'none begins before the one in front ended');
my @gaps = sort { $a <=> $b } map { $from[$_] - $to[$_ - 1] } 1 .. 9;
note(sprintf 'from one turn to the next: %.0f to %.0f ms',
     1000 * $gaps[0], 1000 * $gaps[-1]);
cmp_ok($gaps[4], '<', 0.5, 'the next one follows at once, not by polling');

# clients that disconnect while they wait: the first, middle and last of the
# queue

$s = $t->session();
@c = map { my $c = on_worker($t, $workers[$_ % 2],
                             send_to($s, ($_ ? 'text:3:24:20'
                                                     : 'text:30:24:60')
                                                 . " n=$_"));
           sleep(0.03); $c } 0 .. 7;
hear($t, $c[0], 1);
$_->close() for @c[1, 4, 5, 7];
sleep(0.2);
ok($t->wait([@c[0, 2, 3, 6]], timeout => 20), 'the others had their turn');
is(join(' ', prompt_numbers($t, $s)), '0 2 3 6', 'who left was dropped');
is(scalar(grep { check_turn($_, 'stayed', quiet => 1) } @c[0, 2, 3, 6]), 4,
   'the others are whole');

# all leave: the session is free at once

$s = $t->session();
@c = map { my $c = $t->send_message($s, "text:20:24:60 n=$_"); sleep(0.03);
           $c } 0 .. 3;
hear($t, $c[0], 1);
$_->close() for @c[1 .. 3];
$t->wait([$c[0]]);
my $since = time();
my $d = $t->turn($s, 'text:1:24:0 n=9');
is(join(' ', prompt_numbers($t, $s)), '0 9', 'nobody left in the queue');
cmp_ok(time() - $since, '<', 1.5, 'and nobody waited for');

# a turn in front that fails does not stop the queue

$s = $t->session();
$t->control('config', { rules => [{ method => 'POST', times => 1, delay => 300,
    url => "$s/prompt_async", status => 500, body => '{}' }] });
@c = map { my $c = $t->send_message($s, "text:2:24:20 n=$_"); sleep(0.03); $c }
     0 .. 2;
ok($t->wait(\@c), 'after a turn that failed');
is(join(' ', map { $_->status() } @c), '500 200 200', 'the others have theirs');
$t->control('config', { rules => [] });

# the same client_request_id twice in the queue is one turn

$s = $t->session();
my $first = $t->send_message($s, 'text:8:24:50 n=0');
hear($t, $first, 1);
@c = map { on_worker($t, $_, send_to($s, { content => 'text:2:24:20 n=1',
                                           client_request_id => 'twice' })) }
     @workers, @workers;
$t->wait([$first, @c]);
is(join(' ', prompt_numbers($t, $s)), '0 1', 'queued twice, sent once');
is(join_raw($_), join_raw($c[0]), 'all see it') for @c[1 .. 3];

# large prompts wait, in a worker that is woken for each packet of the turn: a
# copy of one takes a millisecond or more

$s = $t->session();
$first = on_worker($t, $workers[0], send_to($s, 'text:400:24:20 n=0'));
hear($t, $first, 1);
my $reader = on_worker($t, $workers[1], events_of($s));
hear($t, $reader, 3);

# what the packets cost without them, for comparison

my $alone = cpu_ms($workers[1]);
sleep(1);
$alone = 2 * (cpu_ms($workers[1]) - $alone);

my @large = ('POST', "/sessions/$s/send-message",
             headers => { 'Content-Type' => 'application/json' },
             body => '{"content":"text:2:24:20 ' . 'x' x 4_000_000 . '"}');
@c = map { on_worker($t, $workers[1], @large) } 1 .. 4;
hear($t, $reader, 30);
sleep(0.5);
my $spent = cpu_ms($workers[1]);
sleep(2);
$spent = cpu_ms($workers[1]) - $spent;
note(sprintf 'large: %.0f ms spent in waiting, %.0f without them', $spent,
     $alone);
cmp_ok($spent, '<', $alone * 2 + 60, 'large: little is spent in waiting');
ok($t->wait([$first, $reader, @c], timeout => 30), 'large: all end');
is(scalar(grep { check_turn($_, 'large', quiet => 1) } @c), 4,
   'large: all are whole');
$t->control('reset', {});

# a reload while they wait: nobody is lost, order holds, old workers leave

$s = $t->session();
my $a = on_worker($t, $workers[0], send_to($s, 'text:20:24:100 n=0'));
hear($t, $a, 1);
@c = map { my $c = on_worker($t, $workers[$_ % 2],
                             send_to($s, "text:3:24:50 n=$_"));
           sleep(0.05); $c } 1 .. 4;
my @old = $t->reload();
my $new = $t->send_message($s, 'text:3:24:20 n=5');
ok($t->wait([$a, @c, $new], timeout => 30), 'reload: all come to an end');
is(join(' ', map { ($_->status() // 'none') . ($_->ended() // '') }
             $a, @c, $new), join(' ', ('200clean') x 6),
   'reload: everybody in the queue has a turn');
is(join(' ', prompt_numbers($t, $s)), '0 1 2 3 4 5', 'reload: in order');
ok(wait_for(sub { !grep { kill 0, $_ } @old }, 2),
   'reload: the old workers leave');

# a waiter's worker dies: its places are nobody's

@workers = $t->workers();
$s = $t->session();
$a = on_worker($t, $workers[0], send_to($s, 'text:30:24:100 n=0'));
hear($t, $a, 1);
my @dead = map { on_worker($t, $workers[1], send_to($s, "text:3:24:0 n=$_")) }
           1, 2;
my $b = on_worker($t, $workers[0], send_to($s, 'text:3:24:20 n=3'));
sleep(0.2);
kill_worker($t, $workers[1]);
ok($t->wait([$a, $b], timeout => 10), 'killed: the queue goes on');
is($b->status(), 200, 'killed: who waited behind has its turn');
is(join(' ', prompt_numbers($t, $s)), '0 3', 'killed: the dead are not sent');

done_killed($t);


# the CPU time of a process

sub cpu_ms {
    my ($pid) = @_;

    return (split ' ', slurp("/proc/$pid/schedstat"))[0] / 1e6;
}


sub msec {
    my ($timestamp) = @_;
    my ($y, $mon, $d, $h, $min, $sec, $ms) = $timestamp =~ /(\d+)/g;

    return 1000 * timegm($sec, $min, $h, $d, $mon - 1, $y) + $ms;
}
