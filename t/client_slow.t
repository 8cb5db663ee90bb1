#!/usr/bin/perl

# Clients that read slowly or not at all, and clients that have shut down their
# sending side of the connection.  A slow client gets every byte and costs the
# worker one buffer.  A client that accepts nothing for send_timeout is
# disconnected, but its turn goes on.  A client that has shut down its sending
# side counts as disconnected, as everywhere in nginx.
#
# A slow one gets every byte and costs the worker one buffer; one that takes
# nothing for send_timeout is let go, the turn is not; to have shut down the
# sending side is to be gone, as everywhere in nginx.
#
# Broken by: packets queued per reader; a turn that waits for its reader; a busy
# output that is written to (bytes twice or out of order); a keepalive comment
# in the middle of a packet; a send timer that is not set or not renewed.

use FindBin;
use lib "$FindBin::Bin/lib";

use AgentStream;
use AgentStream::Attach;

my $t = AgentStream->new(attach(timeout => 120, workers => 1,
    listen => 'sndbuf=16k', location => 'agentstream_keepalive 100ms;
        agentstream_on_disconnect abort; agentstream_detach_timeout 1s;',
    server => '
        location /short {
            agentstream /opencode/;
            send_timeout 1s;
        }'));
my ($worker) = $t->workers();
my $text = 'text:120:2000:5';
my %small = (port => $t->{port_pid}, rcvbuf => 16384);

# warm

my $s = $t->session();
check_turn($t->turn($s, $text), 'before all');
my ($files, $memory) = (files($worker), rss($worker));

# a byte every 100 ms, ten of them at once, next to one that reads as usual;
# 270 kB, of which the kernel keeps a few

$s = $t->session();
my @slow = map { $t->open($_ ? events_of($s) : $t->message_request($s, $text),
                          %small) } 0 .. 9;
my $usual = events($t, $s);
my $since = time();

while (time() < $since + 3) {
    $t->wait([$usual], timeout => 0.1);
    take($_, 1) for @slow;
}

ok($t->wait([$usual], timeout => 20), 'slow: the other one is done');
check_turn($usual, 'slow: the other one');
ok(!turn_state($t, $s)->{running}, 'slow: the turn did not wait');
is(scalar(grep { $_->finished() } @slow), 0, 'slow: they are not done');

SKIP: {
    skip 'a sanitized worker keeps what it frees', 1 if $ENV{AGENTSTREAM_ASAN};
    cmp_ok(rss($worker) - $memory, '<', 1024, 'slow: a buffer each, not a turn');
}

ok($t->wait(\@slow, timeout => 30), 'slow: they come to the end');
is(scalar(grep { join_raw($_) eq join_raw($usual) } @slow), 10,
   'slow: the same packets');
is(scalar(grep { check_turn($_, 'slow', quiet => 1) } @slow), 10,
   'slow: whole turns');
nothing_left($t, $worker, $files, 'slow');

# stalled: the client accepts nothing for send_timeout; the turn goes on for
# other clients

$s = $t->session();
my $stalled = $t->open('POST', "/short/$s/send-message", %small,
                       body => { content => $text });
ok(wait_for(sub { $t->log_text() =~ /client timed out/ }, 20),
   'stalled: let go');
ok(wait_for(sub { !turn_state($t, $s)->{running} }, 10),
   'stalled: the turn came to its end');
my $later = $t->request(events_of($s), timeout => 20);
check_turn($later, 'stalled: for another one');
check_text($later, $t->messages($s), 'stalled: for another one');
$t->wait([$stalled], timeout => 10);
is($stalled->ended() // 'cut', 'cut', 'stalled: it can tell that this was '
                                      . 'not the end');
nothing_left($t, $worker, $files, 'stalled');

# half-closed, with the request and later: gone

for my $when ('with the request', 'while resolving', 'in the stream') {
    $s = $t->session();
    $t->control('config', { rules => [{ url => "^/session/$s\$", times => 1,
                                        delay => 300 }] })
        if $when eq 'while resolving';

    my $c = $t->send_message($s, 'text:200:16:20');
    hear($t, $c, 3) if $when eq 'in the stream';
    sleep(0.1) if $when eq 'while resolving';
    $c->half_close();
    ok($t->wait([$c], timeout => 5), "half-closed $when: closed");
    isnt($c->ended() // '', 'clean', "half-closed $when: not as if it ended");
    ok(wait_for(sub { !turn_state($t, $s)->{running} }, 10),
       "half-closed $when: counts as gone");
    is(turn_state($t, $s)->{stopReason}, 'cancelled',
       "half-closed $when: what on_disconnect says");
    check_turn($t->request(events_of($s)), "half-closed $when: the turn");
    $t->control('config', { rules => [] });
    nothing_left($t, $worker, $files, "half-closed $when");
}

# but what can be answered at once is

my $c = $t->open('POST', '/sessions/ses_1/send-message', body => {});
$c->half_close();
$t->wait([$c]);
is_error_packet($c->response(), 400, 'half-closed: an error is answered');

$t->done();


# so many bytes, as they come

sub take {
    my ($client, $n) = @_;

    my $bytes;
    my $got = sysread($client->{fh}, $bytes, $n);
    return unless $got;

    $client->{buffer} .= $bytes;
    $client->parse(time());
}
