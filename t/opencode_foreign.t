#!/usr/bin/perl

# On OpenCode itself: a session that somebody else prompts, not through nginx,
# before our prompt, in the middle of our turn and right at its end.  A turn
# sends its own answer and nothing of the other one, and a session that
# OpenCode is working on is busy.
#
# Broken by: an answer that is taken for ours though another user message is its
# parent (translate_message_ours()), a turn that waits for the idle behind the
# other answer (state.passed), a prompt sent without turn_probe(), a turn that
# was refused and is found by "events" or by its client_request_id.

use FindBin;
use lib "$FindBin::Bin/lib";

use Time::HiRes qw(sleep time);

use AgentStream;
use AgentStream::Attach qw(events);
use AgentStream::Live qw(ask_opencode);

my $t = AgentStream->new(opencode => 'real', timeout => 300, server => <<'EOS');
        location /queued {
            agentstream /opencode/;
            agentstream_busy queue;
        }

        location /attached {
            agentstream /opencode/;
            agentstream_busy attach;
        }
EOS

my $theirs = qq(Theirs.\n!pace 60\n!say "Theirs are other words than ours.");
my $slow = qq(Theirs.\n!pace 400\n!say "Theirs take their time to be said.");
my ($s, $c, $e, $since);


# in mid-turn

$s = $t->create_session();
$c = start('/sessions', $s, '!pace 60', '!say "One two three four five six."');
until_type($c, 'agent_message_chunk');
prompt($s, "$theirs\n!sleep 3000");
ours($c, 'One two three four five six.', 'in mid-turn');
is(last_packet($c)->{usage}{totalTokens}, 120, 'in mid-turn: our usage');

# the zone knows the session, and that it was left busy

$c = start('/sessions', $s, '!say "Too early."');
refused($c, 'after a turn that was passed');

# in mid-turn, between two steps: the next answer is theirs

$s = $t->create_session();
$c = start('/sessions', $s, '!say "First."',
           '!call bash {"command":"sleep 1","description":"x"}', '!next',
           '!say "Not ours."');
until_type($c, 'tool_call_start');
prompt($s, $theirs);
ours($c, 'First.', 'between two steps');

# right at our end

for my $n (1 .. 4) {
    $s = $t->create_session();
    $c = start('/sessions', $s, qq(!say "Turn $n."));
    until_type($c, 'context_usage');
    prompt($s, $theirs);
    ours($c, "Turn $n.", "at our end $n");
}

# at once with our prompt: one answer, which is told as ours or not at all

$s = $t->create_session();
$c = start('/sessions', $s, '!say "At once."');
$t->wait([$c], timeout => 20, until => sub { $_[0]->packets() });
prompt($s, $theirs);
$t->wait([$c], timeout => 30);
unlike(joined_text($c), qr/Theirs/, 'at once: nothing of theirs');
like(last_packet($c)->{stopReason} // last_packet($c)->{message},
     qr/^end_turn$|^Another prompt in this session was answered instead/,
     'at once: it ends');

# before our prompt: refused, and nothing was sent or is remembered

$s = $t->create_session();
prompt($s, $slow);
busy($s);
$c = $t->open('POST', "/sessions/$s/send-message",
              body => { content => '!say "Ours."', client_request_id => 'r1' });
refused($c, 'before our prompt');
is(users($s), 1, 'before our prompt: it was not sent');

$e = events($t, $s);
ok($t->wait([$e], timeout => 30), 'events ends');
is(joined_text($e), 'Theirs take their time to be said.',
   'events tells the one that runs, not the one that was refused');

$c = $t->open('POST', "/sessions/$s/send-message",
              body => { content => '!say "Ours."', client_request_id => 'r1' });
$t->wait([$c], timeout => 30);
is(joined_text($c), 'Ours.', 'the same request runs when the session is free');

# ... queued

$s = $t->create_session();
prompt($s, $slow);
busy($s);
$since = time();
$c = start('/queued', $s, '!say "Ours, later."');
ours($c, 'Ours, later.', 'queued');
cmp_ok(time() - $since, '>', 0.5, 'queued: it waited');
is(users($s), 2, 'queued: sent once');

# ... and a client that disconnects while it waits has not sent anything

$s = $t->create_session();
prompt($s, "Theirs.\n!sleep 5000\n!say \"x\"");
busy($s);
$c = start('/queued', $s, '!say "Nobody waits."');
sleep(1);
$c->close();
wait_idle($s);
sleep(1.5);
is(users($s), 1, 'queued: who left is dropped');

# ... interrupted while it waits: nothing of theirs is aborted

$s = $t->create_session();
prompt($s, $slow);
busy($s);
$c = start('/queued', $s, '!say "Never."');
sleep(0.3);
is($t->request('POST', "/sessions/$s/interrupt")->body(),
   '{"interrupted":true}', 'interrupted while it waits');
$t->wait([$c], timeout => 10);
is(last_packet($c)->{stopReason}, 'cancelled', 'it ends');
wait_idle($s);
is(stored($s), 'Theirs take their time to be said.', 'theirs went on');

# ... attached

$s = $t->create_session();
prompt($s, $slow);
busy($s);
$c = start('/attached', $s, '!say "Ours."');
ok($t->wait([$c], timeout => 30), 'attached: it ends');
is($c->status(), 200, 'attached: a stream');
is(joined_text($c), 'Theirs take their time to be said.',
   'attached: what OpenCode works on');
is(users($s), 1, 'attached: our prompt was not sent');

$t->done();


sub start {
    my ($location, $session, @orders) = @_;

    return $t->open('POST', "$location/$session/send-message",
                    body => { content => join "\n", 'Go.', @orders });
}


sub prompt {
    my ($session, $text) = @_;

    ask_opencode($t, 'POST', "/session/$session/prompt_async",
                 { parts => [{ type => 'text', text => $text }] });
}


sub is_busy {
    my ($session) = @_;

    return exists ask_opencode($t, 'GET', '/session/status')->{$session};
}


sub busy {
    my ($session) = @_;

    for (1 .. 100) {
        return if is_busy($session);
        sleep(0.05);
    }

    fail('their prompt is being answered');
}


sub wait_idle {
    my ($session) = @_;

    for (1 .. 200) {
        return if !is_busy($session);
        sleep(0.05);
    }

    fail('their prompt was answered');
}


sub messages {
    my ($session) = @_;

    return @{ ask_opencode($t, 'GET', "/session/$session/message") };
}


sub users {
    return scalar grep { $_->{info}{role} eq 'user' } messages(@_);
}


sub stored {
    return join '', map { $_->{text} } grep { $_->{type} eq 'text' }
           map { @{ $_->{parts} } }
           grep { $_->{info}{role} eq 'assistant' } messages(@_);
}


sub until_type {
    my ($c, $type) = @_;

    ok($t->wait([$c], timeout => 60, until => sub {
        grep { packet_json($_)->{type} eq $type } $_[0]->packets();
    }), "$type comes");
}


sub last_packet {
    my ($c) = @_;

    return packet_json(($c->packets())[-1] // {});
}


sub ours {
    my ($c, $text, $name) = @_;

    ok($t->wait([$c], timeout => 60), "$name: it ends");
    check_turn($c, $name);
    is(last_packet($c)->{stopReason}, 'end_turn', "$name: well");
    is(joined_text($c), $text, "$name: our words alone");
}


sub refused {
    my ($c, $name) = @_;

    $t->wait([$c], timeout => 30);
    is_error_packet($c->response(), 409, $name);
}
