#!/usr/bin/perl

# What OpenCode answers is passed on only if it is what was asked for: the session
# of that id, a new one, a list of sessions, "true".  Anything else is 502, on every
# route: the location may lead to something that is not OpenCode.
#
# Broken by: a relay that passes on whatever came with 200; a 204 that becomes
# "null"; an answer of one session that is told as another's; a list whose
# elements nobody looks at; a history that blames the connection.

use FindBin;
use lib "$FindBin::Bin/lib";

use AgentStream;
use AgentStream::Raw;
use IO::Compress::Gzip qw(gzip);

my $raw = AgentStream::Raw->new();
my $t = AgentStream->new(timeout => 60, opencode => $raw->port());

my $s = $t->session();
my $mine = qq({"id":"$s","title":"x"});
my $other = '{"id":"ses_000000000000Other000000000","title":"x"}';

gzip(\$mine => \my $gzip);

my %path = (GET => "/sessions/$s", PATCH => "/sessions/$s",
            POST => '/sessions', LIST => '/sessions',
            DELETE => "/sessions/$s");

# status line and headers, body; what is passed on for which

my @answers = (
    [ 'the session', '200 OK', $mine, 'GET PATCH POST' ],
    [ 'another session', '200 OK', $other, 'POST' ],
    [ 'a list', '200 OK', "[$mine]", 'LIST' ],
    [ 'an empty list', '200 OK', '[]', 'LIST' ],
    [ 'a list of something else', '200 OK', qq([$mine,{"a":1}]), '' ],
    [ 'true', '200 OK', 'true', 'DELETE' ],
    [ 'false', '200 OK', 'false', '' ],
    [ 'no id', '200 OK', '{"title":"x"}', '' ],
    [ 'an id that is none', '200 OK', '{"id":"../x"}', '' ],
    [ 'an id that is no string', '200 OK', '{"id":1}', '' ],
    [ 'gzip', "200 OK\r\nContent-Encoding: gzip", $gzip, '' ],
    [ 'HTML', "200 OK\r\nContent-Type: text/html", '<html>', '' ],
    [ 'half of it', '200 OK', substr($mine, 0, 20), '' ],
    [ 'more than it', '200 OK', "$mine$mine", '' ],
    [ 'nothing', "200 OK\r\nContent-Length: 0", '', '' ],
    [ 'no content', '204 No Content', '', '' ],
    [ 'created', '201 Created', $mine, 'GET PATCH POST' ],
    [ 'a part', "206 Partial Content", substr($mine, 0, 20), '' ],
);

for my $answer (@answers) {
    my ($name, $head, $body, $good) = @$answer;

    $raw->say("HTTP/1.1 $head\r\n\r\n$body");

    for my $what (qw(GET PATCH POST LIST DELETE)) {
        my $c = $t->request($what eq 'LIST' ? 'GET' : $what, $path{$what},
                            timeout => 5,
                            body => $what eq 'PATCH' ? { title => 'x' } : undef);

        if ($good =~ /$what/) {
            like($c->status() // 'none', qr/^20[01]$/, "$what, $name: good");
            is($c->body(), $body, "$what, $name: body");

        } else {
            is_error_packet($c->response(), 502, "$what, $name: 502");
            like($c->body() // '', qr/OpenCode's answer makes no sense/,
                 "$what, $name: says why");
        }
    }
}

# the other routes

my @routes = (
    [ 'a turn', POST => '/send-message', { content => 'x' } ],
    [ 'a whole turn', POST => '/send-message', { content => 'x' },
      'application/json' ],
    [ 'events', GET => '/events' ],
    [ 'events of a turn', GET =>
      '/events?last_event_id=msg_000000000000000000000000:1' ],
    [ 'the state of a turn', GET => '/turn' ],
    [ 'history', GET => '/messages', undef, 'application/json' ],
    [ 'history as events', GET => '/messages' ],
    [ 'interrupt', POST => '/interrupt', {} ],
    [ 'reply', POST => '/questions/que_0/reply', { answers => [['x']] } ],
    [ 'reject', POST => '/questions/que_0/reject', {} ],
    [ 'permission', POST => '/permissions/per_0/reply', { reply => 'once' } ],
    [ 'models', GET => 'models' ],
    [ 'agents', GET => 'agents' ],
);

for my $answer ([ 'HTML', '<html></html>' ], [ 'an object', '{"hello":1}' ],
                [ 'true', 'true' ], [ 'null', 'null' ])
{
    my ($name, $body) = @$answer;

    $raw->say("HTTP/1.1 200 OK\r\n\r\n$body");

    for (@routes) {
        my ($route, $method, $rest, $content, $accept) = @$_;
        my $path = '/sessions/' . ($rest =~ m{^/} ? $t->session() : '') . $rest;
        my $c = $t->request($method, $path, body => $content, timeout => 5,
            headers => { Accept => $accept // 'text/event-stream' });

        is($c->status(), 502, "$route, $name: 502");
        like($c->body() // '', qr/OpenCode's answer makes no sense/,
             "$route, $name: says why");
    }
}

$t->done();
