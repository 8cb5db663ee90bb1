#!/usr/bin/perl

# Errors known before the stream starts: each has its HTTP status and the one
# `error` packet as its body, SSE on the SSE routes, and what is refused never
# reaches OpenCode.
#
# Broken by: any check left out of request.c (method, type, id, JSON, content),
# a status that is not the packet's code, an error sent as nginx's HTML page.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/lib";

use AgentStream ();
use AgentStream::Process qw(free_ports scaled slurp wait_for);

my $t;

BEGIN {
    $t = AgentStream->new(nginx => 0);

    $ENV{TEST_NGINX_SERVROOT} = "$t->{dir}/servroot";
    $ENV{TEST_NGINX_LOAD_MODULES} = AgentStream->module();
    $ENV{TEST_NGINX_FORCE_RESTART_ON_TEST} = 0;
    $ENV{TEST_NGINX_TIMEOUT} = scaled(5);
    ($ENV{TEST_NGINX_PORT}, $ENV{TEST_NGINX_CLOSED_PORT}) = free_ports(2);
    $ENV{TEST_NGINX_OPENCODE_PORT} = $t->{port_opencode};
}

use Test::Nginx::Socket 'no_plan';

$t->control('config', { rules => [
    { url => '^/session/ses_slow', hang => 1 },
    { url => '^/session/ses_html', status => 200, type => 'text/html',
      body => '<html>It works!</html>' },
    { url => '^/session/ses_text', status => 200, body => 'not JSON' },
    { url => '^/session/ses_list', status => 200, body => '[]' },
    { url => '^/session/ses_noid', status => 200, body => '{"id":1}' },
    { url => '^/session/ses_cut', cut => 20 },
    { url => '^/session/ses_drop', drop => 1 },
    { url => '^/session/ses_noise', raw => "\x01\x02 no HTTP at all\r\n" },
    { url => '^/session/ses_fails$', status => 500, body => '{}' },
    { url => '^/session/ses_p400/prompt', status => 400, body => '{}' },
    { url => '^/session/ses_p500/prompt', status => 500, body => 'oops' },
    { url => '^/session/ses_pdrop/prompt', drop => 1 },
] });

my $config = <<'EOF';
    location /sessions {
        agentstream /opencode/;
        client_max_body_size 16k;
    }

    location /elsewhere/deep/ {
        agentstream /opencode/;
    }

    location /down {
        agentstream /closed/;
    }

    location /opencode/ {
        internal;
        proxy_pass http://127.0.0.1:$TEST_NGINX_OPENCODE_PORT/;
        proxy_http_version 1.1;
        proxy_set_header Connection "";
        proxy_read_timeout 1s;
    }

    location /closed/ {
        internal;
        proxy_pass http://127.0.0.1:$TEST_NGINX_CLOSED_PORT/;
    }
EOF

my $packet = '\{"type":"error","timestamp":"[-0-9]{10}T[0-9:.]{12}Z",'
             . '"message":"(?:[^"\\\\]|\\\\.)+","code":CODE,"details":.*\}';

# --- packet: STATUS [sse|json]

add_block_preprocessor(sub {
    my ($block) = @_;
    my ($status, $form) = split ' ', $block->packet;

    (my $json = $packet) =~ s/CODE/$status/;
    my $sse = "event: message\\n(?:id: \\S+\\n)?data: $json\\n\\n";
    my $body = !$form ? "(?:$sse|$json\\n?)" : $form eq 'sse' ? $sse
                                                         : "$json\\n?";

    $block->set_value('config', $config);
    $block->set_value('error_code_like', "^(?:$status)\$");
    $block->set_value('response_body_like', "\\A$body\\z");
    $block->set_value('no_error_log', "[alert]\n[crit]\n[emerg]");
    $block->set_value('request', 'POST /sessions/ses_1/send-message' . "\n"
                                 . $block->send) if defined $block->send;
    $block->set_value('more_headers', 'Content-Type: application/json')
        if !defined $block->more_headers;
    $block->set_value('response_headers', 'Content-Type: text/event-stream')
        if ($form // '') eq 'sse' && !defined $block->response_headers_like;
});

workers(1);
master_on();
no_shuffle();
no_long_string();
run_tests();

my @upstream = map { $_->{url} =~ m{ses_(\w+)} ? $1 : $_->{url} }
               @{ $t->control('log') };
my @refused = grep { !/^(unknown|slow|html|text|list|noid|cut|drop|noise|fails
                         |p400|p500|pdrop)\w*$|^\/event|^\/session\/status/x }
              @upstream;

is("@refused", '', 'nothing that is refused reaches OpenCode');

# Test::Nginx would stop it after the end, when its pid file is gone

my $pid = slurp("$ENV{TEST_NGINX_SERVROOT}/logs/nginx.pid") + 0;

kill 'QUIT', $pid;
ok(wait_for(sub { !kill 0, $pid }), 'nginx exits by itself');

$t->finish();

__DATA__

=== unknown session
--- request
POST /sessions/ses_unknown/send-message
{"content":"hi"}
--- packet: 404 sse

=== a route below a longer location
--- request
POST /elsewhere/deep/ses_unknown/send-message
{"content":"hi"}
--- packet: 404 sse

=== no JSON
--- send: {"content":
--- packet: 400 sse

=== JSON and something behind it
--- send: {"content":"hi"} hi
--- packet: 400 sse

=== a list
--- send: ["content"]
--- packet: 400 sse

=== no body
--- request
POST /sessions/ses_1/send-message
--- packet: 400 sse

=== no content
--- send: {"text":"hi"}
--- packet: 400 sse

=== content is null
--- send: {"content":null}
--- packet: 400 sse

=== content is a number
--- send: {"content":5}
--- packet: 400 sse

=== text that is not UTF-8
--- send eval: qq({"content":"\xc3\x28"})
--- packet: 400 sse

=== a control byte in a string
--- send eval: qq({"content":"a\x01b"})
--- packet: 400 sse

=== JSON nested without end
--- send eval: '{"content":' . ('[' x 8000)
--- packet: 400 sse

=== wrong method
--- request
GET /sessions/ses_1/send-message
--- packet: 405 sse
--- response_headers_like
Allow: POST

=== wrong method, with a body
--- request
PUT /sessions/ses_1/send-message
{"content":"hi"}
--- packet: 405 sse
--- response_headers_like
Allow: POST

=== wrong content type
--- send: {"content":"hi"}
--- more_headers
Content-Type: text/plain
--- packet: 415 sse

=== no content type
--- request
POST /sessions/ses_1/send-message
{"content":"hi"}
--- more_headers
X-Nothing: here
--- packet: 415 sse

=== a type that only begins like JSON
--- send: {"content":"hi"}
--- more_headers
Content-Type: application/json-seq
--- packet: 415 sse

=== too large
--- send eval: '{"content":"' . ('x' x 20000) . '"}'
--- packet: 413 sse

=== an id without its prefix
--- request
POST /sessions/1/send-message
{"content":"hi"}
--- packet: 40[04]

=== an id with nothing behind the prefix
--- request
POST /sessions/ses_/send-message
{"content":"hi"}
--- packet: 40[04]

=== an id with dots
--- request
POST /sessions/ses_..a/send-message
{"content":"hi"}
--- packet: 40[04]

=== an id with an encoded slash
--- request
POST /sessions/ses_1%2fmessage/send-message
{"content":"hi"}
--- packet: 40[04]

=== an id with an encoded slash, twice encoded
--- request
POST /sessions/ses_1%252f/send-message
{"content":"hi"}
--- packet: 40[04]

=== an id with control bytes
--- request
POST /sessions/ses_1%0d%0aX:%20y/send-message
{"content":"hi"}
--- packet: 40[04]

=== an id with a question mark
--- request
POST /sessions/ses_1%3fdirectory=x/send-message
{"content":"hi"}
--- packet: 40[04]

=== an id of absurd length
--- request eval
"POST /sessions/ses_" . ('a' x 2000) . "/send-message\n{\"content\":\"hi\"}"
--- packet: 40[04]

=== no such route
--- request
POST /sessions/ses_1/sendmessage
{"content":"hi"}
--- packet: 404

=== a route and more
--- request
POST /sessions/ses_1/send-message/x
{"content":"hi"}
--- packet: 404

=== OpenCode down
--- request
POST /down/ses_1/send-message
{"content":"hi"}
--- packet: 502 sse

=== OpenCode too slow
--- request
POST /sessions/ses_slow/send-message
{"content":"hi"}
--- packet: 504 sse

=== OpenCode answers HTML
--- request
POST /sessions/ses_html/send-message
{"content":"hi"}
--- packet: 502 sse

=== OpenCode answers text
--- request
POST /sessions/ses_text/send-message
{"content":"hi"}
--- packet: 502 sse

=== OpenCode answers a list
--- request
POST /sessions/ses_list/send-message
{"content":"hi"}
--- packet: 502 sse

=== OpenCode answers a session without id and directory
--- request
POST /sessions/ses_noid/send-message
{"content":"hi"}
--- packet: 502 sse

=== OpenCode's answer is cut
--- request
POST /sessions/ses_cut/send-message
{"content":"hi"}
--- packet: 502 sse

=== OpenCode closes without an answer
--- request
POST /sessions/ses_drop/send-message
{"content":"hi"}
--- packet: 502 sse

=== OpenCode does not speak HTTP
--- request
POST /sessions/ses_noise/send-message
{"content":"hi"}
--- packet: 502 sse

=== OpenCode fails at the look-up
--- request
POST /sessions/ses_fails/send-message
{"content":"hi"}
--- packet: 50[02] sse

=== OpenCode refuses the prompt
--- request
POST /sessions/ses_p400/send-message
{"content":"hi"}
--- packet: 400 sse

=== OpenCode fails at the prompt
--- request
POST /sessions/ses_p500/send-message
{"content":"hi"}
--- packet: 50[02] sse

=== OpenCode dies at the prompt
--- request
POST /sessions/ses_pdrop/send-message
{"content":"hi"}
--- timeout: 60
--- packet: 502 sse
