#!/usr/bin/perl

# The module on OpenCode itself with a scripted model: text, reasoning and
# tools arrive as OpenCode stored them, and arrive at once.
#
# Broken by: anything that real OpenCode does otherwise than the scripted one;
# a packet that waits for a timer or for the next event.

use FindBin;
use lib "$FindBin::Bin/lib";

use AgentStream;

my $json = JSON::PP->new->canonical->allow_nonref;
my $t = AgentStream->new(opencode => 'real', timeout => 180,
                         location => 'agentstream_tool_throttle 0;',
                         server => '
        location /plain/ {
            proxy_pass http://127.0.0.1:%%port_opencode%%/;
            proxy_http_version 1.1;
            proxy_set_header Connection "";
            proxy_buffering off;
        }');
my $dir = $t->{workspace};

play('text', '!say "Harbor saffron brook. "', '!say "Spruce."');

play('reasoning', '!think "Delta maple beacon."', '!say "Ember otter."');

play('bash', '!say "First. "',
     '!call bash {"command":"echo one; sleep 0.3; echo two","description":"x"}',
     '!next', '!say "Then."');

play('read', qq(!call read {"filePath":"$dir/README.md"}), '!next',
     '!say "Read."');

play('edit', qq(!call read {"filePath":"$dir/README.md"}), '!next',
     qq(!call edit {"filePath":"$dir/README.md","oldString":"Demo",)
     . '"newString":"Ďemo \"x\" 😀"}', '!next', '!say "Edited."');

play('a failing tool', qq(!call read {"filePath":"$dir/missing"}), '!next',
     '!say "It is not there."');

play('characters', '!split 1',
     '!say "aé✓😀\u0000\n\t\"\\\\ 👩‍👩‍👧 \u2028 z"');

my $c = play('200 kB', '!split 333', '!repeat 20000 "é✓😀 word\n"');
cmp_ok(length joined_text($c), '>=', 180_000, '200 kB: all of it');

latency();

$t->done();


sub play {
    my ($name, @orders) = @_;
    my $session = $t->create_session();
    my $c = $t->turn($session, join("\n", $name, @orders), timeout => 40);

    check_turn($c, $name) or return $c;

    my $stored = $t->messages($session);
    my %last;

    for my $p (map { packet_json($_) } $c->packets()) {
        $last{ $p->{toolCallId} } = $p if $p->{type} eq 'tool_call_progress';
    }

    is(packet_json(($c->packets())[-1])->{stopReason}, 'end_turn',
       "$name: ends well");
    check_text($c, $stored, $name);

    for my $part (map { @{ $_->{parts} } } @$stored) {
        next unless $part->{type} eq 'tool';

        my $state = $part->{state};
        my $p = delete $last{ $part->{callID} } // {};
        my $failed = $state->{status} eq 'error';

        is($p->{status}, $failed ? 'failed' : 'completed', "$name: status");
        is($json->encode($p->{rawInput}), $json->encode($state->{input}),
           "$name: input of $part->{tool}");
        is($p->{rawOutput}{ $failed ? 'error' : 'output' },
           $state->{ $failed ? 'error' : 'output' },
           "$name: output of $part->{tool}");
    }

    is(scalar keys %last, 0, "$name: no other calls");

    return $c;
}


# What the module adds to the time of each delta: beside OpenCode's own stream
# through the same worker, because that worker may have to wait for a processor.

sub latency {
    my $session = $t->create_session();
    my $events = $t->open('GET', "/plain/event?directory=$dir",
                          keepalive => 1);

    $t->wait([$events], until => sub { $_[0]->packets() > 0 });

    my $c = $t->send_message($session, "latency\n!pace 15\n!say \""
                                       . 'word ' x 60 . '"');
    $t->wait([$c, $events], until => sub { $c->finished() }, timeout => 20);
    $t->wait([$c], timeout => 1);
    check_turn($c, 'latency');

    my @deltas = grep { ($_->{type} // '') eq 'message.part.delta' }
                 map { { %{ packet_json($_) }, time => $_->{time} } }
                 $events->packets();
    my @chunks = grep { packet_json($_)->{type} eq 'agent_message_chunk' }
                 $c->packets();

    $events->close();

    is(scalar @chunks, scalar @deltas, 'latency: a chunk per delta');

    my @added = sort { $a <=> $b }
                map { 1000 * ($chunks[$_]{time} - $deltas[$_]{time}) }
                0 .. $#chunks;
    my $median = $added[@added / 2] // 1000;

    note(sprintf 'added: %.2f ms at the median, %.2f ms at most', $median,
         $added[-1] // 0);
    cmp_ok($median, '<', scaled(2), 'latency: ms added at the median');
}
