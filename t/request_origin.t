#!/usr/bin/perl

# A page of another origin cannot change anything unless the browser has asked
# first: a POST or DELETE with the Origin of another host must have the type
# application/json, which no page can send without a preflight; otherwise it is
# 403.  Pages of this host, and clients that send no Origin, are not affected.
#
# Broken by: a route without the check; a comparison that takes a part of the
# host or another port for the same, or a usual port for another; a request
# that was let through to OpenCode before the check.

use FindBin;
use lib "$FindBin::Bin/lib";

use AgentStream;

my $t = AgentStream->new();
my $s = 'ses_a';

# what changes something

my @routes = (
    ['POST', '/sessions'],
    ['DELETE', "/sessions/$s"],
    ['POST', "/sessions/$s/interrupt"],
    ['POST', "/sessions/$s/questions/que_a/reject"],
    ['POST', "/sessions/$s/questions/que_a/reply", '{"answers":[]}'],
    ['POST', "/sessions/$s/permissions/per_a/reply", '{"reply":"once"}'],
    ['POST', "/sessions/$s/send-message", '{"content":"text:1:8:0"}'],
);

for (@routes) {
    my ($method, $path, $body) = @$_;

    for my $type (undef, 'text/plain', 'application/x-www-form-urlencoded',
                  'text/plain; application/json', 'application/jsonp')
    {
        my $c = $t->request($method, $path, body => $body, headers => {
            Origin => 'https://evil.example.com', 'Content-Type' => $type });

        is_error_packet($c->response(), 403,
                        "$method $path, type " . ($type // 'none'));
    }
}

is(scalar($t->upstream()), 0, 'OpenCode hears of none of them');

for (@routes) {
    my ($method, $path, $body) = @$_;

    for my $type ('application/json', 'Application/JSON; charset=utf-8') {
        isnt($t->request($method, $path, body => $body, headers => {
                 Origin => 'https://app.example.com',
                 'Content-Type' => $type })->status(), 403,
             "$method $path, type $type: the browser has asked");
    }
}

# what reads, and what is no route

for (['GET', '/sessions', 200], ['GET', "/sessions/$s/turn", 200],
     ['GET', "/sessions/$s/messages", 200], ['POST', "/sessions/$s/turn", 405],
     ['POST', "/sessions/$s/nothing", 404], ['DELETE', '/sessions/x', 400])
{
    my ($method, $path, $status) = @$_;

    is($t->request($method, $path, headers => { Origin => 'null' })->status(),
       $status, "$method $path");
}

# whose it is

my @same = (
    [undef, 'localhost'],
    ['http://localhost', 'localhost'],
    ['https://localhost', 'localhost'],
    ['http://LocalHost', 'LOCALHOST'],
    ['http://localhost:80', 'localhost'],
    ['http://localhost', 'localhost:80'],
    ['https://localhost', 'localhost:443'],
    ['https://localhost:443', 'localhost'],
    ['http://localhost:8080', 'localhost:8080'],
    ['https://localhost:8080', 'localhost:8080'],
    ['http://127.0.0.1:8080', '127.0.0.1:8080'],
    ['http://[::1]:8080', '[::1]:8080'],
    ['http://[::1]', '[::1]:80'],
    ['https://app.example.com', '127.0.0.1:8080', 'same-origin'],
);

my @foreign = (
    ['null', 'localhost'],
    ['null', 'null'],
    ['', 'localhost'],
    ['localhost', 'localhost'],
    ['//localhost', 'localhost'],
    ['file://localhost', 'localhost'],
    ['http:localhost', 'localhost'],
    ['http://', 'localhost'],
    ['http://localhost.evil.com', 'localhost'],
    ['http://evil.localhost', 'localhost'],
    ['http://local', 'localhost'],
    ['http://localhost@evil.com', 'localhost'],
    ['http://evil.com/localhost', 'localhost'],
    ['http://localhost:8081', 'localhost:8080'],
    ['http://localhost', 'localhost:8080'],
    ['http://localhost:8080', 'localhost'],
    ['http://localhost:180', 'localhost:1'],
    ['http://127.0.0.1', 'localhost'],
    ['http://[::2]', '[::1]'],
    ["http://localhost\r\nOrigin: http://evil.com", 'localhost'],
    ["http://evil.com\r\nOrigin: http://localhost", 'localhost'],
    ['https://app.example.com', '127.0.0.1:8080', 'same-site'],
    ['https://app.example.com', '127.0.0.1:8080', 'cross-site'],
    ['https://app.example.com', '127.0.0.1:8080', 'same-origin-not'],
    ['https://app.example.com', '127.0.0.1:8080', 'none'],
);

for ((map { [@$_[0 .. 2], 200] } @same), (map { [@$_[0 .. 2], 403] } @foreign))
{
    my ($origin, $host, $site, $status) = @$_;
    my $c = $t->request('POST', "/sessions/$s/interrupt", headers => {
        Host => $host, Origin => $origin, 'Sec-Fetch-Site' => $site });

    $origin //= 'none';
    $origin =~ s/\r\n/, /;
    is($c->status(), $status, "from $origin to $host"
       . ($site ? ", which the browser calls $site" : ''));
}

# HTTP/1.0 needs no Host, HTTP/2 has another name for it

is($t->request('POST', "/sessions/$s/interrupt", version => '1.0',
               headers => { Host => undef, Origin => 'http://localhost' })
   ->status(), 403, 'no host');

for (["http://127.0.0.1:$t->{port_h2}", 200], ['http://127.0.0.1:1', 403]) {
    my ($origin, $status) = @$_;
    my $c = AgentStream::Client->curl('--http2-prior-knowledge', '-X', 'POST',
        '-H', "Origin: $origin",
        "http://127.0.0.1:$t->{port_h2}/sessions/$s/interrupt");

    $t->wait([$c]);
    is($c->status(), $status, "HTTP/2: from $origin");
}

$t->done();
