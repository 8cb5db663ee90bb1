#!/usr/bin/perl

# Every captured turn of real OpenCode through the AI SDK's own client, which
# checks each chunk with its schema: text, thoughts, tool calls with input and
# output, plan, subagents, error and finish reason are those of t/data/expected.
#
# Broken by: a chunk of another form, a delta before its start or after its end,
# a tool call that is announced twice or not at all, an output without the text
# that the journal keeps once, a turn that does not go on behind a question that
# was answered elsewhere.

use FindBin;
use lib "$FindBin::Bin/lib";

use AgentStream;
use AgentStream::Node qw(node_tap node_modules);

node_modules('npm-judge-ai-sdk', 'ai');

my $t = AgentStream->new(timeout => 120, server => <<'EOS');
        location /chat {
            agentstream /opencode/;
            agentstream_protocol ai-sdk;
            agentstream_tool_throttle 0;
        }
EOS

my @turns = expected_turns();

open my $fh, '>', "$t->{dir}/turns.json" or die "$!\n";
print $fh JSON::PP->new->utf8->encode(\@turns);
close $fh;

node_tap("$FindBin::Bin/judges/ai-sdk/captures.mjs",
         API => "http://127.0.0.1:$t->{port}/chat",
         TURNS => "$t->{dir}/turns.json");

$t->done();
