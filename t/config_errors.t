#!/usr/bin/perl

# Configurations that must be refused are refused when nginx starts, with the
# reason and the line; valid ones are accepted.
#
# Broken by: a check left out of a directive's handler or of the merge.

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
);

my $t = AgentStream->new(nginx => 0, opencode => 'none');

for (@good) {
    my ($name, $where, $text) = @$_;
    my ($said, $good) = with($where, $text);

    ok($good, "$name: accepted") or diag($said);
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
