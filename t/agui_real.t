#!/usr/bin/perl

# AG-UI's own client, unchanged, with OpenCode itself: text while it streams,
# reasoning, tools, a subagent, the plan, files, permissions, a question, two
# tabs, stop, an error, and a page that is loaded again in the middle of a turn.
#
# Broken by: text that is only sent at the end, a run that does not end where
# something is asked, an answer that begins the turn again, an interrupt that
# waits although it was answered in another tab, a snapshot that contains the
# running turn, a stop that does not reach OpenCode.
#
# ONLY=pattern runs some parts.

use FindBin;
use lib "$FindBin::Bin/lib";

use AgentStream;
use AgentStream::Node qw(node_tap node_modules);

my $modules = node_modules('npm-ag-ui', '@ag-ui/client');

my $t = AgentStream->new(opencode => 'real', timeout => 300, workers => 2,
    config => { permission => {
        bash => { '*' => 'allow', 'echo asked*' => 'ask' } } },
    server => <<'EOC');
        location /ag-ui {
            agentstream /opencode/;
            agentstream_protocol ag-ui;
        }
EOC

node_tap("$FindBin::Bin/lib/agui_real.mjs", MODULES => $modules,
    BASE => "http://127.0.0.1:$t->{port}", MASTER => $t->{master}{pid},
    OPENCODE => "http://127.0.0.1:$t->{port_opencode}",
    WORKSPACE => $t->{workspace});

$t->done();
