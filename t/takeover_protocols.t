#!/usr/bin/perl

# The worker that owns a turn is killed while a client reads it in the protocol
# of a frontend.  The client comes back in the way of its protocol, to another
# worker, and has the whole turn, each character once: the AI SDK with
# "GET .../stream", AG-UI by joining the thread.  If the turn waits for an
# answer, the answer is given to the worker that has adopted it, and is sent
# to OpenCode once.
#
# Broken by: a turn that nobody adopts, text that is sent twice after it was
# reconciled, a response that continues from a wrong place, an answer that is
# lost or sent again, a message that has another id than before; a response that
# does not end where a rebuilt turn waits (follower_retell()).

use FindBin;
use lib "$FindBin::Bin/lib";

use AgentStream;
use AgentStream::Attach;

my $json = JSON::PP->new->utf8->canonical;
my $true = JSON::PP::true;
my ($prompt, $answer) = (qr/prompt_async/, qr{/permissions?/});

my $t = AgentStream->new(attach(timeout => 90, server => <<'EOF'));
        location /ai-sdk {
            agentstream /opencode/;
            agentstream_protocol ai-sdk;
        }

        location /ag-ui {
            agentstream /opencode/;
            agentstream_protocol ag-ui;
        }

        location /packets {
            agentstream /opencode/;
        }
EOF

# how a page of each protocol prompts, comes back, and answers

my %PAGE;

%PAGE = (
    'ai-sdk' => {
        prompt => sub { post('/ai-sdk', { id => $_[0], messages => [
            { id => 'm1', role => 'user',
              parts => [{ type => 'text', text => $_[1] }] }] }) },
        again => sub { ('GET', "/ai-sdk/$_[0]/stream") },
        asked => sub { map { $_->{approvalId} // () } @_ },
        answer => sub {
            my ($name, @events) = @_;
            my ($at) = map { $_->{messageMetadata}{agentstream} // () } @events;
            my ($id) = map { $_->{approvalId} // () } @events;

            return post('/ai-sdk', { id => $name, messages => [
                { id => 'm2', role => 'assistant',
                  metadata => { agentstream => $at },
                  parts => [{ type => 'dynamic-tool', toolCallId => 'c',
                              state => 'approval-responded',
                              approval => { id => $id, approved => $true } }]
                }] });
        },
        once => qr/"tool-input-start","toolCallId":"call_912e3a71/,
        end => qr/"finishReason":"stop".*\n\ndata: \[DONE\]\n\n\z/,
        id => sub { map { $_->{messageId} // () } @_ },
    },
    'ag-ui' => {
        prompt => sub { post('/ag-ui', { threadId => $_[0], runId => 'r1',
            messages => [{ id => 'm1', role => 'user',
                           content => $_[1] }] }) },
        again => sub { post('/ag-ui', { threadId => $_[0], runId => 'r2',
                                        messages => [] }) },
        asked => sub { map { $_->{id} } map {
            @{ $_->{outcome}{interrupts} // [] } } @_ },
        answer => sub {
            my ($name, @events) = @_;
            my ($id) = $PAGE{'ag-ui'}{asked}->(@events);

            return post('/ag-ui', { threadId => $name, runId => 'r3',
                messages => [], resume => [{ interruptId => $id,
                    status => 'resolved', payload => { approved => $true } }]
                });
        },
        once => qr/"turn_started"/,
        end => qr/"outcome":\{"type":"success"\}.*\n\n\z/,
        id => sub { map { $_->{value}{turnId} // () } @_ },
    },
);

for my $protocol (sort keys %PAGE) {
    my $page = $PAGE{$protocol};
    my ($prompts, $answers) = (sent($prompt), sent($answer));

    # in the midst of a text

    my $name = "text-$protocol";
    my ($owner, $other) = $t->workers();
    my $first = on_worker($t, $owner, $page->{prompt}->($name,
                                                        'text:25:24:60'));

    $t->wait([$first], until => sub { length text($_[0]) > 100 });
    kill_worker($t, $owner);
    $t->wait([$first], timeout => 1);
    isnt($first->ended() // '', 'clean', "$name: the client is cut off");

    my $back = on_worker($t, $other, $page->{again}->($name));

    ok($t->wait([$back], timeout => 15), "$name: the client that came back");
    like($back->body(), $page->{end}, '... gets the end');

    my $all = text_of($name);

    is(text($back), $all, '... and the whole text');
    is(substr($all, 0, length text($first)), text($first),
       '... that begins as before');
    is(($page->{id}->(events_in($back)))[0],
       ($page->{id}->(events_in($first)))[0], '... in the same message');
    is(sent($prompt), $prompts + 1, '... of one prompt');

    # while it waits for an answer, and again after the first one

    $name = "asks-$protocol";
    ($owner, $other) = $t->workers();
    my $c = on_worker($t, $owner, $page->{prompt}->($name,
                                    'replay:permission-once:1:1 wait=1'));

    ok($t->wait([$c]), "$name: a turn waits");

    my @asked = $page->{asked}->(events_in($c));

    is(scalar @asked, 1, '... for one answer');
    kill_worker($t, $owner);

    my $next = on_worker($t, $other, $page->{answer}->($name, events_in($c)));

    ok($t->wait([$next], timeout => 15), '... which another worker takes');
    isnt(($page->{asked}->(events_in($next)))[0], $asked[0],
         '... and it goes on behind it');
    is(sent($answer), $answers + 1, '... sent once');

    like($c->body(), $page->{once}, 'its beginning is told');
    unlike($next->body(), $page->{once}, '... once');

    $next = $t->request($page->{answer}->($name, events_in($next)));
    like($next->body(), $page->{end}, '... to its end');
    is(sent($answer), $answers + 2, '... after the other one');
    is(sent($prompt), $prompts + 2, '... of one prompt');
}

# nginx is restarted while it waits: the turn is rebuilt, and asks again

my $page = $PAGE{'ai-sdk'};
my $c = $t->request($page->{prompt}->('restarted',
                                      'replay:permission-once:1:1 wait=1'));
my @asked = $page->{asked}->(events_in($c));

is(scalar @asked, 1, 'restarted: a turn waits');
restart_nginx($t);
$c = $t->open($page->{again}->('restarted'));
ok($t->wait([$c], timeout => 15), '... the response ends again');
is(join(' ', $page->{asked}->(events_in($c))), "@asked",
   '... where the same is asked');

done_killed($t);


sub post {
    my ($path, $body) = @_;

    return ('POST', $path, body => $json->encode($body),
        headers => { 'Content-Type' => 'application/json' });
}


sub events_in {
    my ($c) = @_;

    return map { /^data: (\{.*\})$/ ? $json->decode($1) : () }
           split /\n/, $c->body() // '';
}


sub text {
    my ($c) = @_;

    return join '', map { $_->{delta} // '' }
           grep { $_->{type} =~ /^(?:text-delta|TEXT_MESSAGE_CONTENT)$/ }
           events_in($c);
}


# what OpenCode has stored of it, which the packets must not say otherwise

sub text_of {
    my ($name) = @_;
    my $session = $json->decode($t->request('GET', "/packets/\@$name")->body());
    my $text = join '', map { $_->{text} } grep { $_->{type} eq 'text' }
               map { @{ $_->{parts} } } grep { $_->{info}{role} ne 'user' }
               @{ $t->messages($session->{id}) };

    is(joined_text($t->request('GET', "/packets/\@$name/events")), $text,
       '... which the packets have, too');

    return $text;
}


# how often OpenCode was sent this

sub sent {
    my ($what) = @_;

    my @sent = $t->posted($what);

    return scalar @sent;
}
