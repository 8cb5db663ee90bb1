#!/usr/bin/perl

# After a restart of nginx OpenCode goes on with its turns, and they can still
# be answered and interrupted, though nothing of them is kept: OpenCode is asked
# what waits and what is busy.
#
# Broken by: 404 for a question that waits; an answer to what waits in another
# session, or to nothing, or to a question as if it were a permission request
# (the list of questions asked for both); "interrupted" for a session that is
# idle, or without an abort; an error of OpenCode's that nobody is told, or as
# 404; an abort that hits the turn that begins behind it (the session not held
# while it is on its way), or a session that is held for ever; 404 for what a
# subagent waits for, or only for a subagent's own (unkept_owned() without a
# second step); an answer to a subagent of another session (the end of the way
# up not compared); a way up without an end, or one step longer or shorter
# (UNKEPT_DEPTH); a step that failed, or is of another session, or leads to what
# is no id (rc not tested in unkept_parent_done()); the id of a rebuilt turn's end
# with a packet before it.

use FindBin;
use lib "$FindBin::Bin/lib";

use AgentStream;
use AgentStream::Attach;

my $t = AgentStream->new(attach(timeout => 90, server => '
        location /queue {
            agentstream /opencode/;
            agentstream_busy queue;
        }'));

my %turn = map { $_ => { s => $t->session(), order => "replay:$_ wait=1" } }
           qw(question-single question-reject permission-reject);
my $long = { s => $t->session(), order => 'text:3000:8:20' };
my @all = (values %turn, $long);

$_->{c} = $t->send_message($_->{s}, $_->{order}) for @all;

for (values %turn) {
    my ($c, $ask) = ($_->{c});

    ok($t->wait([$c], until => sub {
        ($ask) = grep { $_->{questionId} || $_->{permissionId} }
                 map { packet_json($_) } $_[0]->packets() }), 'it is asked');
    $_->{path} = $ask->{questionId} ? "questions/$ask->{questionId}"
                                    : "permissions/$ask->{permissionId}";
    $_->{type} = $ask->{type};
}

hear($t, $long->{c}, 5);

# its subagent asks a question, and that one's subagent for a permission

my @child = map { "$long->{s}$_" } 'a' .. 'i';
my ($mid) = map { packet_json($_)->{messageId} } ($long->{c}->packets())[-1];

create($child[$_], $_ ? $child[$_ - 1] : $long->{s}) for 0 .. $#child;
emit('message.updated', $child[0], qq("info":{"id":"msg_child",)
     . qq("role":"assistant","sessionID":"$child[0]"}));
task($long->{s}, $mid, $child[0]);
task($child[0], 'msg_child', $child[1]);

my @asked = (ask('question', $child[0]), ask('permission', $child[1]));

restart_nginx($t);

my ($question, $reject, $permission)
    = @turn{qw(question-single question-reject permission-reject)};

# what is asked is shown again

for (values %turn) {
    my $type = $_->{type};

    $_->{d} = events($t, $_->{s});
    ok($t->wait([$_->{d}], until => sub {
        grep { $_ eq $type } types($_[0]->packets()) }), "$type again");
}

my $shown = events($t, $long->{s});
my %by;
ok($t->wait([$shown], until => sub {
    %by = map { $_->{type} => $_ } map { packet_json($_) } $_[0]->packets();
    return $by{question_asked} && $by{request_permission} }),
   'what subagents ask again');
is("$by{question_asked}{_meta}{sessionId}"
   . " $by{request_permission}{_meta}{sessionId}", "@child[0, 1]",
   'as theirs');
$shown->close();

# it is the session's own, or there is nothing to answer

is(post($long->{s}, "$question->{path}/reply", { answers => [['A']] })
     ->status(), 404, 'a question of another session');
is(post($question->{s}, 'questions/que_none/reject')->status(), 404,
   'no such question');
is(post($question->{s}, "questions/$permission->{path}/reject")->status(), 404,
   'no such path');
is(post($question->{s}, $question->{path} =~ s/questions/permissions/r
        . '/reply', { reply => 'once' })->status(), 404,
   'a question is no permission');
is(scalar(grep { /POST .*\/(question|permission)/ } $t->upstream()), 0,
   'nothing of it is passed on');

# OpenCode's errors are told

for (['^/session/ses', 500], ['^/question', 500], ['^/question', 200, '<a>'],
     ['/reply', 503])
{
    my ($url, $status, $body) = @$_;

    $t->control('config', { rules => [{ url => $url, status => $status,
                                        body => $body // '' }] });
    is_error_packet(post($question->{s}, "$question->{path}/reply",
                         { answers => [['A']] })->response(), 502,
                    "$url is $status");
}

$t->control('config', { rules => [] });

# and then it goes on

is(post($question->{s}, "$question->{path}/reply", { answers => [['A']] })
     ->status(), 200, 'answered');
is(post($reject->{s}, "$reject->{path}/reject")->status(), 200, 'rejected');
is(post($permission->{s}, "$permission->{path}/reply", { reply => 'once' })
     ->status(), 200, 'allowed');
ok($t->wait([map { $_->{d} } values %turn], timeout => 15), 'all end');
is(join(' ', map { (types($_->{d}->packets()))[-1] } values %turn),
   join(' ', ('prompt_response') x 3), 'well');
is(post($question->{s}, "$question->{path}/reply", { answers => [['A']] })
     ->status(), 404, 'and not again');

# what subagents ask

my $passed = passed();

for ([500, ''], [404, '{}', 404], [200, '<a>'],
     [200, qq({"id":"$child[1]","parentID":"$long->{s}"})],
     [200, qq({"id":"$child[0]","parentID":"../../$long->{s}"})],
     [200, qq({"id":"$child[0]","parentID":"$question->{s}"}), 404],
     [200, qq({"id":"$child[0]","parentID":"$child[0]"}), 404])
{
    my ($status, $body, $told) = @$_;

    $t->control('config', { rules => [{ url => "^/session/$child[0]",
                                        status => $status, body => $body }] });
    is_error_packet(reply($long->{s}, $asked[0])->response(), $told // 502,
                    "subagent: $status $body");
}

$t->control('config', { rules => [] });

create("$question->{s}a", $question->{s});
my $foreign = ask('question', "$question->{s}a");

is(reply($long->{s}, $foreign)->status(), 404, "another session's subagent");
is(reply($child[1], $asked[0])->status(), 404, "a subagent's subagent for it");
is(passed(), $passed, 'nothing of it is passed on');
is(scalar(grep { /\.\./ } $t->upstream()), 0, 'nor what is no id');

is(reply($long->{s}, $asked[0])->status(), 200, 'a subagent is answered');
is(reply($long->{s}, $asked[1])->status(), 200, "a subagent's subagent");
is(reply($question->{s}, $foreign)->status(), 200, "another session's, there");
is(passed(), $passed + 3, 'by OpenCode');

# so far and no further

my $looks = looks();

is(reply($long->{s}, ask('permission', $child[7]))->status(), 200,
   'the eighth in a row');
is(looks(), $looks + 8, 'in eight steps');
is(reply($long->{s}, ask('question', $child[8]))->status(), 404, 'the ninth');
is(looks(), $looks + 16, 'in no more');
create($child[0], $child[8]);
is(reply($long->{s}, ask('question', $child[3]))->status(), 404,
   'a way without end');
is(looks(), $looks + 24, 'it is left');

# interrupts

is(interrupt($question->{s}), '{"interrupted":false}', 'it is idle');
is_error_packet(post('ses_unknown', 'interrupt')->response(), 404,
                'there is no session');
is(aborts(), 0, 'nothing is aborted');

$t->control('config', { rules => [{ url => '/abort', times => 1, status => 500,
                                    body => '' }] });
is_error_packet(post($long->{s}, 'interrupt')->response(), 502,
                'the abort failed');
$t->control('config', { rules => [] });

$t->control('config', { rules => [{ url => '/session/status', times => 1,
                                    status => 404, body => '{}' }] });
is_error_packet(post($long->{s}, 'interrupt')->response(), 502,
                'there is no status');
$t->control('config', { rules => [] });

$long->{d} = events($t, $long->{s});
$t->wait([$long->{d}], until => sub { $_[0]->packets() > 1 });
is(interrupt($long->{s}), '{"interrupted":true}', 'interrupted');
is(aborts(), 2, 'by an abort');
ok($t->wait([$long->{d}], timeout => 15), 'it ends');
is(packet_json(($long->{d}->packets())[-1])->{stopReason}, 'cancelled',
   'as cancelled');
check_turn($t->turn($long->{s}, 'text:3:24:0'), 'the next turn');

# no turn begins while an abort is on its way, whether it goes well or not

my @held = map { { s => $t->session(), status => $_ } } 0, 500;

my $unanswered = $t->session();

for (@held, { s => $unanswered }) {
    # those that are interrupted must run until then, also under valgrind
    $_->{c} = $t->send_message($_->{s}, 'text:600:8:'
                               . (exists $_->{status} ? scaled(20) : 20));
    hear($t, $_->{c}, 5);
}

ask('question', $unanswered);

restart_nginx($t);

my $end = events($t, $unanswered);

for (@held) {
    my ($s, $status) = @$_{qw(s status)};
    my $before = aborts();

    $t->control('config', { rules => [{ url => '/abort', delay => 2500,
                                        times => 1, $status ? (status => 500,
                                        body => '') : () }] });

    my $abort = $t->open('POST', "/sessions/$s/interrupt");
    ok(wait_for(sub { aborts() > $before }), "$status: it is on its way");

    my $queued = $t->open('POST', "/queue/$s/send-message",
                          body => { content => 'text:20:24:200' });
    is_error_packet(post($s, 'send-message', { content => 'text:5:24:0' })
                      ->response(), 409, "$status: another one is refused");
    is(prompts($t, $s), 1, "$status: nothing is sent");
    ok($t->wait([$abort, $queued], timeout => 20), "$status: both end");
    is($abort->status(), $status ? 502 : 200, "$status: the abort");
    is(packet_json(($queued->packets())[-1])->{stopReason}, 'end_turn',
       "$status: the next turn is not hit");
    check_turn($t->turn($s, 'text:3:24:0'), "$status: and one more");
}

# a question that is still there when its turn ends

ok($t->wait([$end], timeout => 30), 'unanswered: the turn ends');
is(join(' ', (types($end->packets()))[-2, -1]),
   'question_resolved prompt_response', 'unanswered: and the question before');
is(join(' ', map { $_->{id} ? packet_json($_)->{type} : () } $end->packets()),
   'prompt_response', 'unanswered: only the end has an id');

$t->control('config', { rules => [] });

done_killed($t);


sub post {
    my ($session, $path, $body) = @_;

    return $t->request('POST', "/sessions/$session/$path",
                       $body ? (body => $body) : ());
}


sub interrupt {
    my ($session) = @_;

    return post($session, 'interrupt')->body();
}


# as a subagent's question or permission request: "questions/…"

sub reply {
    my ($session, $path) = @_;

    return post($session, "$path/reply",
                $path =~ /^questions/ ? { answers => [['A']] }
                                      : { reply => 'once' });
}


# what is said, as OpenCode says it: the type first

sub emit {
    my ($type, $session, $properties) = @_;

    $t->control('emit', { line => qq({"id":"evt_x","type":"$type",)
        . qq("properties":{"sessionID":"$session",$properties}}) });
}


sub create {
    my ($session, $parent) = @_;

    emit('session.created', $session, qq("info":{"id":"$session",)
         . qq("parentID":"$parent","directory":"/workspace/demo"}));
}


sub task {
    my ($session, $message, $child) = @_;

    emit('message.part.updated', $session, qq("part":{"id":"prt_$child",)
         . qq("sessionID":"$session","messageID":"$message","type":"tool",)
         . qq("tool":"task","callID":"call_$child","state":{)
         . qq("status":"running","input":{},"time":{"start":1},)
         . qq("metadata":{"sessionId":"$child"}}}));
}


sub ask {
    my ($noun, $session) = @_;
    my $id = ($noun eq 'question' ? 'que_' : 'per_') . substr $session, 4;

    emit("$noun.asked", $session, qq("id":"$id",) . ($noun eq 'question'
         ? '"questions":[]' : '"permission":"bash","patterns":["ls"]'));

    return "${noun}s/$id";
}


# answers that reached OpenCode, and its lookups of subagents

sub passed {
    return scalar grep { m{^POST /(question|permission)/} } $t->upstream();
}


sub looks {
    return scalar grep { m{^GET /session/\Q$long->{s}\E[a-i](\?|$)} }
                  $t->upstream();
}


sub aborts {
    return scalar grep { /POST .*\/abort/ } $t->upstream();
}
