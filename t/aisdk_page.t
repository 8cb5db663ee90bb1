#!/usr/bin/perl

# The example page with the newest AI SDK in headless Chromium, on nginx,
# OpenCode and a scripted model: text while it streams, thoughts, a page that is
# loaded again in the middle of a turn while nginx is reloaded, two tabs, two
# tools at once and one that fails, the plan, a subagent, a file, permissions
# given and refused, a question, stop, an error.
#
# Broken by: a response that a browser gets only at the end, a stream that is
# not told from its beginning, a tool that fails and looks as if it had not, a
# subagent whose text is the agent's, an answer that cannot be given from a
# page, a policy that forbids the page's own parts.

use FindBin;
use lib "$FindBin::Bin/lib";

use AgentStream;
use AgentStream::Node qw(node_tap node_modules);

my $root = "$FindBin::Bin/..";
my $build = AgentStream->build();

plan(skip_all => 'no chromium') unless -x '/usr/bin/chromium';
node_modules('npm-ai-sdk', 'ai');

my $modules = node_modules('npm-console', 'playwright-core');

system("node \"$root/examples/build.mjs\" \"$build\" >/dev/null") == 0
    or die "the examples were not built\n";

my $t = AgentStream->new(opencode => 'real', timeout => 450, workers => 2,
    config => { permission => {
        bash => { '*' => 'allow', 'echo asked*' => 'ask' } } },
    server => <<"EOC");
        root $build/console;
        include $root/conf/console.conf;

        location /api/chat {
            agentstream /opencode/;
            agentstream_protocol ai-sdk;
        }
EOC

node_tap("$FindBin::Bin/judges/ai-sdk/page.mjs", MODULES => $modules,
    BASE => "http://127.0.0.1:$t->{port}", MASTER => $t->{master}{pid},
    WORKSPACE => $t->{workspace});

$t->done();
