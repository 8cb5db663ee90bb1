#!/usr/bin/perl

# The protocol of the AI SDK: what is refused has its status and a sentence as
# its body, which the library shows, and does not reach OpenCode; and everything
# around a chat works as for packets: methods, types, sizes, fields, owners, a
# busy chat, a turn that fails before it begins.
#
# Broken by: a body that is passed on without its check, an error in the form of
# packets, an answer for another chat or to what was never asked, a chat of
# another owner that is found, more of the history than the last message.

use FindBin;
use lib "$FindBin::Bin/lib";

use AgentStream;
use AgentStream::Process qw(wait_for);

my $json = JSON::PP->new->utf8->canonical->allow_nonref;
my $true = JSON::PP::true;

my $t = AgentStream->new(timeout => 90, server => <<'EOF_CONF');
        location /chat {
            agentstream /opencode/;
            agentstream_protocol ai-sdk;
            client_max_body_size 30m;
        }

        location /small {
            agentstream /opencode/;
            agentstream_protocol ai-sdk;
        }

        location /fields {
            agentstream /opencode/;
            agentstream_protocol ai-sdk;
            agentstream_fields content;
        }

        location /owned {
            agentstream /opencode/;
            agentstream_protocol ai-sdk;
            agentstream_owner $arg_user;
        }
EOF_CONF

# ---- bodies

my $user = sub {
    my ($id, @parts) = @_;

    return { role => 'user', id => $id,
             parts => [map { ref $_ ? $_ : { type => 'text', text => $_ } }
                       @parts] };
};
my $waits = sub {
    my ($turn, $seq, @parts) = @_;

    return { role => 'assistant', id => 'm', parts => \@parts,
             metadata => { agentstream => { turn => $turn, seq => $seq } } };
};
my $approval = sub {
    return { type => 'dynamic-tool', state => 'approval-responded',
             toolCallId => 'c', approval => { id => $_[0],
                                              approved => $_[1] // $true } };
};
my $hi = $user->('m1', 'text:1:1:1');

my @bad = (
    ['not JSON', '{'],
    ['a list', '[]'],
    ['no id', { messages => [$hi] }],
    ['an id that is no name', { id => '../x', messages => [$hi] }],
    ['an id that is too long', { id => 'x' x 81, messages => [$hi] }],
    ['no messages', { id => 'c' }],
    ['messages of another shape', { id => 'c', messages => { a => 1 } }],
    ['an empty list', { id => 'c', messages => [] }],
    ['a message that is none', { id => 'c', messages => [$hi, 'x'] }],
    ['an unknown role', { id => 'c', messages => [{ role => 'x' }] }],
    ['no message id', { id => 'c', messages => [$user->('', 'x')] }],
    ['no parts', { id => 'c', messages => [$user->('m')] }],
    ['an unknown part',
     { id => 'c', messages => [$user->('m', { type => 'data-x' })] }],
    ['a file from elsewhere', { id => 'c', messages => [$user->('m',
        { type => 'file', mediaType => 'a/b', url => 'http://x/' })] }],
    ['an unknown field', { id => 'c', messages => [$hi], chatty => 1 }],
    ['regenerate', { id => 'c', messages => [$hi],
                     trigger => 'regenerate-message' }],
    ['another trigger', { id => 'c', messages => [$hi], trigger => 'x' }],
    ['a message that was edited', { id => 'c', messages => [$hi],
                                    messageId => 'm1' }],
    ['an answer of an unknown turn',
     { id => 'c', messages => [$waits->('msg_x', 1, $approval->('per_1'))] }],
    ['an answer without metadata', { id => 'c', messages => [
        { role => 'assistant', parts => [$approval->('per_1')] }] }],
    ['an answer twice', { id => 'c', messages => [$waits->('msg_x', 1,
        $approval->('per_1'), $approval->('per_1'))] }],
    ['a result that nobody waits for', { id => 'c', messages => [
        $waits->('msg_x', 1, { state => 'output-available',
                               output => 'x' })] }],
);

for (@bad) {
    my ($name, $body) = @$_;

    refused(post('/chat', $body), 400, $name);
}

refused(post('/small', large(20_000_000)), 413, '20 MB of files');
refused($t->request('POST', '/chat', body => '{}',
    headers => { 'Content-Type' => 'text/plain' }), 415, 'not JSON');
refused($t->request('GET', '/chat'), 405, 'another method');
refused($t->request('POST', '/chat/c/run'), 404, 'another route');
refused($t->request('POST', '/chat/a%20b/stop'), 400, 'stop: not a name');
refused($t->request('POST', '/chat/@x/stop'), 400, 'stop: no @ in a name');
refused(post('/owned', { id => 'c', messages => [$hi] }), 403, 'nobody');
refused(post('/fields', { id => 'c', messages => [$hi], agent => 'build' }),
        400, 'a field that must not be sent here');

is(scalar @{ $t->control('log') }, 0, 'nothing has reached OpenCode');

# ---- a long conversation, of which only the last message counts

my $c = post('/chat', { id => 'long', messages => [
    (map { { id => "$_", role => $_ % 2 ? 'user' : 'assistant',
             parts => [{ type => 'text', text => "message $_" }] } } 1 .. 999),
    $user->('m', 'text:3:5:1')] });

is($c->status(), 200, 'a thousand messages');
is(finish($c), 'stop', '... are one prompt');
is(scalar prompts(), 1, '... which is sent once');

my ($prompt) = prompts();

is(scalar @{ $json->decode($prompt->{body})->{parts} }, 1,
   '... with one part') if defined $prompt->{body};

$c = post('/fields', { id => 'fields', messages => [$user->('m',
                                                            'text:3:5:1')] });
is(finish($c), 'stop', 'who may send content may send messages');

# ---- answers

$c = post('/chat', { id => 'asks', messages => [
    $user->('m', 'replay:permission-once:1:1 wait=1')] });
is(finish($c), 'tool-calls', 'a turn waits');

my ($id) = map { $_->{approvalId} // () } chunks($c);
my ($at) = map { $_->{messageMetadata}{agentstream} // () } chunks($c);
my $answer = sub {
    my ($chat, @parts) = @_;

    return { id => $chat, messages => [$waits->(@$at{qw(turn seq)}, @parts)] };
};
my $sent = () = answers();

refused(post('/chat', $answer->('long', $approval->($id))), 400,
        'an approval of another chat');
refused(post('/chat', $answer->('asks', $approval->('per_other'))), 400,
        'an approval of what was not asked');
refused(post('/chat', $answer->('asks')), 400, 'no answer at all');
refused(post('/chat', $answer->('asks', $approval->($id),
    { state => 'output-available', output => 'x', callProviderMetadata =>
      { agentstream => { questionId => 'que_none' } } })), 400,
    'a result for what was not asked, beside a good answer');
refused(post('/chat', { id => 'asks', messages => [$user->('n', 'x')] }), 409,
        'a new message while the turn waits');
is(scalar answers(), $sent, 'nothing was answered')
    or diag($json->encode([answers()]));

$c = post('/chat', $answer->('asks', $approval->($id)));
is(finish($c), 'tool-calls', 'the answer leads to the next question');
is(scalar answers(), $sent + 1, '... and was sent');

my $again = post('/chat', $answer->('asks', $approval->($id)));
is((map { $_->{approvalId} // () } chunks($again))[0],
   (map { $_->{approvalId} // () } chunks($c))[0],
   'the same answer again just goes on');
is(scalar answers(), $sent + 1, '... and is not sent again');

($id) = map { $_->{approvalId} // () } chunks($c);
($at) = map { $_->{messageMetadata}{agentstream} // () } chunks($c);
$c = post('/chat', $answer->('asks', $approval->($id)));
is(finish($c), 'stop', 'the last answer ends the turn');
is(scalar(grep { $_->{type} eq 'start' } chunks($c)), 1, '... in one message');

# ---- busy, and the same message again

my $body = { id => 'busy', messages => [$user->('m', 'text:20:5:50')] };
my $before = prompts();
my $first = $t->open(http('/chat', $body));

wait_for(sub { prompts() == $before + 1 }, 10);
refused(post('/chat', { id => 'busy', messages => [$user->('n', 'x')] }), 409,
        'busy');

my $same = post('/chat', $body);

$t->wait([$first]);
is($same->body(), $first->body(), 'the same message has the same answer');
is(scalar prompts(), $before + 1, '... of one prompt');

# ---- nothing runs

is($t->request('GET', '/chat/never/stream')->status(), 204, 'no such chat');
is($t->request('GET', '/chat/busy/stream')->status(), 204, 'nothing runs');
is($t->request('POST', '/chat/busy/stop')->body(), '{"interrupted":false}',
   'nothing to stop');
is($t->request('POST', '/chat/never/stop')->body(), '{"interrupted":false}',
   '... and no such chat');
is($t->request('GET', '/chat/a%3Ab/stream')->status(), 204,
   'an id with ":", as the library encodes it');

# ---- owners

$body = { id => 'mine', messages => [$user->('m', 'text:60:5:50')] };
$first = $t->open(http('/owned?user=alice', $body));
wait_for(sub { prompts() == $before + 2 }, 10);
is($t->request('GET', '/owned/mine/stream?user=bob')->status(), 204,
   'a chat of another owner is not found');
is($t->request('POST', '/owned/mine/stop?user=bob')->body(),
   '{"interrupted":false}', '... nor stopped');
is($t->request('POST', '/owned/mine/stop?user=alice')->body(),
   '{"interrupted":true}', 'its owner stops it');
$t->wait([$first]);

# ---- what is large, but good

is(finish(post('/chat', large(20_000_000))), 'stop',
   '20 MB of files, where that is allowed');

# ---- a turn that fails before it begins

$t->control('config', { rules => [
    { method => 'POST', url => 'prompt_async', status => 500 }] });
$c = post('/chat', { id => 'fails', messages => [$user->('m', 'text:3:5:1')] });
cmp_ok($c->status(), '>=', 500, 'a prompt that fails has its status');
like($c->header('Content-Type'), qr{^text/plain}, '... and a sentence');

$t->done();


sub http {
    my ($path, $body) = @_;

    return ('POST', $path, body => ref $body ? $json->encode($body) : $body,
        headers => { 'Content-Type' => 'application/json' });
}


sub post {
    return $t->request(http(@_));
}


# a message with a file of this size

sub large {
    my ($size) = @_;

    return '{"id":"large","messages":[{"role":"user","id":"m","parts":['
           . '{"type":"text","text":"text:3:5:1"},{"type":"file","mediaType":'
           . '"image/png","filename":"x.png","url":"data:image/png;base64,'
           . 'A' x $size . '"}]}]}';
}


sub chunks {
    my ($c) = @_;

    return map { /^data: (\{.*)/ ? $json->decode($1) : () }
           split /\n/, $c->body();
}


sub finish {
    my ($c) = @_;
    my ($finish) = grep { $_->{type} eq 'finish' } chunks($c);

    return $finish->{finishReason} // $c->body();
}


sub prompts {
    return $t->posted(qr/prompt_async/);
}


sub answers {
    return $t->posted(qr{/(?:permission|question)s?/});
}


sub refused {
    my ($c, $status, $name) = @_;

    is($c->status(), $status, "$name: $status") or diag($c->body());
    like($c->body(), qr/^[^{}\n]+\w/, "$name: a sentence");
    unlike($c->body(), qr/^\{/, "$name: no JSON");
    like($c->header('Content-Type'), qr{^text/plain}, "$name: plain text");
}
