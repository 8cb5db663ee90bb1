#!/usr/bin/perl

# Every captured turn of OpenCode through AG-UI, read by AG-UI's own client:
# its schemas and its rules of order find nothing wrong, and its messages are
# what the packets of the same turn say.
#
# Broken by: a text or tool call that is not closed before the run ends, an
# event of a message that is not open, a text that is not taken back after it
# was discarded, arguments that are told twice after an answer, a state that is
# patched although it is not there, a member that AG-UI does not know.

use FindBin;
use lib "$FindBin::Bin/lib";

use AgentStream;
use AgentStream::Node qw(node_tap node_modules);

my $modules = node_modules('npm-ag-ui', '@ag-ui/client');

my $t = AgentStream->new(timeout => 120,
    location => 'agentstream_tool_throttle 0;', server => <<'EOC');
        location /ag-ui {
            agentstream /opencode/;
            agentstream_protocol ag-ui;
            agentstream_tool_throttle 0;
        }
EOC

my @turns = sort map { "replay:$_->[0]:$_->[1]:$_->[2]" } expected_turns();

# text that is taken back

push @turns, map { "replay:$_:1:1 fault=wrongfinal" }
             qw(text-plain two-sessions);

node_tap("$FindBin::Bin/lib/agui_captures.mjs", MODULES => $modules,
    BASE => "http://127.0.0.1:$t->{port}", TURNS => join '|', @turns);

$t->done();
