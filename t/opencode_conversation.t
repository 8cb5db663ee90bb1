#!/usr/bin/perl

# The whole conversation on OpenCode itself: sessions, questions, permission
# requests, subagents, interrupts, history.
#
# Broken by: an abort that overtakes its prompt or hits the next turn; a
# question that another session may answer; an answer that another worker does
# not know of; a timeout that ends the turn instead of the question; a history
# that differs from what was live; a subagent that cannot be answered after a
# restart of nginx (unkept_owned() without the way up).

use FindBin;
use lib "$FindBin::Bin/lib";

use AgentStream;
use AgentStream::Attach qw(events restart_nginx);

my $json = JSON::PP->new->utf8->canonical->allow_nonref;

my $t = AgentStream->new(opencode => 'real', timeout => 900, workers => 2,
    location => 'agentstream_tool_throttle 0;',
    config => { permission => { bash => { '*' => 'allow',
                                          'echo*' => 'ask',
                                          'printf*' => 'ask' } } },
    server => <<'EOF');
        location /allow {
            agentstream /opencode/;
            agentstream_permissions allow;
        }

        location /deny {
            agentstream /opencode/;
            agentstream_permissions deny;
        }

        location /hasty {
            agentstream /opencode/;
            agentstream_question_timeout 1s;
            agentstream_permission_timeout 1s;
            agentstream_idle_timeout 20s;
        }

        location /idle {
            agentstream /opencode/;
            agentstream_question_timeout 4s;
            agentstream_idle_timeout 2s;
        }
EOF

my $echo = '!call bash {"command":"echo asked","description":"x"}';
my $ask = '!call question {"questions":[' . question('Colour', 'Blue', 'Red')
          . ']}';

sessions();
permissions();
questions();
subagents();
timeouts();
interrupts();
history();
restarted();

$t->done();


# ---- sessions

sub sessions {
    my $r = $t->request('POST', '/sessions', body => { title => 'Ďaleko' });
    my $s = $json->decode($r->body());

    is($r->status(), 200, 'a session is made');
    is($s->{title}, 'Ďaleko', 'with its title');
    is($s->{directory}, $t->{workspace}, 'where OpenCode works');

    my $plain = $json->decode($t->request('POST', '/sessions')->body());
    like($plain->{id}, qr/^ses_/, 'no body is needed');

    is($json->decode($t->request('GET', "/sessions/$s->{id}")->body())->{id},
       $s->{id}, 'it is found');

    my %list = map { $_->{id} => 1 }
               @{ $json->decode($t->request('GET', '/sessions')->body()) };
    ok($list{ $s->{id} } && $list{ $plain->{id} }, 'and listed');

    is($t->request('DELETE', "/sessions/$s->{id}")->body(), 'true', 'deleted');
    is_error_packet($t->request('GET', "/sessions/$s->{id}")->response(), 404,
                    'and gone');
    is_error_packet($t->request('DELETE', "/sessions/$s->{id}")->response(),
                    404, 'and not deleted again');

    my $c = start('/sessions', $plain->{id}, '!say "Long "', '!sleep 90000');
    until_type($c, 'agent_message_chunk');
    is($t->request('DELETE', "/sessions/$plain->{id}", timeout => 15)->body(),
       'true', 'a session is deleted though its turn runs');
    ends($c, 'cancelled', 'its turn');
    is($t->request('GET', "/sessions/$plain->{id}")->status(), 404,
       'and it is gone');
}


# ---- permissions

sub permissions {
    my $s = session();
    my $other = session();
    my $c = start('/sessions', $s, $echo, '!next', '!say "Once."');
    my ($p) = until_type($c, 'request_permission');

    is(reply($other, $p->{permissionId}, 'once')->status(), 404,
       'nobody answers for another session');
    is($t->request('POST', "/sessions/$s/questions/$p->{permissionId}/reject")
         ->status(), 404, 'a permission is no question');
    is(reply($s, 'per_unknown', 'once')->status(), 404, 'nor what nobody asked');
    is(reply($s, $p->{permissionId}, 'once')->body(), 'true', 'once');
    ends($c, 'end_turn', 'once', 'Once.');
    is(of_type($c, 'permission_resolved')->{reply}, 'once', 'once: resolved');
    is(reply($s, $p->{permissionId}, 'once')->status(), 404,
       'once: not a second time');

    $c = start('/sessions', $s, $echo, '!next', '!say "Not."');
    ($p) = until_type($c, 'request_permission');
    is(reply($s, $p->{permissionId}, 'reject', message => 'No, thanks')
         ->status(), 200, 'reject');
    finish($c, 'reject');
    is(of_type($c, 'permission_resolved')->{reply}, 'reject',
       'reject: resolved');

    # two at once

    $c = start('/sessions', $s,
               (map { "!callid c_$_\n" . $echo =~ s/asked/asked $_/r } 1, 2),
               '!next', '!say "Both."');
    my @p = until_type($c, 'request_permission', 2);
    is(scalar @p, 2, 'two wait');
    is(reply($s, $p[0]{permissionId}, 'once')->status(), 200, 'the first');
    is(reply($s, $p[1]{permissionId}, 'once')->status(), 200, 'the second');
    ends($c, 'end_turn', 'two at once', 'Both.');

    # always, which is for all sessions there

    my $printf = $echo =~ s/echo/printf/r;

    $c = start('/sessions', $s, $printf, '!next', $printf, '!next',
               '!say "Always."');
    ($p) = until_type($c, 'request_permission');
    reply($s, $p->{permissionId}, 'always');
    ends($c, 'end_turn', 'always', 'Always.');
    is(scalar(grep { $_ eq 'request_permission' } types($c->packets())), 1,
       'always: asked once');

    # nobody is asked

    $c = start('/allow', session(), $echo, '!next', '!say "Allowed."');
    ends($c, 'end_turn', 'allow', 'Allowed.');
    is(of_type($c, 'permission_resolved')->{reply} // 'none', 'once',
       'allow: by itself');

    $c = start('/deny', session(), $echo, '!next', '!say "Denied."');
    finish($c, 'deny');
    is(of_type($c, 'permission_resolved')->{reply} // 'none', 'reject',
       'deny: by itself');
}


# ---- questions

sub questions {
    my $s = session();
    my $c = start('/sessions', $s, $ask, '!next', '!say "So it is."');
    my ($q) = until_type($c, 'question_asked');

    is($q->{questions}[0]{header}, 'Colour', 'a question is asked');
    is(answer(session(), $q->{questionId}, [['Blue']])->status(), 404,
       'nobody answers for another session');
    is(answer($s, $q->{questionId}, [['Blue']])->body(), 'true', 'answered');
    ends($c, 'end_turn', 'a question', 'So it is.');
    is_deeply(of_type($c, 'question_resolved')->{answers}, [['Blue']],
              'the answer is told');
    is(answer($s, $q->{questionId}, [['Red']])->status(), 404,
       'not a second time');

    $c = start('/sessions', $s, '!call question {"questions":['
               . question('One', 'A', 'B') . ',' . question('Two', 'C', 'D')
               . ']}', '!next', '!say "Two."');
    ($q) = until_type($c, 'question_asked');
    is(scalar @{ $q->{questions} }, 2, 'two in one request');
    answer($s, $q->{questionId}, [['A'], ['C', 'D']]);
    ends($c, 'end_turn', 'two questions', 'Two.');
    is_deeply(of_type($c, 'question_resolved')->{answers},
              [['A'], ['C', 'D']], 'both answers are told');

    $c = start('/sessions', $s, $ask, '!next', '!say "Well."');
    ($q) = until_type($c, 'question_asked');
    is($t->request('POST', "/sessions/$s/questions/$q->{questionId}/reject")
         ->body(), 'true', 'rejected');
    finish($c, 'a rejected question');
    is(of_type($c, 'question_resolved')->{outcome}, 'rejected',
       'which is told');
}


sub subagents {
    my $s = session();
    my $c = start('/sessions', $s, task($echo, '!next', '!say "Child."'),
                  '!next', '!say "Parent."');
    my ($p) = until_type($c, 'request_permission');

    ok($p->{_meta}{sessionId} && $p->{_meta}{sessionId} ne $s,
       'a subagent asks');
    is(reply($s, $p->{permissionId}, 'once')->status(), 200,
       'its parent answers');
    ends($c, 'end_turn', 'a subagent', 'Parent.');
}


# ---- timeouts

sub timeouts {
    my $c = start('/hasty', session(), $ask, '!next', '!say "Went on."');

    finish($c, 'an unanswered question');
    is(of_type($c, 'question_resolved')->{outcome} // 'none', 'rejected',
       'a question is rejected in time');

    $c = start('/hasty', session(), $echo =~ s/asked/late/r, '!next',
               '!say "Went on."');
    finish($c, 'an unanswered permission');
    is(of_type($c, 'permission_resolved')->{reply} // 'none', 'reject',
       'a permission is rejected in time');

    $c = start('/idle', session(), $ask, '!next', '!say "Went on."');
    finish($c, 'a long wait');
    is(of_type($c, 'question_resolved')->{outcome} // 'none', 'rejected',
       'a turn that waits for an answer is not idle');
}


# ---- interrupts

sub interrupts {
    my $s = session();

    is($t->request('POST', "/sessions/$s/interrupt")->body(),
       '{"interrupted":false}', 'nothing to interrupt');

    my %orders = (
        text => ['agent_message_chunk', '!say "One. "', '!sleep 90000'],
        thought => ['agent_thought_chunk', '!think "Hm. "', '!sleep 90000'],
        tool => ['tool_call_progress',
                 '!call bash {"command":"sleep 90","description":"x"}'],
        permission => ['request_permission',
            '!call bash {"command":"echo p; sleep 1","description":"x"}'],
        question => ['question_asked', $ask],
        retry => ['session_status', '!http 503 '
                  . '{"headers":{"retry-after":"20"},"body":{"error":'
                  . '{"message":"overloaded"}}}'],
        subagent => ['tool_call_progress', task('!say "Child. "',
            '!call bash {"command":"sleep 90","description":"x"}')],
        nothing => ['turn_started', '!sleep 90000', '!say "Never."'],
    );

    for my $name (sort keys %orders) {
        my ($type, @orders) = @{ $orders{$name} };
        my $s = session();
        my $c = start('/sessions', $s, @orders, '!next', '!say "Never."');

        until_type($c, $type) or next;

        if ($name eq 'subagent') {
            $t->wait([$c], timeout => 60, until => sub {
                grep { ($_->{_meta}{sessionId} // '') ne ''
                       && $_->{type} eq 'tool_call_progress' }
                map { packet_json($_) } $_[0]->packets() });
        }

        my $start = time();
        is($t->request('POST', "/sessions/$s/interrupt")->body(),
           '{"interrupted":true}', "$name: interrupted");
        ends($c, 'cancelled', $name);
        note(sprintf '%s: %.0f ms', $name, 1000 * (time() - $start));

        $c = start('/sessions', $s, '!say "Clean."');
        ends($c, 'end_turn', "$name, then", 'Clean.');
    }

    # as early as it gets, and again and again in one session

    my %reason;

    for my $n (1 .. 12) {
        my $c = start('/sessions', $s, '!say "Word "', '!sleep 90000');

        # from when it can be known: the interrupt may come to another worker
        wait_for(sub { $t->request('GET', "/sessions/$s/turn")->body()
                       =~ /"running":true/ });
        sleep(0.004 * $n * $n);

        my $r = $t->request('POST', "/sessions/$s/interrupt");

        is($r->body(), '{"interrupted":true}', "early $n: interrupted");
        $t->request('POST', "/sessions/$s/interrupt") if $n % 2;
        ends($c, 'cancelled', "early $n");

        $c = start('/sessions', $s, "!say \"Clean $n.\"");
        ends($c, 'end_turn', "early $n, then", "Clean $n.");
    }
}


# ---- history

sub history {
    my $s = session();
    my @live;

    for my $orders (['!say "First. "'],
        ['!think "Hm. "', '!say "Before. "',
         '!call bash {"command":"ls","description":"x"}', '!next',
         '!say "After."'],
        [qq(!call read {"filePath":"$t->{workspace}/none"}), '!next',
         '!say "No."'],
        [task('!say "Child. "', '!call bash {"command":"ls","description":"x"}',
              '!next', '!say "Grown."'), '!next', '!say "Parent."'],
        ['!call todowrite {"todos":[{"content":"A","status":"pending",'
         . '"priority":"high"}]}', '!next', '!say "Planned."'],
        ['!finish length', '!say "Too long"'])
    {
        my $c = start('/sessions', $s, @$orders);
        finish($c, 'history');
        push @live, map { packet_json($_) } $c->packets();
    }

    my $r = $t->request('GET', "/sessions/$s/messages");
    my @stored = @{ $json->decode($r->body()) };

    is($r->header('Content-Type'), 'application/json', 'history: JSON');
    is(join("\n", summary(grep { $_->{type} ne 'user_message_chunk' }
                          @stored)),
       join("\n", summary(@live)), 'history: what was live');
    is(scalar(grep { $_->{type} eq 'user_message_chunk' } @stored), 6,
       'history: and what was asked');

    $r = $t->request('GET', "/sessions/$s/messages",
                     headers => { Accept => 'text/event-stream' });
    is($json->encode([map { packet_json($_) } $r->packets()]),
       $json->encode(\@stored), 'history: the same as events');

    $r = $t->request('GET', "/sessions/$s/messages?limit=2");
    my @last = @{ $json->decode($r->body()) };
    is($json->encode(\@last), $json->encode([@stored[-@last .. -1]]),
       'history: the last two');
    is(scalar(grep { $_->{type} eq 'turn_started' } @last), 1,
       'history: which are a turn');
}


# packets that can be compared: texts joined, states on the way left out

sub summary {
    my @out;

    for my $p (@_) {
        my %p = %$p;

        delete $p{timestamp};
        next if $p{type} eq 'tool_call_progress'
                && $p{status} !~ /^(completed|failed)$/;

        if ($p{type} =~ /_chunk$/ && @out && $out[-1]{type} eq $p{type}
            && $out[-1]{messageId} eq $p{messageId})
        {
            $out[-1]{content}{text} .= $p{content}{text};
            next;
        }

        push @out, { %p, $p{content} && ref $p{content} eq 'HASH'
                         ? (content => { %{ $p{content} } }) : () };
    }

    # subagents and plans come after their call

    return sort map { $json->encode($_) } @out;
}


# ---- what all of them use

sub session {
    return $json->decode($t->request('POST', '/sessions')->body())->{id};
}


sub question {
    my ($header, @labels) = @_;

    return $json->encode({ question => "$header?", header => $header,
        multiple => JSON::PP::true,
        options => [map { { label => $_, description => $_ } } @labels] });
}


sub task {
    return '!call task ' . $json->encode({ description => 'x',
        subagent_type => 'general', prompt => join "\n", 'Do it.', @_ });
}


# ---- a restart of nginx: a subagent waits, in a turn that is not kept

sub restarted {
    my ($s, $other) = (session(), session());
    my $c = start('/sessions', $s, task($echo =~ s/asked/twice/r, '!next',
                                        '!say "Child."'),
                  '!next', '!say "Parent."');
    my ($p) = until_type($c, 'request_permission');

    restart_nginx($t);
    $c = events($t, $s);

    my ($again) = until_type($c, 'request_permission');

    is($again->{permissionId}, $p->{permissionId}, 'restarted: it still asks');
    is($again->{_meta}{sessionId}, $p->{_meta}{sessionId},
       'restarted: as the same subagent');
    is(reply($other, $p->{permissionId}, 'once')->status(), 404,
       'restarted: not for another session');
    is(reply($s, $p->{permissionId}, 'once')->status(), 200,
       'restarted: answered');
    ok($t->wait([$c], timeout => 60), 'restarted: it ends');
    is(packet_json(($c->packets())[-1])->{stopReason}, 'end_turn',
       'restarted: well');
    is(joined_text($c), 'Parent.', 'restarted: text');
}


sub start {
    my ($location, $session, @orders) = @_;

    return $t->open('POST', "$location/$session/send-message",
                    body => { content => join "\n", 'Go.', @orders });
}


sub until_type {
    my ($c, $type, $n) = @_;
    my @found;

    $t->wait([$c], timeout => 60, until => sub {
        @found = grep { $_->{type} eq $type }
                 map { packet_json($_) } $_[0]->packets();
        return @found >= ($n // 1);
    });

    ok(@found >= ($n // 1), "$type comes") or diag(join ' ', types($c->packets()));

    return @found;
}


sub of_type {
    my ($c, $type) = @_;

    return (grep { $_->{type} eq $type } map { packet_json($_) }
            $c->packets())[-1] // {};
}


sub reply {
    my ($session, $id, $reply, %more) = @_;

    return $t->request('POST', "/sessions/$session/permissions/$id/reply",
                       body => { reply => $reply, %more });
}


sub answer {
    my ($session, $id, $answers) = @_;

    return $t->request('POST', "/sessions/$session/questions/$id/reply",
                       body => { answers => $answers });
}


sub finish {
    my ($c, $name) = @_;

    $t->wait([$c], timeout => 60);
    check_turn($c, $name) or diag(join ' ', types($c->packets()));

    return packet_json(($c->packets())[-1] // {});
}


sub ends {
    my ($c, $reason, $name, $text) = @_;
    my $last = finish($c, $name);

    is($last->{stopReason} // $json->encode($last), $reason,
       "$name: ends as $reason");
    is(joined_text($c), $text, "$name: text") if defined $text;
}
