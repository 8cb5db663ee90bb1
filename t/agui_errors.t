#!/usr/bin/perl

# AG-UI: what is refused has its status and RUN_ERROR as its body, and does not
# reach OpenCode; and everything around a run works as for packets: methods,
# types, sizes, owners, a busy thread, a turn that fails before it begins, and
# permissions that the configuration grants.
#
# Broken by: a body that is passed on without its check, an error in the form of
# packets, answers that are sent to OpenCode before all of them were checked, an
# interrupt of another thread that is answered, an answer to what the turn has
# never asked that is taken for one that was answered elsewhere, an answer that
# is sent again, a thread of another owner that is found, an interrupt for what
# the configuration answers.

use FindBin;
use lib "$FindBin::Bin/lib";

use AgentStream;

my $json = JSON::PP->new->utf8->canonical->allow_nonref;

my $t = AgentStream->new(timeout => 90, server => <<'EOF');
        location /ag-ui {
            agentstream /opencode/;
            agentstream_protocol ag-ui;
            client_max_body_size 1m;
        }

        location /large {
            agentstream /opencode/;
            agentstream_protocol ag-ui;
            client_max_body_size 30m;
        }

        location /owned {
            agentstream /opencode/;
            agentstream_protocol ag-ui;
            agentstream_owner $arg_user;
        }

        location /granted {
            agentstream /opencode/;
            agentstream_protocol ag-ui;
            agentstream_permissions allow;
        }
EOF

$t->control('config', { strict => JSON::PP::true });

# ---- bodies

my %good = (threadId => 'thread-1', runId => 'run-1', messages => []);
my $user = sub { { id => '1', role => 'user', content => $_[0] } };
my $ask = sub {
    my ($id, %more) = @_;

    return { messages => [], resume => [map { { interruptId => $_,
             status => 'resolved', %more } } ref $id ? @$id : $id] };
};
my $file = sub { { type => 'image', source => { type => 'data', @_ } } };

my @bad = (
    ['not JSON', '{'],
    ['a list', '[]'],
    ['no threadId', { %good, threadId => undef }],
    ['a threadId that is no name', { %good, threadId => '../etc' }],
    ['a threadId that is too long', { %good, threadId => 'x' x 81 }],
    ['no runId', { %good, runId => '' }],
    ['a runId that is too long', { %good, runId => 'x' x 129 }],
    ['no messages', { threadId => 't', runId => 'r' }],
    ['messages of another shape', { %good, messages => { a => 1 } }],
    ['a message without a role', { %good, messages => [{ id => 1 }] }],
    ['an unknown role', { %good, messages => [{ id => '1', role => 'x' }] }],
    ['an empty prompt', { %good, messages => [$user->('')] }],
    ['no parts', { %good, messages => [$user->([])] }],
    ['an unknown part',
     { %good, messages => [$user->([{ type => 'binary', data => 'x' }])] }],
    ['data that is not base64', { %good, messages => [$user->(
        [$file->(value => '%%', mimeType => 'image/png')])] }],
    ['a type that is none', { %good, messages => [$user->(
        [$file->(value => 'QUJD', mimeType => 'a b')])] }],
    ['a tool result that nobody waits for', { %good, messages => [
        { id => '1', role => 'tool', toolCallId => 'c', content => 'x' }] }],
    ['an interrupt that is none', { %good, %{ $ask->('x', payload => {}) } }],
    ['an answer without a payload',
     { %good, %{ $ask->('question:que_1:msg_1:1') } }],
    ['a reply that is none', { %good, %{ $ask->('permission:per_1:msg_1:1',
        payload => { reply => 'perhaps' }) } }],
    ['answers of another shape', { %good, %{ $ask->('question:que_1:msg_1:1',
        payload => { answers => 'Blue' }) } }],
    ['an interrupt twice', { %good, %{ $ask->(
        [('permission:per_1:msg_1:1') x 2],
        payload => { approved => JSON::PP::true }) } }],
    ['interrupts of two turns', { %good, %{ $ask->(
        ['permission:per_1:msg_1:1', 'permission:per_2:msg_2:1'],
        payload => { approved => JSON::PP::true }) } }],
);

for (@bad) {
    my ($name, $body) = @$_;

    refused(post('/ag-ui', $body), 400, $name);
}

refused(post('/ag-ui', large(20_000_000)), 413, '20 MB of files');
refused($t->request('POST', '/ag-ui', body => '{}',
    headers => { 'Content-Type' => 'text/plain' }), 415, 'not JSON');
refused($t->request('GET', '/ag-ui'), 405, 'another method');
refused($t->request('POST', '/ag-ui/thread/run'), 404, 'another route');
refused($t->request('POST', '/ag-ui/a%20b/stop'), 400, 'stop: not a name');
refused(post('/owned', { %good, messages => [$user->('text:1:1:1')] }), 403,
        'nobody');

is(scalar @{ $t->control('log') }, 0, 'nothing has reached OpenCode');

# ---- a long conversation, of which only the last message counts

my $c = post('/ag-ui', { %good, threadId => 'long', messages => [
    (map { { id => "$_", role => $_ % 2 ? 'user' : 'assistant',
             content => "message $_" } } 1 .. 999), $user->('text:3:5:1')] });

is($c->status(), 200, 'a thousand messages');
is((events($c))[-1]{type}, 'RUN_FINISHED', '... are one prompt');
is(scalar prompts(), 1, '... which is sent once');

# ---- nothing that waits

my ($turn) = map { $_->{value}{turnId} }
             grep { ($_->{name} // '') eq 'turn_started' } events($c);

post('/ag-ui', { %good, threadId => 'other',
                 messages => [$user->('text:3:5:1')] });
refused(post('/ag-ui', { %good, threadId => 'other',
    %{ $ask->("permission:per_1:$turn:1",
              payload => { approved => JSON::PP::true }) } }), 400,
    'an interrupt of another thread');
refused(post('/ag-ui', { %good, threadId => 'long', runId => 'run-2',
    %{ $ask->("permission:per_1:$turn:1",
              payload => { approved => JSON::PP::true }) } }), 400,
    'what the turn has never asked');
$c = post('/ag-ui', { %good, threadId => 'long', runId => 'run-3',
    messages => [], resume => [{ interruptId => "permission:per_1:$turn:1",
                                 status => 'cancelled' }] });
is((events($c))[-1]{type}, 'RUN_FINISHED', '... but it may be cancelled');
is(scalar answers(), 0, '... and nothing was answered');

# ---- what waits is answered once

$c = post('/ag-ui', { %good, threadId => 'asks',
    messages => [$user->('replay:permission-once:1:1 wait=1')] });

my ($interrupt) = map { $_->{id} } @{ (events($c))[-1]{outcome}{interrupts} };
my $approve = sub {
    my ($id, $thread) = @_;

    return post('/ag-ui', { %good, threadId => $thread // 'asks',
        runId => 'run-2', %{ $ask->($id, payload =>
                                    { approved => JSON::PP::true }) } });
};

(my $other = $interrupt) =~ s/:per_\w+:/:per_other:/;
(my $question = $interrupt) =~ s/^permission/question/;

refused($approve->($interrupt, 'long'), 400, 'an approval for another thread');
refused($approve->($other), 400, 'an approval of what was not asked');
refused($approve->([$interrupt, $other]), 400,
        'an approval of what was not asked, beside a good one');
refused(post('/ag-ui', { %good, threadId => 'asks', runId => 'run-2',
    %{ $ask->($question, payload => { answers => [['x']] }) },
    resume => [{ interruptId => $question, status => 'resolved',
                 payload => { answers => 'x' } }] }), 400,
    'an approval as an answer of another shape');
refused(post('/ag-ui', { %good, threadId => 'asks', runId => 'run-2',
    messages => [{ id => '1', role => 'tool', toolCallId => 'call_1',
                   content => 'x' }] }), 400,
    'a result for a call that does not wait');
is(scalar answers(), 0, 'nothing was answered');

$c = $approve->($interrupt);
is((events($c))[-1]{outcome}{type}, 'interrupt',
   'the answer leads to the next question');
is(scalar answers(), 1, '... and was sent');
is((events($approve->($interrupt)))[-1]{outcome}{type}, 'interrupt',
   'the same answer again just goes on');
is(scalar answers(), 1, '... and is not sent again');

($interrupt) = map { $_->{id} } @{ (events($c))[-1]{outcome}{interrupts} };
$c = $approve->($interrupt);
is((events($c))[-1]{outcome}{type}, 'success', 'the last one ends the turn');

# ---- busy, and the same run again

my $body = { %good, threadId => 'busy', messages => [$user->('text:20:5:50')] };
my $before = prompts();
my $first = $t->open(http('/ag-ui', $body));

wait_for(sub { prompts() == $before + 1 }, 10);
refused(post('/ag-ui', { %$body, runId => 'run-2' }), 409, 'busy');

my $same = post('/ag-ui', $body);

$t->wait([$first]);
is(text($same), text($first), 'the same run has the same answer');
is(scalar prompts(), $before + 1, '... of one prompt');

# ---- a thread that nobody has prompted

$c = post('/ag-ui', { %good, threadId => 'empty' });
is(join(' ', map { $_->{type} } events($c)),
   'RUN_STARTED MESSAGES_SNAPSHOT RUN_FINISHED', 'an empty thread');
is($t->request('POST', '/ag-ui/empty/stop')->body(), '{"interrupted":false}',
   'has nothing to stop');

# ---- owners

$c = post('/owned?user=alice', { %good, threadId => 'mine',
                                 messages => [$user->('text:3:5:1')] });
is((events($c))[-1]{type}, 'RUN_FINISHED', 'an owner has a thread');
$c = post('/owned?user=bob', { %good, threadId => 'mine' });
is_deeply((events($c))[1]{messages}, [],
          'the same name is an empty thread of another one');

# ---- what the configuration answers is no interrupt

$c = post('/granted', { %good, threadId => 'granted',
    messages => [$user->('replay:permission-once:1:1 wait=1')] });
is((events($c))[-1]{outcome}{type}, 'success', 'granted: one run');
is(scalar(grep { ($_->{name} // '') eq 'permission_resolved' } events($c)), 2,
   '... that tells of it');

# ---- what is large, but good

$c = post('/large', large(20_000_000));
is((events($c))[-1]{type}, 'RUN_FINISHED',
   '20 MB of files, where that is allowed') or diag($c->status());

# ---- a turn that fails before it begins

$t->control('config', { rules => [
    { method => 'POST', url => 'prompt_async', status => 500 }] });
$c = post('/ag-ui', { %good, threadId => 'fails',
                      messages => [$user->('text:3:5:1')] });
is($json->decode($c->body())->{type}, 'RUN_ERROR', 'a prompt that fails')
    or diag($c->body());
cmp_ok($c->status(), '>=', 500, '... has its status');

$t->done();


sub http {
    my ($path, $body) = @_;

    return ('POST', $path, body => ref $body ? $json->encode($body) : $body,
        headers => { 'Content-Type' => 'application/json' });
}


sub post {
    return $t->request(http(@_));
}


# a prompt with a file of this size

sub large {
    my ($size) = @_;

    return '{"threadId":"large","runId":"run-1","messages":[{"id":"1",'
           . '"role":"user","content":[{"type":"text","text":"text:3:5:1"},'
           . '{"type":"image","source":{"type":"data","mimeType":"image/png",'
           . '"value":"' . 'A' x $size . '"}}]}]}';
}


sub events {
    my ($c) = @_;

    return map { /^data: (.*)/ ? $json->decode($1) : () }
           split /\n/, $c->body();
}


sub text {
    my ($c) = @_;

    return join '', map { $_->{delta} // '' } events($c);
}


sub prompts {
    return $t->posted(qr/prompt_async/);
}


sub answers {
    return $t->posted(qr{/(?:permission|question)s?/});
}


sub refused {
    my ($c, $status, $name) = @_;
    my $body = eval { $json->decode($c->body()) } // {};

    is($c->status(), $status, "$name: $status") or diag($c->body());
    is($body->{type}, 'RUN_ERROR', "$name: in AG-UI's form");
    is($body->{code}, $status, "$name: with its code");
    like($c->header('Content-Type'), qr{^application/json}, "$name: JSON");
}
