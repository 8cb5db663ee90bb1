#!/usr/bin/perl

# A session that OpenCode is working on although no turn of it is known here,
# on the scripted OpenCode, whose status says so: what happens to the sender
# that waits for it and to others that look, and when the status is asked for
# again. t/opencode_foreign.t tests the same on OpenCode itself.
#
# Broken by: a prompt that is sent though its sender has left, because somebody
# else watches (node->senders); a refused turn that is shown to who only looks
# (reader's args.attach); a session that counts as free after an abort that
# failed (turn->loose), or after its worker was killed (node->prompted); a
# status that is believed after the stream was lost (turn_probe_done()).

use FindBin;
use lib "$FindBin::Bin/lib";

use AgentStream;
use AgentStream::Attach;

my $t = AgentStream->new(attach(timeout => 90, server => '
        location /queued {
            agentstream /opencode/;
            agentstream_busy queue;
        }

        location /hasty {
            agentstream /opencode/;
            agentstream_turn_timeout 1s;
        }'));
my @workers = $t->workers();
my ($s, $c, $d);


# the sender leaves, another client follows the session

$s = busy();
$c = queued($s);
waits($s);
$d = events($t, $s, undef, query => 'follow=1');
$t->wait([$d], timeout => 2, until => sub { $_[0]->packets() });
$c->close();
sleep(1.5);
free();
sleep(1.5);
is(prompts($t, $s), 0, 'who left has not sent anything, whoever watches');
$d->close();

# the same prompt is sent again while it waits: it is not lost with the first

$s = busy();
my @same = map { my $c = queued($s, client_request_id => 'r1'); waits($s); $c }
           1 .. 2;
$same[0]->close();
sleep(1.2);
free();
ok($t->wait([$same[1]], timeout => 10), 'sent again: it ends');
is(packet_json(($same[1]->packets())[-1])->{stopReason}, 'end_turn',
   'sent again: well');
is(prompts($t, $s), 1, 'sent again: once');

# a client that only looks is not told of a prompt that was refused

$s = $t->session();
works($s);
$t->control('config', { rules => [{ url => '^/session/status', delay => 800,
    times => 1, status => 200, body => qq({"$s":{"type":"busy"}}) },
    { url => '^/session/status', status => 200, body => '{}' }] });
$c = $t->send_message($s, 'text:3:24:0');
sleep(0.3);
$d = events($t, $s);
ok($t->wait([$c, $d], timeout => 10), 'refused: both end');
is_error_packet($c->response(), 409, 'refused: the sender');
is($d->status(), 204, 'refused: who looks has nothing to see');
free();

# an abort that failed: OpenCode may be at work still

$s = $t->session();
$t->control('config', { rules => [{ url => '/abort', status => 500,
                                    body => '{}' }] });
$c = $t->request('POST', "/hasty/$s/send-message", timeout => 20,
                 body => { content => 'text:100:24:100' });
is(packet_json(($c->packets())[-1])->{code}, 504, 'a turn took too long');
is_error_packet($t->turn($s, 'text:1:24:0')->response(), 409,
                'and was not aborted: OpenCode is asked before the next one');
free();

# the stream is lost while the sender waits, and the session becomes free

$s = busy();
$c = queued($s);
waits($s);
$t->control('config', { rules => [{ url => '^/event', drop => 1 }] });
$t->control('close', {});
sleep(2.5);
is(prompts($t, $s), 0, 'nothing is sent while no event would be heard');
free();
ok($t->wait([$c], timeout => 20), 'stream lost: it ends');
is(packet_json(($c->packets())[-1])->{stopReason}, 'end_turn',
   'stream lost: well');

# the worker is killed while its turn waits

$s = busy();
$c = on_worker($t, $workers[0], 'POST', "/queued/$s/send-message",
               body => { content => 'text:1:24:0' });
waits($s);
kill_worker($t, $workers[0]);
is_error_packet($t->request('POST', "/sessions/$s/send-message", timeout => 20,
    body => { content => 'text:1:24:0' })->response(), 409, 'killed: busy')
    for 1 .. 2;
is(prompts($t, $s), 0, 'killed: nothing is sent to a busy session');
free();

done_killed($t);


# its events say so, too

sub busy {
    my $session = $t->session();

    works($session);
    $t->control('config', { rules => [{ url => '^/session/status',
        status => 200, body => qq({"$session":{"type":"busy"}}) }] });

    return $session;
}


sub works {
    my ($session) = @_;

    $t->control('emit', { raw => 'data: {"id":"evt_x",'
        . qq("type":"session.status","properties":{"sessionID":"$session",)
        . qq("status":{"type":"busy"}}}\n\n) });
}


sub free {
    $t->control('config', { rules => [] });
}


sub queued {
    my ($session, %more) = @_;

    return $t->open('POST', "/queued/$session/send-message",
                    body => { content => 'text:3:24:0', %more });
}


# until OpenCode was asked for the session's status once more

sub waits {
    my $n = asked();

    ok(wait_for(sub { asked() > $n }, 5), 'it waits');
}


sub asked {
    return scalar grep { m{^GET /session/status} } $t->upstream();
}
