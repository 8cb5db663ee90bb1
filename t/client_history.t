#!/usr/bin/perl

# The libraries of frontends send the whole conversation with every message, of
# which only the last one counts.  However long it is, it is one prompt with one
# text, takes little time, and is gone from the worker's memory while the turn
# runs.  What is larger than client_max_body_size is refused in the protocol's
# own form, and nothing is sent to OpenCode.
#
# Broken by: a body that is kept as long as the response, a search of the
# history that begins again for each message, a message before the last that
# becomes part of the prompt, an error page of nginx instead of the protocol's.

use FindBin;
use lib "$FindBin::Bin/lib";

use AgentStream;
use AgentStream::Attach qw(cpu rss);
use AgentStream::Process qw(wait_for);

my $MESSAGES = 16_000;
my $json = JSON::PP->new->utf8;

# what is large and freed goes back to the system at once, and not only if the
# allocator sees fit

$ENV{MALLOC_MMAP_THRESHOLD_} = 131072;

my $t = AgentStream->new(timeout => 120, workers => 1, server => join '',
    map { my $size = $_; map { "
        location /$_-$size {
            agentstream /opencode/;
            agentstream_protocol $_;
            client_max_body_size $size;
        }" } qw(ai-sdk ag-ui) } qw(1m 30m));

my $filler = 'x' x 1000;
my $order = 'text:40:5:100';

my %PAGE = (
    'ai-sdk' => {
        one => sub { qq({"id":"$_[0]","role":"$_[1]","parts":[{"type":"text",)
                     . qq("text":"$_[2]"}]}) },
        body => sub { qq({"id":"$_[0]","messages":[$_[1]]}) },
        refused => qr/^The body is too large$/,
        end => qr/"finishReason":"stop"/,
    },
    'ag-ui' => {
        one => sub { qq({"id":"$_[0]","role":"$_[1]","content":"$_[2]"}) },
        body => sub { qq({"threadId":"$_[0]","runId":"r","messages":[$_[1]]}) },
        refused => qr/^\{"type":"RUN_ERROR","message":"The body is too large",/,
        end => qr/"outcome":\{"type":"success"\}/,
    },
);

my ($worker) = $t->workers();

for my $protocol (sort keys %PAGE) {
    my ($one, $body) = @{ $PAGE{$protocol} }{qw(one body)};
    my $send = sub {
        my ($name, $size, $n) = @_;

        return ('POST', "/$protocol-$size",
            headers => { 'Content-Type' => 'application/json' },
            body => $body->($name, join ',',
                (map { $one->($_, $_ % 2 ? 'user' : 'assistant', $filler) }
                 1 .. $n), $one->('last', 'user', $order)));
    };

    my $before = prompts();
    my $c = $t->request($send->('large', '1m', 1100));

    is($c->status(), 413, "$protocol: more than is allowed");
    like($c->body(), $PAGE{$protocol}{refused}, '... in its own form');
    is(scalar prompts(), $before, '... and not prompted');

    # what the worker needs once, and keeps for other turns

    $t->request($send->('first', '30m', 1));
    $before = prompts();

    my ($rss, $cpu) = (rss($worker), cpu($worker));

    $c = $t->open($send->('long', '30m', $MESSAGES));
    wait_for(sub { prompts() == $before + 1 }, 30);
    sleep(0.3);

    my ($more, $took) = (rss($worker) - $rss, cpu($worker) - $cpu);

    note("$protocol: $more kB, $took s of CPU");
    ok(!$c->ended(), "$protocol: $MESSAGES messages, whose turn runs");
    SKIP: {
        skip 'the sanitizers keep what was freed', 1 if $ENV{AGENTSTREAM_ASAN};
        cmp_ok($more, '<', 4096, '... are not kept');
    }

    cmp_ok($took, '<', 2, '... and were read at once');

    $t->wait([$c]);
    like($c->body(), $PAGE{$protocol}{end}, '... to its end');

    my @parts = @{ $json->decode((prompts())[-1]{body})->{parts} };

    is(join(' ', map { $_->{text} } @parts), $order,
       '... and the last one is all of the prompt');
}

$t->done();


sub prompts {
    return $t->posted(qr/prompt_async/);
}
