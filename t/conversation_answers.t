#!/usr/bin/perl

# Questions and permission requests where only a scripted OpenCode can hold
# them: asked while the event stream was away, answered by a client that leaves
# at once, answered from every worker; who may answer what, to the byte.
#
# Broken by: a list of what waits that other workers do not see, or that is not
# asked for after a gap, or not again when it failed; an answer that dies with its client; an answer passed
# on for another session's turn; an answer that is not as the client gave it.

use FindBin;
use lib "$FindBin::Bin/lib";

use AgentStream;

my $json = JSON::PP->new->utf8->canonical->allow_nonref;

my $t = AgentStream->new(timeout => 90, workers => 3, server => <<'EOF');
        location /allow {
            agentstream /opencode/;
            agentstream_permissions allow;
        }

        location /hasty {
            agentstream /opencode/;
            agentstream_question_timeout 300ms;
        }
EOF

my $n = 0;

whose();
workers();
leaves();
fails();
by_itself();
gap('asked meanwhile');
gap('the list fails', { url => '^/question', status => 500, times => 1 });
gap('the list fails, then the status', (
    { url => '^/question', status => 500, times => 1 },
    { url => '^/session/status', delay => 1, times => 1 },
    { url => '^/session/status', status => 500, times => 1 }));
gap('the list is none', { url => '^/permission', status => 200, times => 1,
                          body => '<html>' });
missed();

$t->done();


# only the session's own, and only what waits, is passed on

sub whose {
    my ($mine, $c, $q) = asked('question');
    my ($other, $d, $p) = asked('permission');

    for my $try ([$mine, 'permissions', $q, '{"reply":"once"}'],
                 [$mine, 'questions', $p, '{"answers":[["a"]]}'],
                 [$other, 'questions', $q, '{"answers":[["a"]]}'],
                 [$mine, 'permissions', $p, '{"reply":"always"}'],
                 [$t->session(), 'questions', $q, '{"answers":[["a"]]}'],
                 [$mine, 'questions', $q . 'x', '{"answers":[["a"]]}'],
                 [$mine, 'questions', 'que_none', '{"answers":[["a"]]}'])
    {
        my ($session, $noun, $id, $body) = @$try;

        is_error_packet($t->request('POST',
            "/sessions/$session/$noun/$id/reply", body => $body,
            headers => { 'Content-Type' => 'application/json' })->response(),
            404, 'not his to answer');
    }

    is(scalar(log_of(qr{/(reply|reject)})), 0, 'nothing reaches OpenCode');

    is(answer($mine, $q, [["B\x{2713}\"\\", 'Two'], []])->body(), 'true',
       'the answer');
    my ($log) = log_of(qr{^/question/$q/reply});
    is_deeply($log->{json}, { answers => [["B\x{2713}\"\\", 'Two'], []] },
              'as it was given');
    like($log->{url}, qr{\?directory=%2Fworkspace%2Fdemo$}, 'where it belongs');

    is($t->request('POST', "/sessions/$other/permissions/$p/reply",
        body => { reply => 'reject', message => 'Why?' })->body(), 'true',
       'the reply');
    is_deeply((log_of(qr{^/permission/$p/reply}))[0]{json},
              { reply => 'reject', message => 'Why?' }, 'as it was given');

    resolved($mine, $q, 'question');
    resolved($other, $p, 'permission');
    is(answer($mine, $q, [['B']])->status(), 404, 'it waits no more');
    end($mine, $c);
    end($other, $d);
    is(answer($mine, $q, [['B']])->status(), 404, 'nor when all is over');
}


# the list is the same for all

sub workers {
    my ($s, $c, $q) = asked('question');

    is(scalar(grep { answer($s, $q, [['A']])->status() == 200 } 1 .. 12), 12,
       'any worker answers');
    resolved($s, $q, 'question');
    is(scalar(grep { answer($s, $q, [['A']])->status() == 404 } 1 .. 12), 12,
       'and knows that it is answered');
    end($s, $c);
}


sub leaves {
    my ($s, $c, $q) = asked('question');

    $t->control('config', { rules => [{ url => '/reply', delay => 600 }] });

    my $reply = $t->open('POST', "/sessions/$s/questions/$q/reply",
                         body => { answers => [['A']] });
    ok(wait_for(sub { log_of(qr{^/question/$q/reply}) }), 'an answer arrives');
    $reply->close();

    ok(wait_for(sub { (log_of(qr{^/question/$q/reply}))[0]{done} }),
       'and goes through');
    $t->control('config', { rules => [] });
    resolved($s, $q, 'question');
    end($s, $c);
}


sub fails {
    my ($s, $c, $q) = asked('question');

    for ([500, 502], [404, 404]) {
        my ($upstream, $status) = @$_;

        $t->control('config', { rules => [{ url => '/reply',
            status => $upstream, body => '{"secret":1}' }] });
        is_error_packet(answer($s, $q, [['A']])->response(), $status,
                        "OpenCode says $upstream");
    }

    $t->control('config', { rules => [] });
    is(answer($s, $q, [['A']])->status(), 200, 'it can be tried again');
    resolved($s, $q, 'question');
    end($s, $c);
}


# what the module answers is no client's to answer, is tried until it gets
# through, and given up when OpenCode does not know it

sub by_itself {
    $t->control('config', { rules => [{ url => '/reply', status => 500,
        body => '{}', times => 1 }] });

    my ($s, $c, $p) = asked('permission', '/allow');

    is($t->request('POST', "/sessions/$s/permissions/$p/reply",
                   body => { reply => 'reject' })->status(), 404,
       'what is allowed is not asked');
    ok(wait_for(sub { log_of(qr{^/permission/$p/reply}) == 2 }, 8),
       'allowed, and again');
    is_deeply((log_of(qr{^/permission/$p/reply}))[1]{json},
              { reply => 'once' }, 'once');
    end($s, $c);

    $t->control('config', { rules => [{ url => '/reject', status => 404,
        body => '{}' }] });

    ($s, $c, my $q) = asked('question', '/hasty');
    ok(wait_for(sub { log_of(qr{^/question/$q/reject}) == 1 }, 4),
       'rejected in time');
    wait_for(sub { !waits($s, $q) });
    is(answer($s, $q, [['A']])->status(), 404, 'and does not wait any more');

    $t->control('config', { rules => [] });
    end($s, $c);
}


# nobody was told, so OpenCode is asked

sub gap {
    my ($name, @rules) = @_;
    my $s = $t->session();
    my $c = $t->send_message($s, 'text:3000:8:10');

    $t->wait([$c], until => sub { $_[0]->packets() > 3 });
    $t->control('config', { rules => [{ url => '^/event', status => 503,
                                        body => '' }] });
    $t->control('close', { reset => 1 });
    sleep(0.2);

    my $q = ask($s, 'question');
    my $p = ask($s, 'permission');
    ask($t->session(), 'question');

    $t->control('config', { rules => \@rules });
    $t->wait([$c], timeout => 10, until => sub {
        2 == grep { /^(question_asked|request_permission)$/ }
             types($_[0]->packets()) });

    my @found = grep { $_->{type} =~ /^(question_asked|request_permission)$/ }
                map { packet_json($_) } $c->packets();

    is(join(' ', sort map { $_->{questionId} // $_->{permissionId} } @found),
       "$p $q", "$name: what was asked is heard");
    is(answer($s, $q, [['A']])->status(), 200, "$name: can be answered");
    is($t->request('POST', "/sessions/$s/permissions/$p/reply",
                   body => { reply => 'once' })->status(), 200,
       "$name: all of it");
    end($s, $c);
    $t->control('config', { rules => [] });
}


# answered by somebody else while nobody listened, in a turn that goes on

sub missed {
    my ($s, $c, $q) = asked('question');
    my $p = ask($s, 'permission');
    my $open = ask($s, 'question');

    $t->wait([$c], until => sub {
        (grep { $_ eq 'question_asked' } types($_[0]->packets())) == 2 });
    $t->control('config', { rules => [{ url => '^/event', status => 503,
                                        body => '' }] });
    $t->control('close', { reset => 1 });
    sleep(0.2);
    replied($s, $q, 'question');
    replied($s, $p, 'permission');
    $t->control('config', { rules => [] });

    ok($t->wait([$c], timeout => 10, until => sub {
        (grep { /_resolved$/ } types($_[0]->packets())) == 2 }),
       'answered meanwhile: told');
    is(join(' ', map { join ':', @$_{grep { /^(outcome|reply|\w+Id)$/ }
                                     sort keys %$_} }
            grep { $_->{type} =~ /_resolved$/ }
            map { packet_json($_) } $c->packets()),
       "unknown:$q $p:unknown", 'answered meanwhile: how is not known');

    my $state = $json->decode($t->request('GET', "/sessions/$s/turn")->body());

    is_deeply([$state->{questions}, $state->{permissions}], [[$open], []],
              'answered meanwhile: they wait no more');
    end($s, $c);
}


# ---- what all of them use

# a turn that runs, in which something is asked

sub asked {
    my ($noun, $location) = @_;
    my $s = $t->session();
    my $c = $t->open('POST', ($location // '/sessions') . "/$s/send-message",
                     body => { content => 'text:3000:8:10' });

    $t->wait([$c], until => sub { $_[0]->packets() > 3 });

    my $id = ask($s, $noun);
    my $type = $noun eq 'question' ? 'question_asked' : 'request_permission';

    $t->wait([$c], until => sub {
        grep { $_ eq $type } types($_[0]->packets()) });

    return ($s, $c, $id);
}


sub ask {
    my ($session, $noun) = @_;
    my $id = sprintf '%s_%08dAsk', substr($noun, 0, 3), ++$n;

    emit("$noun.asked", { sessionID => $session, id => $id,
        $noun eq 'question'
        ? (questions => [{ question => 'Which?', header => 'Which',
                           options => [{ label => 'A', description => '' }] }])
        : (permission => 'bash', patterns => ['ls'], metadata => {},
           always => []) });

    return $id;
}


# it is answered, and the module has heard of it

sub resolved {
    my ($session, $id, $noun) = @_;

    replied($session, $id, $noun);
    ok(wait_for(sub { !waits($session, $id) }), "$noun: no longer waits");
}


# whether the module says that this waits for an answer

sub waits {
    my ($session, $id) = @_;

    return $t->request('GET', "/sessions/$session/turn")->body() =~ /"$id"/;
}


sub replied {
    my ($session, $id, $noun) = @_;

    emit("$noun.replied", { sessionID => $session, requestID => $id,
        $noun eq 'question' ? (answers => [['A']]) : (reply => 'once') });
}


sub emit {
    my ($type, $properties) = @_;

    $t->control('emit', { event => { type => $type,
                                     properties => $properties } });
}


sub answer {
    my ($session, $id, $answers) = @_;

    return $t->request('POST', "/sessions/$session/questions/$id/reply",
                       body => { answers => $answers });
}


sub log_of {
    my ($url) = @_;

    return grep { $_->{url} =~ $url } @{ $t->control('log') };
}


sub end {
    my ($session, $c) = @_;

    $t->request('POST', "/sessions/$session/interrupt");
    $t->wait([$c]);
    check_turn($c, 'the turn');
}
