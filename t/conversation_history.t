#!/usr/bin/perl

# A long history: 10,000 messages are sent in reasonable time, with a few
# buffers of memory, at the client's pace, while other clients are served; and
# what happens if OpenCode does not send the whole history.
#
# Broken by: an answer that is collected before it is told; a call that does
# not wait for a slow client; a translator that keeps what it has told; a loop
# over all messages at once; a cut answer that looks like a whole one; subagents
# that are followed round and round; an end for a turn that runs.

use FindBin;
use lib "$FindBin::Bin/lib";

use AgentStream;

my $json = JSON::PP->new->utf8->canonical->allow_nonref;

my $t = AgentStream->new(timeout => 120);
my ($worker) = $t->workers();

my $s = 'ses_long';
my $text = 'Harbor saffron brook, spruce and ember. ' x 20;

# a user message and its answer, which has a tool in it

my $turn = $json->encode({ info => { id => 'msg_u%d', role => 'user',
        sessionID => $s, time => { created => 1794815005487 } },
    parts => [{ id => 'prt_u%d', messageID => 'msg_u%d', sessionID => $s,
                type => 'text', text => "Question %d" }] })
    . ',' . $json->encode({ info => { id => 'msg_a%d', role => 'assistant',
        parentID => 'msg_u%d', sessionID => $s, finish => 'stop', cost => 0,
        tokens => { input => 100, output => 20, reasoning => 0,
                    cache => { read => 0, write => 0 } },
        time => { created => 1794815005488, completed => 1794815005999 } },
    parts => [
        { id => 'prt_a%d', messageID => 'msg_a%d', sessionID => $s,
          type => 'text', text => "Answer %d. $text",
          time => { start => 1, end => 2 } },
        { id => 'prt_t%d', messageID => 'msg_a%d', sessionID => $s,
          type => 'tool', tool => 'bash', callID => 'call_%d', state => {
              status => 'completed', input => { command => 'ls' },
              output => $text, title => 'ls', metadata => {},
              time => { start => 1, end => 2 } } }] });

rule(status => 200, body => $turn, repeat => 5000);

warm_up();
long('as JSON');
long('as events', Accept => 'text/event-stream');
slow();
http2();
leaves();
subagents();
cycle();
runs();
faults();

$t->done();


sub rule {
    $t->control('config', { rules => [{ url => '/message', @_ }] });
}


sub kbytes {
    my ($what) = @_;

    open my $fh, '<', "/proc/$worker/status" or die "status: $!\n";
    my ($kb) = map { /^$what:\s+(\d+)/ ? $1 : () } <$fh>;

    return $kb;
}


sub warm_up {
    $t->turn($t->session(), 'text:3:16:0');
    $t->request('GET', '/sessions/ses_1/messages?limit=1', timeout => 30);
}


sub long {
    my ($name, %headers) = @_;
    my $before = kbytes('VmRSS');
    my $start = time();
    my $c = $t->open('GET', "/sessions/$s/messages", headers => \%headers);
    my ($most, $n, $peak) = (0, 0, 0);

    # somebody else asks meanwhile, again and again

    while (!$c->finished() && time() < $start + scaled(60)) {
        my $asked = time();
        my $other = $t->request('GET', '/_status');
        my $took = time() - $asked;

        is($other->status(), 200, "$name: others are served") if $n++ == 0;
        $most = $took if $took > $most;
        $peak = kbytes('VmRSS') if kbytes('VmRSS') > $peak;
        $t->wait([$c], timeout => 0.05);
    }

    my $grown = ($peak || $before) - $before;

    note(sprintf '%s: %.0f MB in %.1f s, memory +%d kB, others waited %.0f ms'
         . ' at most', $name, length($c->body()) / 1e6, time() - $start,
         $grown, 1000 * $most);

    is($c->status(), 200, "$name: status");
    is($c->ended(), 'clean', "$name: to its end");
    cmp_ok($grown, '<', 2048, "$name: in a few buffers")
        unless $ENV{AGENTSTREAM_ASAN};
    cmp_ok($most, '<', scaled(0.5), "$name: without blocking");

    my $count = () = $c->body() =~ /"type":"prompt_response"/g;
    is($count, 5000, "$name: all turns");
    $count = () = $c->body() =~ /"type":"user_message_chunk"/g;
    is($count, 5000, "$name: all questions");
    like($c->body(), qr/Question 000000.*Answer 000000.*Answer 004999/s,
         "$name: in order");

    return if %headers;

    # JSON::PP would take its time for all of it
    like($c->body(), qr/\A\[\{.*\}\]\z/s, "$name: an array");
}


# a client that does not read stops OpenCode, and costs nothing

sub slow {
    my $before = kbytes('VmRSS');
    my $c = $t->open('GET', "/sessions/$s/messages");

    sleep(2);

    cmp_ok(kbytes('VmRSS') - $before, '<', 2048, 'a slow client costs nothing')
        unless $ENV{AGENTSTREAM_ASAN};

    $t->wait([$c], timeout => 60);
    is($c->ended(), 'clean', 'a slow client gets it all');

    my $count = () = $c->body() =~ /"type":"prompt_response"/g;
    is($count, 5000, 'a slow client gets all turns');
}


sub http2 {
    my $c = AgentStream::Client->curl('--http2-prior-knowledge',
        "http://127.0.0.1:$t->{port_h2}/sessions/$s/messages");

    $t->wait([$c], timeout => 60);

    my $count = () = $c->body() =~ /"type":"prompt_response"/g;
    is($count, 5000, 'all turns over HTTP/2');
}


sub leaves {
    for my $ms (0, 20, 100, 500) {
        my $c = $t->open('GET', "/sessions/$s/messages");

        $t->wait([$c], timeout => $ms / 1000);
        $c->close();
    }

    is($t->request('POST', '/sessions/ses_2/interrupt')->status(), 200,
       'clients may leave');
}


# each turn has a subagent, whose messages are fetched in between

sub subagents {
    my $parent = $turn =~ s/"tool":"bash"/"tool":"task"/r
                       =~ s/"metadata":\{\}/"metadata":{"sessionId":"ses_c%d"}/r;
    my $child = $turn =~ s/ses_long/ses_x/gr =~ s/Answer/Child/r
                      =~ s/(msg|prt|call)_/$1_c/gr;
    my @rules = ({ url => "/$s/message", status => 200, body => $parent,
                   repeat => 40 });

    for (['there', 40, { status => 200, body => $child, repeat => 1 }],
         ['gone', 0, { status => 404, body => '{}' }],
         ['broken', 0, { status => 200, body => $child, repeat => 1,
                         cut => 300 }],
         ['senseless', 0, { status => 200, body => 'x' }],
         ['unreachable', 0, { drop => 1 }])
    {
        my ($name, $n, $rule) = @$_;

        $t->control('config', { rules => [@rules,
            { url => '/ses_c\d+/message', %$rule }] });

        my $c = $t->request('GET', "/sessions/$s/messages", timeout => 30);
        my @list = @{ $json->decode($c->body()) };
        my @text = map { $_->{content}{text} =~ /^(Answer|Child|Question) (\d+)/
                         ? "$1 $2" : () }
                   grep { $_->{type} =~ /_message_chunk$/ } @list;
        my @want = map { my $i = sprintf '%06d', $_; ("Question $i",
                         "Answer $i", $n ? "Child 000000" : ()) } 0 .. 39;

        is("@text", "@want", "subagents that are $name: all in order");
        is(scalar(grep { $_->{type} eq 'prompt_response' } @list), 40,
           "subagents that are $name: all turns end");
        is(scalar(grep { $_->{type} eq 'subagent_started' } @list), 40,
           "subagents that are $name: all begin");
    }

    for my $ms (1, 5, 20, 50) {
        my $c = $t->open('GET', "/sessions/$s/messages");

        sleep($ms / 1000);
        $c->close();
    }
}


# subagents that have started themselves, each other, or the session

sub cycle {
    my $of = sub {
        my ($id, @sessions) = @_;
        my $time = { created => 1794815005488, completed => 1794815005999 };

        return $json->encode([
            { info => { id => "msg_u$id", role => 'user', time => $time },
              parts => [{ id => "prt_u$id", messageID => "msg_u$id",
                          type => 'text', text => 'Go' }] },
            { info => { id => "msg_$id", role => 'assistant', time => $time,
                        parentID => "msg_u$id", finish => 'stop' },
              parts => [map { { id => "prt_$id$_", messageID => "msg_$id",
                  type => 'tool', tool => 'task', callID => "call_$id$_",
                  state => { status => 'completed', input => {}, output => '',
                      metadata => { sessionId => $_ } } } } @sessions] }]);
    };

    $t->control('reset', {});
    $t->control('config', { rules => [
        map { { url => "/session/$_->[0]/message", status => 200,
                body => $of->(@$_[1 .. $#$_]) } }
            [$s, 'a', 'ses_x1', 'ses_x2', $s],
            ['ses_x1', 'b', 'ses_x1', 'ses_x2', $s],
            ['ses_x2', 'c', 'ses_x1', 'ses_x2']] });

    my $c = $t->request('GET', "/sessions/$s/messages", timeout => 10);

    is($c->ended(), 'clean', 'subagents in a circle: it ends');
    is(scalar(grep { $_->{type} eq 'subagent_started' }
              @{ $json->decode($c->body()) }), 2,
       'subagents in a circle: each is told once');
    cmp_ok(scalar($t->upstream()), '<', 8,
           'subagents in a circle: and read not much more often');
    $t->control('reset', {});
}


# between two steps the last answer has an end, but the turn has none

sub runs {
    my $session = $t->session();
    my $c = $t->send_message($session, 'text:400:8:10');

    $t->wait([$c], until => sub { $_[0]->packets() > 2 });

    my $stored = $t->messages($session);

    $stored->[1]{info}{finish} = 'tool-calls';
    $stored->[1]{info}{time}{completed} = 1794815005999;
    rule(status => 200, body => $json->encode($stored));

    my $list = $json->decode($t->request('GET',
                                   "/sessions/$session/messages")->body());

    is(scalar(grep { $_->{type} eq 'prompt_response' } @$list), 0,
       'a turn that runs has no end');
    rule(status => 200, body => $json->encode($stored), delay => 1000);
    my $late = $t->open('GET', "/sessions/$session/messages");
    sleep(0.2);
    $t->request('POST', "/sessions/$session/interrupt");
    $t->wait([$c, $late], timeout => 10);
    check_turn($c, 'the turn itself');
    is(scalar(grep { $_->{type} eq 'prompt_response' }
              @{ $json->decode($late->body()) }), 0,
       'nor has one that ran when OpenCode was asked');
}


sub faults {
    rule(status => 200, body => '[]');
    is($t->request('GET', "/sessions/$s/messages")->body(), '[]',
       'an empty session');

    my $c = $t->request('GET', "/sessions/$s/messages",
                        headers => { Accept => 'text/event-stream' });
    is($c->status(), 200, 'an empty session as events');
    is($c->body(), '', 'which are none');

    my %fault = (
        'no array' => [502, status => 200, body => '{"a":1}'],
        'no JSON' => [502, status => 200, body => '<html>'],
        'a bad message' => [502, status => 200, body => '[{"info":}]'],
        'nothing' => [502, status => 200, body => ''],
        'an end too early' => [502, status => 200, body => '[{"info":{}}'],
        'an error' => [502, status => 500, body => '{}'],
        'no session' => [404, status => 404, body => '{}'],
        'cut at once' => [502, status => 200, body => $turn, repeat => 1,
                          cut => 100],
        'no answer' => [502, drop => 1],
    );

    for my $name (sort keys %fault) {
        my ($status, %rule) = @{ $fault{$name} };

        rule(%rule);
        is_error_packet($t->request('GET', "/sessions/$s/messages")
                          ->response(), $status, "$name: JSON");
        is_error_packet($t->request('GET', "/sessions/$s/messages",
            headers => { Accept => 'text/event-stream' })->response(),
            $status, "$name: events");
    }

    # so late that the response has begun

    rule(status => 200, body => $turn, repeat => 200, cut => 300_000);
    $c = $t->request('GET', "/sessions/$s/messages");
    my $list = $json->decode($c->body());
    is($c->status(), 200, 'cut later: status');
    is($list->[-1]{type}, 'error', 'cut later: the last packet tells');
    is($list->[-1]{code}, 502, 'cut later: what happened');

    # elements of odd sizes: nothing depends on where a piece ends

    rule(status => 200, body => "\n" . $turn =~ s/\},\{/} ,\t\n{/gr, repeat => 7);
    $c = $t->request('GET', "/sessions/$s/messages");
    is(scalar(grep { $_->{type} eq 'prompt_response' }
              @{ $json->decode($c->body()) }), 7, 'whitespace');

    for my $limit (qw(0 -1 x 1e3 99999999999999999999), '') {
        is_error_packet($t->request('GET',
            "/sessions/$s/messages?limit=$limit")->response(), 400,
            "limit=$limit");
    }
}
