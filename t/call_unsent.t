#!/usr/bin/perl

# A prompt of which not a byte was sent, because it waits for a place or for a
# connection: it never ran, so it is neither looked for nor aborted, because
# the abort would hit somebody else's work.
#
# Broken by: a call that counts as sent before it is; a turn that is aborted,
# or waits for its prompt's end, while the prompt is still here.

use FindBin;
use lib "$FindBin::Bin/lib";

use AgentStream;
use AgentStream::Attach;
use AgentStream::Silent;

my $deaf = AgentStream::Silent->deaf();
my $full = $deaf->port();

my $t = AgentStream->new(timeout => 120, server => "
        location ~ ^/deaf/session/[^/]+/prompt_async\$ {
            internal;
            rewrite ^/deaf/(.*) /\$1 break;
            proxy_pass http://127.0.0.1:$full;
            proxy_connect_timeout 75s;
        }

        location /deaf/ {
            internal;
            proxy_pass http://127.0.0.1:%%port_opencode%%/;
            proxy_read_timeout 1h;
        }

        location /out/ {
            agentstream /deaf/;
        }

        location /short/ {
            agentstream /opencode/;
            agentstream_turn_timeout 2s;
        }");

# it takes half a minute: the rest is done meanwhile

my $lost = $t->session();
my $out = $t->open('POST', "/out/$lost/send-message",
                   body => { content => 'text:3:16:0' });


# ---- all places are taken between the look at the session and the prompt

for my $how ('timeout', 'interrupt') {
    my $s = $t->session();

    $t->control('config', { sessions => { $s => "/workspace/$how" }, rules => [
        { method => 'GET', url => "^/event.*$how", delay => 700, times => 1 },
        { method => 'POST', url => '^/session(\?|$)', hang => 1 },
    ] });

    # connected before, because there is little time
    my @fill = map { AgentStream::Client->open(port => $t->{port}) } 1 .. 64;
    my $fill = $t->http_request('POST', '/sessions', body => {});
    my $c = $t->open('POST', "/short/$s/send-message",
                     body => { content => 'text:3:16:0' });
    ok(wait_for(sub { grep { m!^GET /event.*$how! } $t->upstream() }, 3),
       "$how: subscribes");

    $_->send($fill) for @fill;
    my $begin = time();

    sleep(1.2);

    if ($how eq 'interrupt') {
        my $i = $t->request('POST', "/short/$s/interrupt", timeout => 5);
        is($i->status(), 200, "$how: accepted");
    }

    $t->wait([$c], timeout => 5);
    my $last = ($c->packets())[-1];

    is(packet_json($last // {})->{type} // 'nothing',
       $how eq 'interrupt' ? 'prompt_response' : 'error',
       "$how: the turn ends though its prompt waits");
    cmp_ok(time() - $begin, '<', scaled(4), "$how: at once");

    $_->close() for @fill;
    $t->request('GET', "/sessions/$s");
    sleep(0.3);

    is(join(' ', grep { m!/session/$s/(prompt|abort|message)! } $t->upstream()),
       '', "$how: no prompt, no look-up, no abort");
}


# ---- the connection that is never made

$t->control('config', { rules => [] });
$t->wait([$out], timeout => 60);

is_error_packet($out->response(), 504, 'no connection: 504');
is(packet_json(($out->packets())[-1])->{message},
   'OpenCode does not answer in time', 'no connection: says so');
is(join(' ', grep { m!/session/$lost/! } $t->upstream()), '',
   'no connection: no prompt, no look-up, no abort');

$t->done();
