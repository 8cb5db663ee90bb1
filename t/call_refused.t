#!/usr/bin/perl

# OpenCode's own status is in the "details" of every error that it causes, and in
# the error log at the level "error", whichever route was asked: an operator whose
# password for OpenCode is wrong must be able to see that.
#
# Broken by: a route that drops the status; a line of the log that tells only
# what the client got; the line of the call left out, or logged at "info".

use FindBin;
use lib "$FindBin::Bin/lib";

use AgentStream;
use JSON::PP;

my $t = AgentStream->new(level => 'error');
my $s = $t->session();
my $other = $t->session();
my $json = JSON::PP->new->utf8;

# every call is refused

$t->control('config', { rules => [{ url => '.', status => 401 }] });

my @routes = (
    ['send-message', POST => "/sessions/$s/send-message", { content => 'x' }],
    ['send-message, whole', POST => "/sessions/$s/send-message",
     { content => 'x' }, 'application/json'],
    ['events', GET => "/sessions/$other/events"],
    ['events of a turn', GET =>
     "/sessions/$other/events?last_event_id=msg_000000000000000000000000:1"],
    ['messages', GET => "/sessions/$s/messages"],
    ['sessions', GET => '/sessions'],
    ['a session', GET => "/sessions/$s"],
    ['a new session', POST => '/sessions', {}],
    ['deletion', DELETE => "/sessions/$s"],
    ['interrupt', POST => "/sessions/$s/interrupt", {}],
    ['an answer', POST => "/sessions/$s/questions/que_0/reply",
     { answers => [['x']] }],
);

for (@routes) {
    my ($name, $method, $path, $body, $accept) = @$_;
    my $before = length $t->log_text();
    my $c = $t->request($method, $path, body => $body, timeout => 15,
        headers => { Accept => $accept // 'text/event-stream' });
    my ($packet) = $c->body() =~ /(\{"type":"error".*?\})(?:\n|\]|\z)/;

    is($c->status(), 502, "$name: 502") or diag($c->body());
    is_deeply($json->decode($packet // '{}')->{details}, { status => 401 },
              "$name: the details") or diag($c->body());

    my $log = substr $t->log_text(), $before;

    like($log, qr/call: OpenCode answered with status 401 .*call: "\/opencode/,
         "$name: the line of the call");
    like($log, qr/failed with|refused with/, "$name: the line of the request");
    is(scalar(grep { /(?:failed|refused) with/ && !/"status":401/ }
              split /\n/, $log), 0, "$name: which has the status");
}

# only the event stream is refused

$t->control('config', { rules => [{ url => '^/event', status => 401 }] });

my $c = $t->turn($t->session(), 'text:3:8:0');
my ($packet) = $c->body() =~ /(\{"type":"error".*?\})(?:\n|\z)/;

is_deeply($json->decode($packet // '{}')->{details}, { status => 401 },
          'the event stream: the details');
like($t->log_text(), qr/turn: failed with 502 \(.*\) \{"status":401\}/,
     'the event stream: the line of the turn');

# that a session does not exist is no matter for the operator

my $before = length $t->log_text();
$t->control('config', { strict => \1, rules => [] });
is($t->request('GET', "/sessions/$s")->status(), 404, 'not found');
is(substr($t->log_text(), $before), '', 'not found: nothing is logged');

$t->done();
