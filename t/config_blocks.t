#!/usr/bin/perl

# "limit_except" and "if" in a location with "agentstream" or
# "agentstream_status": what they say applies, and the location serves its
# routes as it does without them.  What has a handler of its own in such a
# block keeps it, and a nested location has none.
#
# Broken by: a merge that does not give these nameless locations the handler,
# the prefix, the server or the limit of bodies of the location around them.

use FindBin;
use lib "$FindBin::Bin/lib";

use AgentStream;

my $t = AgentStream->new(location => '
            agentstream_packets core;
            client_max_body_size 4k;

            limit_except GET {
                deny 192.0.2.1;
                allow all;
            }',
    server => '
        location /closed {
            agentstream /opencode/;

            limit_except GET {
                deny all;
            }
        }

        location / {
            agentstream /opencode/;
            agentstream_packets core;
            client_max_body_size 4k;
            root %%dir%%;

            if ($arg_x) {
                set $seen "x is $arg_x";
                add_header X-Seen $seen always;
            }

            if ($arg_other) {
                proxy_pass http://127.0.0.1:%%port_opencode%%;
            }

            location /nested {
                default_type text/plain;
            }
        }

        location /both {
            agentstream /opencode/;
            set $two "";

            if ($arg_x) {
                set $two "x";
            }

            if ($arg_y) {
                set $two "${two}y";
                add_header X-Two $two;
            }

            limit_except GET POST {
                deny all;
            }
        }

        location = /status {
            agentstream_status;

            if ($arg_x) {
                add_header X-Seen yes;
            }

            limit_except GET {
                allow all;
            }
        }');

# limit_except

my $s = $t->session();
my $c = $t->turn($s, 'text:5:8:0');

my $core = qr/^(agent_message_chunk )+prompt_response$/;

like(join(' ', types($c->packets())), $core,
     'limit_except: a turn, as the location says');

is($t->request('GET', "/sessions/$s/turn")->status(), 200,
   'limit_except: the method that is excepted');
my $again = $t->request('GET', "/sessions/$s/events");
is(scalar($again->packets()), scalar($c->packets()),
   'limit_except: the same turn');
is($t->request('DELETE', "/sessions/$s")->status(), 200,
   'limit_except: another method');

$c = $t->turn($t->session(), 'x' x 5000);
is_error_packet($c->response(), 413, 'limit_except: the limit of bodies');

$c = $t->request('POST', "/closed/$s/interrupt");
is($c->status(), 403, 'limit_except: denied');
unlike($c->body(), qr/"type":"error"/, 'limit_except: by nginx');
is($t->request('GET', "/closed/$s/turn")->status(), 200,
   'limit_except: not denied');

# if

for ('', '?x=1') {
    $s = $t->session();
    $c = $t->turn($s, 'text:5:8:0', path => "/$s/send-message$_");

    like(join(' ', types($c->packets())), $core,
         "if $_: a turn, as the location says");
    is($c->header('X-Seen'), $_ ? 'x is 1' : undef, "if $_: what it says");

    like($t->request('GET', "/$s/turn$_")->body(), qr/"running":false/,
         "if $_: the same turn");

    $c = $t->turn($s, 'x' x 5000, path => "/$s/send-message$_");
    is_error_packet($c->response(), 413, "if $_: the limit of bodies");

    $c = $t->request('GET', "/$s/nothing$_");
    is_error_packet($c->response(), 404, "if $_: no such route");
}

like($t->request('GET', "/session/$s?other=1")->body(), qr/"directory"/,
     'if: a handler of its own');

$c = $t->request('GET', "/nested/$s/turn");
is($c->status(), 404, 'a nested location');
unlike($c->body(), qr/"type":"error"/, 'a nested location: not a route');

# both

$c = $t->request('POST', "/both/$s/interrupt?x=1&y=1");
is($c->body(), '{"interrupted":false}', 'both: a route');
is($c->header('X-Two'), 'xy', 'both: what they say');

# the status

for ('', '?x=1') {
    like($t->request('GET', "/status$_")->body(), qr/"turns":/, "status $_");
}

is($t->request('GET', '/status?x=1')->header('X-Seen'), 'yes',
   'status: what "if" says');
is($t->request('POST', '/status')->status(), 405,
   'status: in limit_except, too');

$t->done();
