#!/usr/bin/perl

# Clients that disconnect, properly (FIN) or not (RST), at every stage of every
# kind of request.  What they started goes on or never begins, as documented;
# nothing of them is left in the worker.
#
# Broken by: a prompt sent for a body that never came whole; a request that is
# not watched while it waits for OpenCode, in the queue or for a turn; a turn,
# relay or history that writes to a request that was freed; a place in the queue
# that is kept; a descriptor or connection that is.

use FindBin;
use lib "$FindBin::Bin/lib";

use AgentStream;
use AgentStream::Attach;

my $t = AgentStream->new(timeout => 120, server => '
        location /queue {
            agentstream /opencode/;
            agentstream_busy queue;
        }');
my ($worker) = $t->workers();
my $text = 'text:6:24:10';

# one turn, so that the event stream is open

check_turn($t->turn($t->session(), $text), 'before all');

my $files = files($worker);

# name => [prompts of that session, a client that has come so far]

my %stage = (
    'before the body' => [0, sub { sent_body($_[0], 0) }],
    'in the body' => [0, sub { sent_body($_[0], 0.5) }],
    'before the last byte, a space' => [0, sub { sent_body($_[0], -1) }],
    'while resolving' => [1, sub { held($_[0], "^/session/$_[0]\$", 'GET') }],
    'while prompting' => [1, sub { held($_[0], "$_[0]/prompt_async") }],
    'after the first packet' => [1, sub {
        heard($t->send_message($_[0], "$text start=150"), 1) }],
    'mid-packet' => [1, sub { mid_packet($_[0]) }],
    'at the last packet' => [1, sub {
        heard($t->send_message($_[0], $text), 10) }],
    'in the queue' => [1, sub { queued($_[0]) }],
    'as a follower without a turn' => [0, sub {
        heard_head(events($t, $_[0], undef, query => 'follow=1')) }],
    'while it looks for a turn' => [0, sub {
        held($_[0], "^/session/$_[0]\$", 'GET', events_of($_[0])) }],
    'while its history is read' => [0, sub {
        held($_[0], "$_[0]/message", 'GET',
             'GET', "/sessions/$_[0]/messages") }],
    'while a session is made' => [0, sub {
        held($_[0], '^/session(\?|$)', 'POST',
             'POST', '/sessions', body => {}) }],
    'while sessions are listed' => [0, sub {
        held($_[0], '^/session(\?|$)', 'GET', 'GET', '/sessions') }],
    'while it interrupts' => [1, sub { interrupting($_[0]) }],
);

for my $stage (sort keys %stage) {
    for my $how (qw(close reset)) {
        my ($prompts, $come) = @{ $stage{$stage} };
        my $s = $t->session();
        my $c = $come->($s);
        my $name = "$stage, $how";

        $c->$how();
        sleep(0.05);
        $t->control('config', { rules => [] });

        ok(wait_for(sub { prompts($t, $s) >= $prompts
                          && !turn_state($t, $s)->{running} }, 10),
           "$name: nothing runs") or diag(explain(turn_state($t, $s)));
        is(prompts($t, $s), $prompts, "$name: prompts");

        if ($prompts) {
            my $d = $t->request(events_of($s));

            check_turn($d, $name);
            check_text($d, $t->messages($s), $name)
                unless $stage =~ /interrupts/;
        }

        # the next client finds nothing in its way

        check_turn($t->turn($s, 'text:2:8:0'), "$name, then");
        nothing_left($t, $worker, $files, $name);
    }
}

# an answer that never comes is not waited for when nobody wants it

for my $what (['sessions are listed', '^/session(\?|$)', '/sessions'],
              ['a session is looked up', '^/session/SES$', '/sessions/SES'],
              ['history is read', 'SES/message', '/sessions/SES/messages'],
              ['a turn is looked for', '^/session/SES$',
               '/sessions/SES/events'])
{
    for my $how (qw(close reset)) {
        my $s = $t->session();
        my ($name, $url, $path) = map { s/SES/$s/gr } @$what;
        my $before = grep { m{^GET /session} } $t->upstream();

        $t->control('config', { rules => [{ method => 'GET', url => $url,
                                            hang => 1 }] });
        my $c = $t->open('GET', $path);

        wait_for(sub { $before < grep { m{^GET /session} } $t->upstream() });
        cmp_ok(files($worker), '>', $files, "$name, $how: it waits");
        $c->$how();
        nothing_left($t, $worker, $files, "$name, $how: no answer");
        $t->control('config', { rules => [] });
    }
}

# the end of the turn and of the client at about the same time

my @turns;

for my $n (1 .. 40) {
    my $s = $t->session();
    my $c = $t->send_message($s, 'text:4:16:3');

    sleep(0.008 + 0.0005 * $n);
    $n % 2 ? $c->close() : $c->reset();
    push @turns, $s;
}

ok(wait_for(sub { !grep { turn_state($t, $_)->{running} } @turns }, 10),
   'about the end: nothing runs');
is(scalar(grep { check_turn($t->request(events_of($_)), 'about the end',
                            quiet => 1) } @turns), 40,
   'about the end: whole turns');
nothing_left($t, $worker, $files, 'about the end');

$t->done();


sub heard {
    my ($c, $n) = @_;

    $t->wait([$c], until => sub {
        my @packets = $_[0]->packets();
        @packets >= $n || @packets && packet_json($packets[-1])->{stopReason};
    });

    return $c;
}


sub heard_head {
    my ($c) = @_;

    $t->wait([$c], until => sub { defined $_[0]->status() });

    return $c;
}


sub sent_body {
    my ($session, $part) = @_;
    my $request = $t->http_request('POST', "/sessions/$session/send-message",
        headers => { 'Content-Type' => 'application/json' },
        body => '{"content":"' . 'x' x 5000 . '"} ');
    my ($head, $body) = split /(?<=\r\n\r\n)/, $request, 2;
    my $n = $part < 0 ? length($body) + $part : int($part * length $body);

    my $c = AgentStream::Client->open(port => $t->{port},
        request => $head . substr($body, 0, $n));
    sleep(0.1);

    return $c;
}


# one that waits for OpenCode's answer to this

sub held {
    my ($session, $url, $method, @request) = @_;

    $t->control('config', { rules => [
        { url => $url, $method ? (method => $method) : (),
          times => 1, delay => 400 }] });

    my $before = grep { m{^\w+ \S*$session|^\w+ /session\b} } $t->upstream();
    my $c = @request ? $t->open(@request) : $t->send_message($session, $text);

    wait_for(sub { $before < grep { m{^\w+ \S*$session|^\w+ /session\b} }
                             $t->upstream() }) or die "nobody asks $url\n";

    return $c;
}


# it has the head and a part of the first long packet

sub mid_packet {
    my ($session) = @_;
    my $c = $t->open($t->message_request($session, 'text:6:60000:5'),
                     rcvbuf => 4096);

    wait_for(sub {
        sysread $c->{fh}, my $bytes, 512;
        $c->{buffer} .= $bytes // '';
        return $c->{buffer} =~ /"agent_message_chunk"/;
    }) or die "no packet\n";

    return $c;
}


sub queued {
    my ($session) = @_;

    # it runs until the client behind it has left, on a busy machine too
    heard($t->send_message($session, 'text:20:16:100'), 1);

    my $c = $t->open('POST', "/queue/$session/send-message",
                     body => { content => 'text:2:16:0' });
    sleep(0.1);

    return $c;
}


sub interrupting {
    my ($session) = @_;

    heard($t->send_message($session, 'text:200:16:20'), 2);

    return held($session, "$session/abort", 'POST',
                'POST', "/sessions/$session/interrupt");
}
