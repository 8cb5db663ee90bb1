#!/usr/bin/perl

# Whole answers: with "Accept: application/json" the response is one object,
# when the turn is over.  What is wrong has its status as before, as JSON, and
# nothing reaches OpenCode.
#
# Broken by: "*/*" taken for JSON; a Prefer that is rubbish and changes
# something; a wait that ends the turn, or that is counted in milliseconds; 202
# before OpenCode has the prompt; a turn that ends because its client got 202
# (store_watched() without "released"); a retry that starts a second turn; a
# client that leaves and is not noticed; an error with status 200; an answer of
# another turn, or without one.

use FindBin;
use lib "$FindBin::Bin/lib";

use AgentStream;

my $json = JSON::PP->new->utf8->canonical->allow_nonref;
my $t = AgentStream->new(timeout => 120, workers => 2, server => '
        location /abort {
            agentstream /opencode/;
            agentstream_on_disconnect abort;
        }

        location /short {
            agentstream /opencode/;
            agentstream_turn_timeout 2s;
        }

        location /small {
            agentstream /opencode/;
            agentstream_turn_size 32k;
        }');

form();
bad();
preferences();
released();
retry();
events();
failures();
dropped();

$t->done();


sub ask {
    my ($s, $content, %args) = @_;

    return $t->request('POST', ($args{path} // '/sessions')
                               . "/$s/send-message", timeout => 30,
        body => ref $content ? $content : { content => $content },
        headers => { Accept => 'application/json',
                     %{ $args{headers} // {} } });
}


sub answer {
    my ($c, $name) = @_;

    local $Test::Builder::Level = $Test::Builder::Level + 1;

    is($c->status(), 200, "$name: status");

    return eval { $json->decode($c->body()) } // {};
}


sub header {
    my ($c, $name) = @_;

    return $c->response()->header($name) // '';
}


sub form {
    my $s = $t->session();
    my $stream = $t->turn($s, 'text:20:24:0');
    my $c = $t->request('GET', "/sessions/$s/events",
                        headers => { Accept => 'application/json' });
    my $a = answer($c, 'the last turn');

    is($a->{text}, joined_text($stream), 'its text');
    is($a->{turnId}, packet_json(($stream->packets())[0])->{turnId},
       'its turn');
    is("$a->{sessionId} $a->{stopReason}", "$s end_turn", 'its end');
    is_deeply($a->{usage}, packet_json(($stream->packets())[-1])->{usage},
              'its usage');
    is_deeply([$a->{toolCalls}, $a->{plan}], [[], undef], 'nothing else');
    is(join(' ', map { $_->{info}{role} } @{ $a->{messages} }),
       'user assistant', 'its messages');
    is(header($c, 'Content-Type') . ' ' . header($c, 'Vary'),
       'application/json Accept', 'its type');

    for ('*/*', 'text/event-stream, application/json', 'application/json;q=0',
         'application/json;q=0.5, text/*')
    {
        like(header(ask($t->session(), 'text:2:8:0',
                        headers => { Accept => $_ }), 'Content-Type'),
             qr{^text/event-stream}, "Accept: $_");
    }

    for ('application/*', 'text/event-stream;q=0.1, application/json;q=0.2',
         'application/json, text/plain, */*')
    {
        is(answer(ask($t->session(), 'text:2:8:0',
                      headers => { Accept => $_ }), "Accept: $_")
             ->{stopReason}, 'end_turn', 'a whole answer');
    }

    $s = $t->session();
    $stream = $t->turn($s, 'replay:tools-sequence');
    $a = answer($t->request('GET', "/sessions/$s/events",
                            headers => { Accept => 'application/json' }),
                'tools');

    my %last;
    my @calls;

    for (map { packet_json($_) } $stream->packets()) {
        next if $_->{type} !~ /^tool_call/;
        push @calls, $_->{toolCallId} if !$last{ $_->{toolCallId} };
        $last{ $_->{toolCallId} } = $_;
    }

    delete $_->{timestamp} for values %last, @{ $a->{toolCalls} };
    is_deeply($a->{toolCalls}, [@last{@calls}], 'the last state of each call');
    is($a->{text}, joined_text($stream), 'tools: the text');
}


sub bad {
    my @before = prompts();

    for (['no such route', 404, 'POST', 'ses_1/nothing'],
         ['no id', 400, 'POST', 'x/send-message'],
         ['a method', 405, 'PUT', 'ses_1/send-message'],
         ['no body', 400, 'POST', 'ses_1/send-message', '{}'],
         ['no JSON', 400, 'POST', 'ses_1/send-message', '{'])
    {
        my ($name, $status, $method, $path, $body) = @$_;
        my $c = $t->request($method, "/sessions/$path", body => $body,
                            headers => { Accept => 'application/json',
                                         'Content-Type' =>
                                             'application/json',
                                         Prefer => 'wait=x, respond-async' });

        is($c->status() . ' ' . header($c, 'Content-Type'),
           "$status application/json", $name);
        is($json->decode($c->body())->{type}, 'error', "$name: the packet");
    }

    is_deeply([prompts()], \@before, 'and nothing reached OpenCode');
    is($t->request('GET', '/sessions/' . $t->session() . '/events',
                   headers => { Accept => 'application/json' })->status(),
       204, 'no turn');
}


sub prompts {
    return map { $_->{url} } grep { $_->{method} eq 'POST' }
           @{ $t->control('log') };
}


sub preferences {
    for ('wait=x', 'wait=-1', 'wait', ';;,=', 'foo; wait=0') {
        my $c = ask($t->session(), 'text:4:8:50', headers => { Prefer => $_ });
        is($c->status() . header($c, 'Preference-Applied'), '200',
           "Prefer: $_");
    }

    for (['wait=20', 200, 'wait=20'], ['wait=315360000', 200, 'wait=3600'],
         ['respond-async, wait=20', 200, 'wait=20'],
         ['wait=0', 202, 'wait=0'], ['respond-async', 202, 'respond-async'])
    {
        my $c = ask($t->session(), 'text:6:8:50',
                    headers => { Prefer => $_->[0] });
        is($c->status() . ' ' . header($c, 'Preference-Applied'),
           "$_->[1] $_->[2]", "Prefer: $_->[0]");
    }

    my $s = $t->session();
    my $begin = time();
    my $c = ask($s, 'text:30:8:100', headers => { Prefer => 'wait=1' });
    my $took = time() - $begin;

    cmp_ok($took, '>=', 0.9, 'wait=1 waits');
    cmp_ok($took, '<', scaled(2.5), 'for a second');
    is($c->status(), 202, 'then it gives up');

    my $told = $json->decode($c->body());
    is_deeply($told, { turnId => $told->{turnId}, sessionId => $s,
                       running => JSON::PP::true }, 'what it is told');
    is(header($c, 'Location'),
       "/sessions/$s/events?last_event_id=$told->{turnId}:0", 'where it is');

    my $a = answer($t->request('GET', header($c, 'Location'), timeout => 20,
                               headers => { Accept => 'application/json' }),
                   'come back');
    is("$a->{turnId} $a->{stopReason}", "$told->{turnId} end_turn",
       'the same turn');

    # the Location names its turn, not the session's last one

    $t->turn($s, 'text:2:8:0');
    is(answer($t->request('GET', header($c, 'Location'),
                          headers => { Accept => 'application/json' }),
              'come back later')->{text}, $a->{text}, 'still its turn');
}


sub released {
    my $s = $t->session();
    my $c = ask($s, 'text:40:8:100', path => '/abort',
                headers => { Prefer => 'respond-async' });

    is($c->status(), 202, 'abort: 202');
    sleep(2);
    is($json->decode($t->request('GET', "/abort/$s/turn")->body())->{running},
       JSON::PP::true, 'abort: the turn goes on');
    is(answer($t->request('GET', "/abort/$s/events", timeout => 20,
                          headers => { Accept => 'application/json' }),
              'abort')->{stopReason}, 'end_turn', 'abort: to its end');

    # a client that leaves before it was answered

    $s = $t->session();
    $c = $t->open('POST', "/abort/$s/send-message",
                  body => { content => 'text:200:8:100' },
                  headers => { Accept => 'application/json' });
    wait_for(sub {
        $t->request('GET', "/abort/$s/turn")->body() =~ /"running":true/
    }, 10);
    $c->close();
    ok(wait_for(sub {
        $t->request('GET', "/abort/$s/turn")->body() =~ /"running":false/
    }, 15), 'abort: a client that leaves is noticed');
}


sub retry {
    my $s = $t->session();
    my $body = { content => 'text:10:8:100', client_request_id => 'r1' };
    my $first = ask($s, $body, headers => { Prefer => 'respond-async' });
    my $second = ask($s, $body);
    my $third = ask($s, $body, headers => { Prefer => 'wait=9' });
    my @sent = grep { m{/\Q$s\E/prompt_async} } prompts();

    is($first->status(), 202, 'retry: 202');
    is(answer($second, 'retry')->{turnId},
       $json->decode($first->body())->{turnId}, 'retry: the same turn');
    is($third->body(), $second->body(), 'retry: the same answer')
        if $second->body() !~ /"toolCalls":\[\{/;
    is(scalar @sent, 1, 'retry: one prompt');
}


sub events {
    my $s = $t->session();
    my $c = $t->send_message($s, 'text:20:8:100');

    $t->wait([$c], until => sub { $_[0]->packets() > 2 });

    my $w = $t->open('GET', "/sessions/$s/events",
                     headers => { Accept => 'application/json' });
    my $i = $t->open('GET', "/sessions/$s/events",
                     headers => { Accept => 'application/json',
                                  Prefer => 'respond-async' });

    $t->wait([$c, $w, $i], timeout => 20);
    is($i->status(), 202, 'events: 202 while it runs');
    is(answer($w, 'events')->{text}, joined_text($c), 'events: the answer');

    $s = $t->session();
    $w = $t->open('POST', "/sessions/$s/send-message",
                  body => { content => 'text:200:8:100' },
                  headers => { Accept => 'application/json' });
    wait_for(sub {
        $t->request('GET', "/sessions/$s/turn")->body() =~ /"running":true/
    }, 10);
    sleep(0.5);
    $t->request('POST', "/sessions/$s/interrupt", timeout => 20);
    $t->wait([$w], timeout => 20);

    my $a = answer($w, 'interrupted');

    is($a->{stopReason}, 'cancelled', 'interrupted: cancelled');
}


sub failures {
    my $c = ask($t->session(), 'text:60:8:100', path => '/short');

    is($c->status(), 504, 'a turn that takes too long');
    is($json->decode($c->body())->{type}, 'error', 'is an error packet');

    my $s = $t->session();

    $t->control('config', { rules => [{ method => 'POST',
        url => 'prompt_async', status => 400, body => '{}', times => 1 }] });
    $c = ask($s, 'text:2:8:0');
    cmp_ok($c->status(), '>=', 400, 'a prompt that OpenCode refuses');
    is(header($c, 'Content-Type'), 'application/json', 'as JSON');

    # OpenCode is away when the answer is collected, for a moment and for good

    $s = $t->session();
    $t->control('config', { rules => [{ url => "/$s/message[?]",
        status => 503, body => '{}', times => 1 }] });
    is(answer(ask($s, 'text:3:8:0'), 'away for a moment')->{stopReason},
       'end_turn', 'it is asked again');

    $s = $t->session();
    $t->control('config', { rules => [{ url => "/$s/message[?]",
        status => 503, body => '{}' }] });
    $c = ask($s, 'text:3:8:0');
    is($c->status(), 502, 'away for good');
    is($json->decode($c->body())->{type}, 'error', 'away: the packet');

    $s = $t->session();
    $t->control('config', { rules => [{ url => "/$s/message[?]",
        status => 200, body => '[]' }] });
    $c = ask($s, 'text:3:8:0');
    is($c->status(), 502, 'no message of the assistant');
    $t->control('config', { rules => [] });
}


sub dropped {
    my $s = $t->session();
    my $c = ask($s, 'text:400:400:0', path => '/small');
    my $a = answer($c, 'dropped');
    my $said = $t->control('said', { user => $a->{turnId} })->{text};

    is($a->{text}, $said, 'dropped: the whole text');

    $a = answer($t->request('GET', "/small/$s/events",
                            headers => { Accept => 'application/json' }),
                'dropped, later');
    is($a->{text}, $said, 'dropped, later: the whole text');
}
