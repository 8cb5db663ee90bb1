#!/usr/bin/perl

# Configurations that must be refused are refused when nginx starts, with the
# reason and the line; valid ones are accepted.  What works, but is probably not
# meant, is accepted with a warning, which has the line of "agentstream"; what is
# meant has none.
#
# Broken by: a check left out of a directive's handler, of the merge or of
# module_check; a location that nginx would find for the prefix and module_check
# does not (nested, exact, "^~", regular expressions), or the other way round.

use FindBin;
use lib "$FindBin::Bin/lib";

use AgentStream;

my $internal = 'location /oc/ { internal; proxy_pass http://127.0.0.1:9/; }';

my @bad = (
    ['no idle time', location => 'agentstream_idle_timeout 0;'],
    ['no time', location => 'agentstream_turn_timeout 0;'],
    ['no steps', location => 'agentstream_max_steps 0;'],
    ['no events', location => 'agentstream_event_size 0;'],
    ['no journal', location => 'agentstream_turn_size 0;'],
    ['a regex location', server =>
     "location ~ ^/x { agentstream /oc/; } $internal"],
    ['a regex location around it', server =>
     "location ~ ^/x { location ~ /y { agentstream /oc/; } } $internal"],
    ['a named location', server =>
     "location \@x { agentstream /oc/; } $internal"],
    ['no argument', server => "location /x { agentstream; }"],
    ['two arguments', server => "location /x { agentstream /oc/ on; }"],
    ['a prefix without slash', server => "location /x { agentstream oc/; }"],
    ['an empty prefix', server => 'location /x { agentstream ""; }'],
    ['given twice', server =>
     "location /x { agentstream /oc/; agentstream /oc/; }"],
    ['a chat without agentstream', server =>
     "location /x { agentstream_chat telegram /api/ secret=s; } $internal"],
    ['a chat without a secret', server => "location /x { agentstream /oc/; "
     . "agentstream_chat telegram /api/; } $internal"],
    ['an unknown platform', server => "location /x { agentstream /oc/; "
     . "agentstream_chat icq /api/ secret=s; } $internal"],
    ['a chat prefix without slash', server => "location /x { agentstream /oc/; "
     . "agentstream_chat telegram api secret=s; } $internal"],
    ['an unknown option of a chat', server => "location /x { agentstream /oc/; "
     . "agentstream_chat telegram /api/ secret=s hidden=s; } $internal"],
    ['two secrets', server => "location /x { agentstream /oc/; "
     . "agentstream_chat telegram /api/ secret=s secret=t; } $internal"],
    ['a platform that cannot be polled', server => "location /x { agentstream "
     . "/oc/; agentstream_chat slack /api/ poll; } $internal"],
    ['a poller with variables', server => "location /x { agentstream /oc/; "
     . "agentstream_route \$host; agentstream_chat telegram /api/ poll; }"
     . " $internal"],
    ['two chats', server => "location /x { agentstream /oc/; agentstream_chat "
     . "telegram /api/ secret=s; agentstream_chat telegram /api/ secret=s; }"],
    ['a progress that is neither', http => 'agentstream_chat_progress no;'],
    ['thoughts that are neither', http => 'agentstream_chat_thoughts 1;'],
    ['an interval that is no time', http =>
     'agentstream_chat_edit_interval fast;'],
    ['another one', http => 'agentstream_chat_tool_interval 1x;'],
    ['a heartbeat that is no time', http => 'agentstream_chat_heartbeat often;'],
    ['a picture without size', http => 'agentstream_chat_picture_size large;'],
    ['a timeout that is no time', http => 'agentstream_chat_timeout never;'],
    ['nobody in a list', http => 'agentstream_chat_allow;'],
    ['a server', server => 'agentstream /oc/;'],
    ['http', http => 'agentstream /oc/;'],
    ['a zone that is too small', http => 'agentstream_zone 1k;'],
    ['a zone without size', http => 'agentstream_zone retain=1m;'],
    ['a zone of no size', http => 'agentstream_zone x;'],
    ['a zone retained for what', http => 'agentstream_zone 1m retain=x;'],
    ['a zone and more', http => 'agentstream_zone 1m keep=1m;'],
    ['two zones', http => 'agentstream_zone 1m; agentstream_zone 2m;'],
    ['a zone in a server', server => 'agentstream_zone 1m;'],
    ['no time', location => 'agentstream_keepalive soon;'],
    ['given twice', location =>
     'agentstream_keepalive 1s; agentstream_keepalive 2s;'],
    ['an unknown protocol', location => 'agentstream_protocol mqtt;'],
    ['no field', location => 'agentstream_fields;'],
    ['an unknown field', location => 'agentstream_fields content colour;'],
    ['a field of OpenCode only', location => 'agentstream_fields noReply;'],
    ['a model without provider', location => 'agentstream_model fast;'],
    ['a model of nobody', http => 'agentstream_model /fast;'],
    ['a provider of nothing', server => 'agentstream_model lab/;'],
    ['two models', location => 'agentstream_model a/b; agentstream_model c/d;'],
    ['two agents', location => 'agentstream_agent a; agentstream_agent b;'],
    ['a status with an argument', server =>
     'location /x { agentstream_status on; }'],
    ['a status twice', server =>
     'location /x { agentstream_status; agentstream_status; }'],
    ['a status in a server', server => 'agentstream_status;'],
    ['a status beside the routes', location => 'agentstream_status;'],
    ['routes beside the status', server =>
     "location /x { agentstream_status; agentstream /oc/; } $internal"],
    ['proxy_pass after it', server =>
     'location /x { agentstream /oc/; proxy_pass http://127.0.0.1:9; }'
     . $internal],
    ['proxy_pass before it', server =>
     'location /x { proxy_pass http://127.0.0.1:9; agentstream /oc/; }'
     . $internal],
    ['a prefix without location', server =>
     "location /x { agentstream /code/; } $internal"],
    ['a prefix with an exact location only', server =>
     'location /x { agentstream /code/; }'
     . 'location = /code/ { internal; proxy_pass http://127.0.0.1:9/; }'],
    ['a prefix that leads to itself', server =>
     "location /x { agentstream /x/oc/; } $internal"],
    ['a prefix that leads to another one', server =>
     "location /x { agentstream /y/; } location /y { agentstream /oc/; }"
     . $internal],
    ['a prefix that leads to the status', server =>
     "location /x { agentstream /y/; } location /y/ { agentstream_status; }"],
);

my $open = qr/leads to the location "[^"]+", which is not "internal": clients/;

my @warned = (
    ['not internal', $open, server =>
     'location /x { agentstream /code/; }'
     . 'location /code/ { proxy_pass http://127.0.0.1:9/; }'],
    ['served by /', $open, server =>
     'location /x { agentstream /code/; } location / { root /nowhere; }'],
    ['a regular expression before it', $open, server =>
     "location /x { agentstream /oc/; } $internal"
     . 'location ~ ^/oc/ses { proxy_pass http://127.0.0.1:9; }'],
    ['nested', $open, server => 'location /x { agentstream /oc2/; }'
     . 'location /oc2/ { proxy_pass http://127.0.0.1:9/;'
     . ' location /oc2/event { internal; proxy_pass http://127.0.0.1:9/; } }'],
    ['a turn larger than the zone',
     qr/"agentstream_turn_size" is larger than "agentstream_zone"/,
     http => 'agentstream_zone 1m; agentstream_turn_size 2m;'],
    ['a time for nothing',
     qr/"agentstream_detach_timeout" has no effect without "agentstream_on_/,
     location => 'agentstream_detach_timeout 5s;'],
);

my @good = (
    ['off', server => 'location /x { agentstream off; }'],
    ['an exact location', server =>
     "location = /x { agentstream /oc/; } $internal"],
    ['below /', server =>
     "location /x/y/ { agentstream /oc/; } $internal"],
    ['a zone', http => 'agentstream_zone 1m;'],
    ['a zone that retains', http => 'agentstream_zone 1m retain=5s;'],
    ['a time for all', http => 'agentstream_keepalive 5s;'],
    ['a protocol', location => 'agentstream_protocol packets;'],
    ['fields', location => 'agentstream_fields content model agent system'
     . ' variant tools parts client_request_id title;'],
    ['all fields', http => 'agentstream_fields all;'],
    ['a model', location => 'agentstream_model lab/vendor/fast;'],
    ['a model by variable', location => 'agentstream_model $arg_model;'],
    ['no model, no agent', location =>
     'agentstream_model ""; agentstream_agent "";'],
    ['a status', server => 'location ~ ^/x$ { agentstream_status; }'],
    ['a time for a server', server => 'agentstream_keepalive 500ms;'],
    ['a time to leave', location =>
     'agentstream_detach_timeout 5s; agentstream_on_disconnect abort;'],
    ['a turn as large as the zone', http =>
     'agentstream_zone 1m; agentstream_turn_size 1m;'],
    ['a prefix below the location', server => 'location /x {
        agentstream /x/oc/;
        location /x/oc/ { internal; proxy_pass http://127.0.0.1:9/; } }'],
    ['no regular expressions', server => 'location /x { agentstream /oc2/; }
        location ^~ /oc2/ { internal; proxy_pass http://127.0.0.1:9/; }
        location ~ ^/oc2/ses { proxy_pass http://127.0.0.1:9; }'],
    ['a regular expression', server => 'location /x { agentstream /oc2/; }
        location ~ ^/oc2/ { internal; proxy_pass http://127.0.0.1:9; }'],
    ['nested', server => 'location /x { agentstream /oc2/; }
        location /oc2/ { proxy_pass http://127.0.0.1:9/;
            location /oc2/session/ { internal; proxy_pass http://127.0.0.1:9/; }
        }'],
    ['many locations', server => 'location /x { agentstream /m/; }
        location /m/ { internal; proxy_pass http://127.0.0.1:9/; }'
     . join '', map { "location /m$_ { return 204; } location /$_/m { }" }
                1 .. 40],
    ['a handler in "if"', server => "location /x { agentstream /oc/;
        if (\$arg_x) { proxy_pass http://127.0.0.1:9; } } $internal"],
);

my $t = AgentStream->new(nginx => 0, opencode => 'none');

for (@good) {
    my ($name, $where, $text) = @$_;
    my ($said, $good) = with($where, $text);

    ok($good, "$name: accepted") or diag($said);
    unlike($said, qr/\[warn\]/, "$name: without a warning");
}

for (@warned) {
    my ($name, $warning, $where, $text) = @$_;
    my ($said, $good) = with($where, $text);

    ok($good, "$name: accepted") or diag($said);
    like($said, qr/\[warn\] .*$warning.* in \S+:\d+$/m, "$name: warned")
        or diag($said);
}

for (@bad) {
    my ($name, $where, $text) = @$_;
    my ($said, $good) = with($where, $text);

    ok(!$good, "$name: refused");
    like($said, qr/\[emerg\] (?!dlopen).+ in \S+:\d+$/m, "$name: says why");
}

$t->done();


sub with {
    my ($where, $text) = @_;

    local $t->{$where} = $text;

    return $t->test_conf();
}
