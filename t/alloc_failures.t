#!/usr/bin/perl

# Allocations that fail: each allocation of a turn, of nginx and of the module
# itself, from pools, from the heap, from the zone, and each new connection,
# fails once, one by one.  Whatever fails, the client gets a proper error, or
# one terminal packet, or a closed connection; the turn ends in bounded time
# with its one terminal packet, and the session's next turn is complete.  At
# the end the zone holds nothing but the last turn, and no descriptor is left.
# Somebody who writes in a chat gets an answer, or is told that there is none, and
# the chat goes on.
#
# "make test" does it for a plain turn, and for some allocations of a turn in a
# chat, "make test-alloc" for everything below.
# AGENTSTREAM_SCENARIOS="queue interrupt" chooses, AGENTSTREAM_AT="17 20" does
# the allocations from 17 to 20, AGENTSTREAM_BURST=3 fails so many in a row,
# AGENTSTREAM_PARTS=4 runs so many at once that share them, AGENTSTREAM_EVERY=1
# does not leave any out in chats, where "make test-alloc" does every fourth.
#
# Broken by: a result that is not tested; a function that fails and leaves
# half of its work behind (a waiter of a request that is answered already, an
# array with an element that was never filled); an error that nobody hears of,
# so that something waits for ever; packets after one that could not be told;
# a status after the headers were sent; no memory taken for nothing found; in a
# chat: a turn that is not followed (delivery_sent()), a question that is not asked
# (delivery_put()), text that is left out (delivery_take()).

use FindBin;
use lib "$FindBin::Bin/lib";

use AgentStream::Alloc;
use AgentStream;
use AgentStream::Attach qw(kill_worker);
use AgentStream::Bot qw(bot_conf);
use AgentStream::Chat;
use AgentStream::Machines;
use File::Path qw(make_path remove_tree);
use MIME::Base64 qw(encode_base64);

my $json = JSON::PP->new->utf8;
my @names = split ' ', $ENV{AGENTSTREAM_SCENARIOS}
            // 'turn chat-question chat-picture';

# a turn in a chat takes seconds, because messages may not come too fast
my $every = $ENV{AGENTSTREAM_SCENARIOS} ? 4 : 250;
my $parts = $ENV{AGENTSTREAM_PARTS} // 1;
my ($t, $redis, $peer, $chat);

# what is armed when, and the clients to be judged: [client, kind]

my %SCENARIO = (
    turn => sub {
        my ($s, $arm) = @_;

        $arm->();
        return [$t->turn($s, 'replay:bash-ok chunk=whole'), 'turn'];
    },

    # one whose packets come one by one

    slow => sub {
        my ($s, $arm) = @_;
        my $c = $t->send_message($s, 'text:4:200:10');

        started($c);
        $arm->();
        $t->wait([$c]);
        return [$c, 'turn'];
    },

    subagent => sub {
        my ($s, $arm) = @_;

        $arm->();
        return [$t->turn($s, 'replay:task-one chunk=whole'), 'turn'];
    },

    # more of them than there is room for at first

    subagents => sub {
        my ($s, $arm) = @_;
        my $c = $t->send_message($s, 'text:10:8:20');

        started($c);
        $arm->();
        child($s, "$s$_") for 1 .. 6;
        $t->wait([$c]);
        return [$c, 'turn'];
    },

    question => sub { return answered(@_, 'question-single', 'question',
        { answers => [['Blue']] }) },

    permission => sub { return answered(@_, 'permission-once', 'permission',
        { reply => 'once' }) },

    # the event stream breaks while one waits

    asked => sub {
        my ($s, $arm) = @_;

        return answered($s, sub { }, 'question-single', 'question',
            { answers => [['Blue']] }, sub {
                $arm->();
                $t->control('close', { reset => JSON::PP::true() });
            });
    },

    # the event stream breaks, OpenCode is asked

    gap => sub {
        my ($s, $arm) = @_;
        my $c = $t->send_message($s, 'text:8:8:15');

        started($c);
        $arm->();
        $t->control('close', { reset => JSON::PP::true() });
        $t->wait([$c]);
        return [$c, 'turn'];
    },

    # an event that cannot be read: what follows is held back

    skipped => sub {
        my ($s, $arm) = @_;
        my $c = $t->send_message($s, 'text:60:8:12 fault=badjson');

        started($c);
        sleep(0.35);
        $arm->();
        $t->wait([$c]);
        return [$c, 'turn'];
    },

    resume => sub {
        my ($s, $arm) = @_;
        my $c = $t->turn($s, 'text:3:8:0');

        $arm->();
        return [$t->request('GET', "/sessions/$s/events", headers =>
            { 'Last-Event-ID' => turn_id($c) . ':2' }), 'rest'];
    },

    rebuild => sub {
        my ($s, $arm) = @_;
        my $turn = stored($s, 'replay:bash-ok chunk=whole');

        $arm->();
        return [$t->request('GET',
            "/sessions/$s/events?last_event_id=$turn:2"), 'rest'];
    },

    follow => sub {
        my ($s, $arm) = @_;

        $arm->();
        my $f = $t->open('GET', "/sessions/$s/events?follow=1");
        $t->wait([$f], until => sub { defined $_[0]->status() });
        my $c = $t->turn($s, 'text:2:8:0');
        return [$c, 'turn'] unless ($c->status() // 0) == 200;

        $t->wait([$f], until => sub { terminals($_[0]) });
        return [$c, 'turn'], [$f, 'follow'];
    },

    # a client so slow that its packets are not kept any more

    lost => sub {
        my ($s, $arm) = @_;
        my $c = $t->open('POST', "/small/$s/send-message", rcvbuf => 16384,
            port => $t->{port_tls}, body => { content => 'text:150:1000:2' });

        wait_for(sub { $t->request('GET', "/sessions/$s/turn")->body()
                       =~ /"stopReason":"/ });
        $arm->();
        $t->wait([$c]);
        return [$c, 'rest'];
    },

    # the same for a client that follows: a reader takes over

    pass => sub {
        my ($s, $arm) = @_;
        my $turn = stored($s, 'text:2:8:0');

        $arm->();
        my $f = $t->open('GET',
            "/sessions/$s/events?follow=1&last_event_id=$turn:2");
        $t->wait([$f], until => sub { terminals($_[0]) });
        $t->disarm();

        my $c = $t->turn($s, 'text:2:8:0');
        $t->wait([$f], until => sub { terminals($_[0]) > 1 });
        return [$c, 'turn'], [$f, 'follow', 2];
    },

    # a turn that runs, but nobody here knows of it

    unknown => sub {
        my ($s, $arm) = @_;

        prompted($s, 'text:20:8:20');
        $arm->();
        return [$t->request('GET', "/sessions/$s/events"), 'rest'];
    },

    # answers to, and an interrupt of, such a turn, and what a subagent of it
    # asks

    unkept => sub {
        my ($s, $arm) = @_;
        my $q;

        prompted($s, 'replay:question-single wait=1');
        wait_for(sub { ($q) = map { $_->{id} } grep { $_->{sessionID} eq $s }
            @{ $json->decode($t->request('GET', '/question',
                port => $t->{port_opencode})->body()) } });
        child($s, "${s}a");
        child("${s}a", "${s}b");

        my $p = $q =~ s/que/per/r;
        $t->control('emit', { event => { type => 'permission.asked',
            properties => { sessionID => "${s}b", id => $p } } });
        $arm->();

        my @clients = map { [retried('POST', "/sessions/$s/$_->[0]",
                                     body => $_->[1]), 'json'] }
            ["questions/$q/reply", { answers => [['Blue']] }],
            ['interrupt', {}],
            ["permissions/$p/reply", { reply => 'once' }];

        wait_for(sub { $t->control('stats')->{playing} == 0 });
        return @clients;
    },

    # the worker is killed, the next one goes on

    takeover => sub {
        my ($s, $arm) = @_;
        my $c = $t->send_message($s, 'text:20:8:20');

        $t->wait([$c], until => sub { $_[0]->packets() > 3 });
        $t->replaced(kill_worker($t, $t->workers()));
        $arm->();

        # the turn is ended at once if a client reconnects, otherwise only
        # after a while

        my @c;

        push @c, $t->request('GET', "/sessions/$s/events", headers =>
                     { 'Last-Event-ID' => turn_id($c) . ':2' })
            until @c == 3 || @c && ($c[-1]->ended() // '') eq 'clean'
                  && $c[-1]->status() == 200;

        return map { [$_, 'rest'] } @c;
    },

    # the answer to a turn as one object

    whole => sub {
        my ($s, $arm) = @_;

        $arm->();
        return [$t->request('POST', "/sessions/$s/send-message",
            headers => { Accept => 'application/json' },
            body => { content => 'replay:bash-ok chunk=whole' }), 'json'];
    },

    history => sub { return history(@_, 'application/json') },
    'history-sse' => sub { return history(@_, 'text/event-stream') },

    # the sessions of an owner

    owned => sub {
        my ($s, $arm) = @_;

        $t->request('POST', '/owned', body => { name => $_ }) for 1 .. 3;
        $arm->();
        return [$t->request('GET', '/owned'), 'json'];
    },

    status => sub {
        my ($s, $arm) = @_;

        $arm->();
        return [$t->request('GET', '/_agentstream'), 'json'];
    },

    # two are sent the same turn, by its name, or because it runs

    repeat => sub {
        my ($s, $arm) = @_;
        my %body = (content => 'text:3:8:10', client_request_id => 'again');

        $arm->();
        my @c = map { $t->send_message($s, \%body) } 1, 2;
        $t->wait(\@c);
        return map { [$_, 'turn'] } @c;
    },

    attach => sub {
        my ($s, $arm) = @_;
        my $c = $t->send_message($s, 'text:4:8:10');

        started($c);
        $arm->();
        my $d = $t->open('POST', "/attach/$s/send-message",
                         body => { content => 'text:2:8:0' });
        $t->wait([$c, $d]);
        return [$c, 'turn'], [$d, 'turn'];
    },

    queue => sub {
        my ($s, $arm) = @_;
        my $c = $t->send_message($s, 'text:4:8:10');

        started($c);
        $arm->();
        my $d = $t->open('POST', "/queue/$s/send-message",
                         body => { content => 'text:2:8:0' });
        $t->wait([$c, $d]);
        return [$c, 'turn'], [$d, 'turn'];
    },

    interrupt => sub {
        my ($s, $arm) = @_;
        my $c = $t->send_message($s, 'text:200:8:20');

        started($c);
        $arm->();
        my $d = retried('POST', "/sessions/$s/interrupt");
        $t->wait([$c]);
        return [$c, 'turn'], [$d, 'json'];
    },

    # before there is anything to abort

    early => sub {
        my ($s, $arm) = @_;

        $t->control('config', { rules => [
            { url => "^/session/$s\$", delay => 30, times => 1 }] });
        my $c = $t->send_message($s, 'text:20:8:20');

        wait_for(sub { $t->request('GET', "/sessions/$s/turn")->body()
                       =~ /"running":true/ });
        $arm->();
        my $d = retried('POST', "/sessions/$s/interrupt");
        $t->wait([$c]);
        return [$c, 'turn'], [$d, 'json'];
    },

    # a turn that asks twice, in the protocols of frontends; what fails is sent
    # again, as a page would do it

    'ai-sdk' => sub {
        my ($s, $arm) = @_;
        my $user = { id => 'm1', role => 'user', parts => [{ type => 'text',
                     text => 'replay:permission-once:1:1 wait=1' }] };

        return page($s, $arm, 'ai-sdk', sub {
            my (@events) = @_;
            my ($at) = map { $_->{messageMetadata}{agentstream} // () } @events;
            my ($id) = map { $_->{approvalId} // () } @events;

            return { id => $s =~ s/@//r, messages => [$at
                ? { id => 'm2', role => 'assistant',
                    metadata => { agentstream => $at },
                    parts => [{ type => 'dynamic-tool', toolCallId => 'c',
                        state => 'approval-responded', approval =>
                            { id => $id, approved => JSON::PP::true() } }] }
                : $user] };
        });
    },

    'ag-ui' => sub {
        my ($s, $arm) = @_;
        my $user = { id => 'm1', role => 'user',
                     content => 'replay:permission-once:1:1 wait=1' };

        return page($s, $arm, 'ag-ui', sub {
            my (@events) = @_;
            my @waits = map { @{ $_->{outcome}{interrupts} // [] } } @events;

            return { threadId => $s =~ s/@//r, runId => 'r1',
                messages => @waits ? [] : [$user],
                @waits ? (resume => [map { { interruptId => $_->{id},
                    status => 'resolved', payload =>
                        { approved => JSON::PP::true() } } } @waits]) : () };
        });
    },

    # a page that joins a thread: its history, and the turn that runs

    'ag-ui-join' => sub {
        my ($s, $arm) = @_;
        my %body = (threadId => $s =~ s/@//r, runId => 'r1');

        $t->request('POST', '/ag-ui', body => { %body, messages => [
            { id => 'm1', role => 'user', content => 'text:3:8:0' }] });
        $arm->();
        return [retried('POST', '/ag-ui', body => { %body, runId => 'r2',
                                                    messages => [] }),
                'ag-ui'];
    },

    sessions => sub {
        my ($s, $arm) = @_;

        $arm->();
        return map { [$t->request(@$_), 'json'] }
            ['POST', '/sessions', body => { title => 'x' }],
            ['GET', '/sessions'], ['GET', "/sessions/$s"],
            ['GET', "/sessions/$s/turn"], ['DELETE', "/sessions/${s}x"],
            ['GET', '/sessions/none'], ['PUT', '/sessions'];
    },

    # the store of several machines, on one

    'store-turn' => sub {
        my ($s, $arm) = @_;

        $arm->();
        return [$t->turn($s, 'replay:bash-ok chunk=whole'), 'turn'];
    },

    'store-question' => sub { return answered(@_, 'question-single',
        'question', { answers => [['Blue']] }) },

    # two are sent the same turn

    'store-repeat' => sub {
        my ($s, $arm) = @_;
        my %body = (content => 'text:3:8:10', client_request_id => $s);

        $arm->();
        my @c = map { $t->send_message($s, \%body) } 1, 2;
        $t->wait(\@c);
        return map { [$_, 'turn'] } @c;
    },

    # a turn of another machine is copied

    'store-copy' => sub {
        my ($s, $arm) = @_;
        my $c = $peer->send_message($s, 'text:6:8:20');

        started($c);
        $arm->();
        my $d = $t->request('GET', "/sessions/$s/events");
        $t->wait([$c]);
        return [$c, 'turn'], [$d, 'rest'];
    },

    # the connections of both machines break, and are opened again

    'store-back' => sub {
        my ($s, $arm) = @_;

        $arm->();
        $redis->redis('CLIENT', 'KILL', 'TYPE', $_) for qw(pubsub normal);
        wait_for(sub {
            my @back = $redis->redis('CLIENT', 'LIST')
                       =~ /cmd=(?:evalsha|smembers|wait) /g;
            return @back == 2;
        }, 3);
        return [$t->turn($s, 'text:2:8:0'), 'turn'];
    },

    # somebody asks in a chat, and answers what the agent asks by a button

    'chat-question' => sub {
        my ($s, $arm) = @_;

        return chatted($s, $arm, text => 'replay:question-single wait=1');
    },

    # with a picture, which comes in several packets

    'chat-picture' => sub {
        my ($s, $arm) = @_;

        return chatted($s, $arm, text => 'say:seen', file => {
            photo => JSON::PP::true(),
            base64 => encode_base64("\x89PNG\r\n\x1a\n" . 'p' x 200_000, '') });
    },
);

@names = sort keys %SCENARIO if "@names" eq 'all';

for my $name (@names) {
    die "no scenario \"$name\"\n" unless $SCENARIO{$name};
}

if ($parts > 1 && !$ENV{AGENTSTREAM_PART}) {
    AgentStream::Alloc->spread($parts, @names);
    exit;
}

# each kind needs an nginx of its own

my %kind;

push @{ $kind{/^(store|chat)/ ? $1 : 'plain'} }, $_ for @names;

plain(@{ $kind{plain} }) if $kind{plain};
store(@{ $kind{store} }) if $kind{store};
chat(@{ $kind{chat} }) if $kind{chat};

done_testing();


sub run {
    my @names = @_;

    $t->scenario($_, $SCENARIO{$_}) for @names;
    $t->finish();
}


sub plain {
    my @names = @_;

    $t = AgentStream::Alloc->new(timeout => 240 * @names,
        http => 'agentstream_zone 8m retain=2s;', server => '
            location /owned {
                agentstream /opencode/;
                agentstream_owner alice;
            }

            location /queue {
                agentstream /opencode/;
                agentstream_busy queue;
            }
            listen 127.0.0.1:%%port_tls%% sndbuf=16k;
            location /small {
                agentstream /opencode/;
                agentstream_turn_size 8k;
            }
            location /attach {
                agentstream /opencode/;
                agentstream_busy attach;
            }
            location /ai-sdk {
                agentstream /opencode/;
                agentstream_protocol ai-sdk;
            }
            location /ag-ui {
                agentstream /opencode/;
                agentstream_protocol ag-ui;
            }');

    run(@names);
}


sub store {
    my @names = @_;
    my $dir = AgentStream::Nginx::build() . "/t/alloc_redis.$$";

    make_path($dir);
    $redis = AgentStream::Machines->server($dir);

    my %args = (timeout => 240 * @names,
        http => "agentstream_zone 8m retain=2s;
                 agentstream_store redis://127.0.0.1:$redis->{port};");

    my $connected = sub {
        my ($machine) = @_;
        my $status = eval { $machine->status() } // {};

        return $status->{store}{connected};
    };

    $t = AgentStream::Alloc->new(%args, ready => $connected);
    $peer = AgentStream->new(%args, opencode => $t->{port_opencode});
    wait_for(sub { $connected->($peer) }, 20) or die "no connection to Redis\n";

    run(@names);

    $peer->{master}->stop('QUIT', 10);
    $redis->{redis}->stop('TERM', 5);
    remove_tree($dir);
}


# Each time another chat, because a chat is not the same when it was used before.
# The zone keeps chats for a day.

sub chat {
    my @names = @_;
    my $dir = AgentStream::Nginx::build() . "/t/alloc_chat.$$";

    make_path($dir);
    $chat = AgentStream::Chat->start(dir => $dir);

    $t = AgentStream::Alloc->new(timeout => 240 * @names, every => $every,
        lasting => qr/(zone_(open|place)_chat|store_chat_bucket)_locked/,
        http => 'agentstream_zone 8m retain=2s;',
        server => bot_conf($chat, allow => 'all'));

    $chat->config(redeliver => JSON::PP::true(),
        webhook => { telegram => "http://127.0.0.1:$t->{port}/hook" });

    $t->scenario($_, $SCENARIO{$_}) for @names;

    # the same chats once more

    my %said = map { $_->{chat} => $_->{id} } @{ $chat->control('crowd', {
        platform => 'telegram', chats => $t->{chats}, text => 'say:again',
        within => 40 * @{ $t->{chats} } }) };
    my @silent = keys %said;

    ok(wait_for(sub {
        @silent = grep { !defined chat_answer($_, $said{$_}) } @silent;
        return !@silent;
    }, 20), 'no chat is stuck') or diag("@silent");
    is(scalar @{ $chat->state()->{violations} }, 0, 'nothing is refused')
        or diag(explain($chat->state()->{violations}));

    $t->finish();
    $chat->stop();
    remove_tree($dir);
}


# the bot's answer to this message, as far as it has one

sub chat_answer {
    my ($id, $said, $question) = @_;

    my ($m) = grep { !$_->{silent} && ($_->{reply} // '') eq $said
                     && $_->{id} ne ($question // '')
                     && !@{ $_->{buttons} // [] } }
              $chat->messages('telegram', $id, bot => 1);

    return $m && $m->{text};
}


# A person who presses the first button that there is, and again if that did not
# help.

sub chatted {
    my ($s, $arm, %what) = @_;
    my ($id) = $s =~ /(\d+)$/;
    my ($answer, $pressed, $question);

    push @{ $t->{chats} }, $id;
    $arm->();

    my $said = $chat->say(platform => 'telegram', chat => $id, %what);

    wait_for(sub {
        my ($m) = grep { @{ $_->{buttons} // [] } }
                  $chat->messages('telegram', $id, bot => 1);

        if ($m && time() > ($pressed // 0) + 2) {
            $pressed = time();
            $question = $m->{id};
            $chat->press(platform => 'telegram', chat => $id,
                         message => $m->{id},
                         label => $m->{buttons}[0]{label});
        }

        return 0 if $m;
        return defined($answer = chat_answer($id, $said->{id}, $question));
    }, 15);

    return [$answer, 'chat'];
}


sub started {
    my ($c) = @_;

    $t->wait([$c], until => sub { $_[0]->packets() > 1 });
}


sub terminals {
    my ($c) = @_;

    return grep { /^(prompt_response|error)$/ } types($c->packets());
}


# a request that is made again when it fails, as a person would

sub retried {
    my @request = @_;
    my $c;

    for (1 .. 3) {
        $c = $t->request(@request);
        last if ($c->status() // 500) < 500;
    }

    return $c;
}


sub child {
    my ($s, $child) = @_;

    $t->control('emit', { event => { type => 'session.created',
        properties => { sessionID => $child, info => { id => $child,
            parentID => $s, directory => '/workspace/demo', title => 'x',
            version => '1', time => { created => 1, updated => 1 } } } } });
}


sub asked {
    my ($c) = @_;

    return scalar grep { /^(question_asked|request_permission)$/ }
                  types($c->packets());
}


# whether or not the client still hears of it, what waits is answered

sub answered {
    my ($s, $arm, $capture, $noun, $reply, $then) = @_;
    my @replies;

    $arm->();

    my $c = $t->send_message($s, "replay:$capture wait=1");
    my $end = time() + scaled(8);

    if ($then) {
        $t->wait([$c], until => \&asked);
        $then->();
    }

    # not asked more often than needed: it allocates, too

    while (time() < $end) {
        my $asked = asked($c);

        $t->wait([$c], timeout => 0.1, until => sub { asked($_[0]) > $asked });

        my $turn = eval { $json->decode(
            $t->request('GET', "/sessions/$s/turn")->body()) } // {};

        for my $id (@{ $turn->{"${noun}s"} // [] }) {
            push @replies, [retried('POST', "/sessions/$s/${noun}s/$id/reply",
                                    body => $reply), 'json'];
        }

        last if exists $turn->{running} && !$turn->{running}
                && ($c->finished() || !$c->{fh});
    }

    return [$c, 'turn'], @replies;
}


# A page in the protocol of a frontend: the body of the next request follows from
# the last response that was good.  If the page has missed that something waits,
# somebody else answers it.

sub page {
    my ($s, $arm, $protocol, $body) = @_;
    my (@clients, @events);

    $arm->();

    for (1 .. 8) {
        my $c = $t->request('POST', "/$protocol", body => $body->(@events));
        my @new = ($c->status() // 0) == 200
                  && ($c->ended() // '') eq 'clean' ? data($c) : ();

        push @clients, [$c, $protocol];
        @events = @new if @new;
        last if grep { ($_->{finishReason} // '') eq 'stop'
                       || ($_->{outcome}{type} // '') eq 'success'
                       || $_->{type} =~ /^(error|RUN_ERROR)$/ } @new;
    }

    wait_for(sub {
        my $turn = eval { $json->decode(
            $t->request('GET', "/sessions/$s/turn")->body()) } // {};

        $t->request('POST', "/sessions/$s/permissions/$_/reply",
                    body => { reply => 'once' })
            for @{ $turn->{permissions} // [] };

        return exists $turn->{running} && !$turn->{running};
    });

    return @clients;
}


sub data {
    my ($c) = @_;

    return map { /^data: (\{.*\})$/ ? $json->decode($1) : () }
           split /\n/, $c->body();
}


# a turn that only OpenCode knows of

sub prompted {
    my ($s, $order) = @_;
    my $turn = sprintf 'msg_%012xTest%010d', time(), $t->{sessions};

    $t->request('POST', "/session/$s/prompt_async",
        port => $t->{port_opencode}, body => { messageID => $turn,
            parts => [{ type => 'text', text => $order }] });

    return $turn;
}


sub stored {
    my ($s, $order) = @_;
    my $turn = prompted($s, $order);

    wait_for(sub { $t->control('stats')->{playing} == 0 });

    return $turn;
}


sub history {
    my ($s, $arm, $type) = @_;

    stored($s, 'replay:task-one chunk=whole');
    $arm->();

    return [$t->request('GET', "/sessions/$s/messages",
                        headers => { Accept => $type }),
            $type =~ /json/ ? 'list' : 'stream'];
}
