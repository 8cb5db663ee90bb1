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
# while it is on its way), or a session that is held for ever.

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

# interrupts

is(interrupt($question->{s}), '{"interrupted":false}', 'it is idle');
is(interrupt('ses_unknown'), '{"interrupted":false}', 'there is no session');
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

for (@held) {
    $_->{c} = $t->send_message($_->{s}, 'text:600:8:20');
    hear($t, $_->{c}, 5);
}

restart_nginx($t);

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


sub aborts {
    return scalar grep { /POST .*\/abort/ } $t->upstream();
}
