#!/usr/bin/perl

# The AI SDK's own client, unchanged, against real OpenCode: text while it
# streams, thoughts, parallel and failing tools, a subagent, a plan, a file,
# approvals given and refused, questions, a second tab, stop, error, readers who
# come back in mid-turn and while nginx is reloaded.
#
# Broken by: an answer that is sent but not waited for, a continued response
# that repeats what the client has or starts no new step (the library then
# sends its answer for ever), an approval that the library does not send, a
# messageId that changes, a 404 for a chat that has not begun.

use FindBin;
use lib "$FindBin::Bin/lib";

use AgentStream;
use AgentStream::Node qw(node_tap node_modules);

node_modules('npm-judge-ai-sdk', 'ai');

my $t = AgentStream->new(opencode => 'real', timeout => 180, workers => 2,
    config => { permission => { bash => { '*' => 'allow',
                                          'printf*' => 'ask' } } },
    server => <<'EOS');
        location /chat {
            agentstream /opencode/;
            agentstream_protocol ai-sdk;
        }
EOS

node_tap("$FindBin::Bin/judges/ai-sdk/real.mjs",
         API => "http://127.0.0.1:$t->{port}/chat", NGINX_PID => $t->{master}{pid},
         RUN => $$);

$t->done();
