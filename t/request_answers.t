#!/usr/bin/perl

# What OpenCode answers to a client's request for sessions is passed on only if
# it is what was asked for: the session of that id, a new one, a list.  Anything
# else is 502.
#
# Broken by: a relay that passes on whatever came with 200; a 204 that becomes
# "null"; an answer of one session that is told as another's.

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

my %get = ('GET' => "/sessions/$s", 'POST' => '/sessions',
           'LIST' => '/sessions', 'DELETE' => "/sessions/$s");

# status line and headers, body; what is passed on for which

my @answers = (
    [ 'the session', '200 OK', $mine, 'GET POST DELETE' ],
    [ 'another session', '200 OK', $other, 'POST DELETE' ],
    [ 'a list', '200 OK', "[$mine]", 'LIST DELETE' ],
    [ 'an empty list', '200 OK', '[]', 'LIST DELETE' ],
    [ 'true', '200 OK', 'true', 'DELETE' ],
    [ 'no id', '200 OK', '{"title":"x"}', 'DELETE' ],
    [ 'an id that is none', '200 OK', '{"id":"../x"}', 'DELETE' ],
    [ 'an id that is no string', '200 OK', '{"id":1}', 'DELETE' ],
    [ 'gzip', "200 OK\r\nContent-Encoding: gzip", $gzip, '' ],
    [ 'HTML', "200 OK\r\nContent-Type: text/html", '<html>', '' ],
    [ 'half of it', '200 OK', substr($mine, 0, 20), '' ],
    [ 'more than it', '200 OK', "$mine$mine", '' ],
    [ 'nothing', "200 OK\r\nContent-Length: 0", '', 'DELETE' ],
    [ 'no content', '204 No Content', '', 'DELETE' ],
    [ 'created', '201 Created', $mine, 'GET POST DELETE' ],
    [ 'a part', "206 Partial Content", substr($mine, 0, 20), '' ],
);

for my $answer (@answers) {
    my ($name, $head, $body, $good) = @$answer;

    $raw->say("HTTP/1.1 $head\r\n\r\n$body");

    for my $what (qw(GET POST LIST DELETE)) {
        my $c = $t->request($what eq 'LIST' ? 'GET' : $what, $get{$what},
                            timeout => 5);

        if ($good =~ /$what/) {
            like($c->status() // 'none', qr/^20[01]$/, "$what, $name: good");
            is($c->body(), length $body ? $body : 'null', "$what, $name: body");

        } else {
            is_error_packet($c->response(), 502, "$what, $name: 502");
            like($c->body() // '', qr/OpenCode's answer makes no sense/,
                 "$what, $name: says why");
        }
    }
}

$t->done();
