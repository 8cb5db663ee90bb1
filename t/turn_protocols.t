#!/usr/bin/perl

# The same turn over every protocol nginx speaks.
#
# Broken by: chunked framing for HTTP/1.0, a connection that cannot be used
# again, a second request read into the first, output that only HTTP/1 flushes.

use FindBin;
use lib "$FindBin::Bin/lib";

use AgentStream;

my $t = AgentStream->new(tls => 1);
my $order = 'text:5:24:20';
my $slow = 'text:5:24:150';       # to see that it comes bit by bit
my ($c, $s);

# HTTP/1.0

$s = $t->session();
$c = $t->turn($s, $order, version => '1.0');
check_whole($c, $s, 'HTTP/1.0');
is($c->header('Transfer-Encoding'), undef, 'HTTP/1.0: not chunked');

# HTTP/1.1, one connection for three turns

my @s = map { $t->session() } 1 .. 3;
$c = $t->turn($s[0], $order, keepalive => 1);
check_whole($c, $s[0], 'HTTP/1.1');
is($c->header('Transfer-Encoding'), 'chunked', 'HTTP/1.1: chunked');

for my $n (1, 2) {
    $c->send(message($s[$n]), 1);
    ok($t->wait([$c]), "keepalive: response $n");
    check_whole($c, $s[$n], "keepalive $n", $n);
}

$c->close();

# pipelined: both at once, and an error behind them

@s = map { $t->session() } 1 .. 2;
$c = AgentStream::Client->open(port => $t->{port}, responses => 3,
    request => join '', map { message($_) } @s, 'ses_unknown');
ok($t->wait([$c]), 'pipelined: three responses');
check_whole($c, $s[$_], "pipelined $_", $_) for 0, 1;
is_error_packet($c->response(2), 404, 'pipelined: an error');
$c->close();

# a body in chunks, and one that comes slowly

my $body = qq({"content":"$order"});
my $head = sub {
    my ($session, %headers) = @_;

    return $t->http_request('POST', "/sessions/$session/send-message",
        keepalive => 1,
        headers => { 'Content-Type' => 'application/json', %headers });
};

$s = $t->session();
$c = AgentStream::Client->open(port => $t->{port},
    request => $head->($s, 'Transfer-Encoding', 'chunked'));
$c->send(sprintf "%x\r\n%s\r\n", length $_, $_) for $body =~ /(.{1,9})/g;
$c->send("0\r\n\r\n");
$t->wait([$c]);
check_whole($c, $s, 'chunked body');
$c->close();

$s = $t->session();
$c = AgentStream::Client->open(port => $t->{port},
    request => $head->($s, 'Content-Length', length $body));
for my $piece ($body =~ /(.{1,9})/g) {
    $c->send($piece);
    sleep(0.02);
}
$t->wait([$c]);
check_whole($c, $s, 'slow body');
$c->close();

# HTTP/2 and TLS

for (['HTTP/2', '2', "http://127.0.0.1:$t->{port_h2}",
      '--http2-prior-knowledge'],
     ['TLS', '1.1', "https://127.0.0.1:$t->{port_tls}", '--http1.1'],
     ['TLS with HTTP/2', '2', "https://127.0.0.1:$t->{port_tls}", '--http2'])
{
    my ($name, $version, $base, @args) = @$_;

    $s = $t->session();
    $c = $t->curl_turn($s, $slow, $base, @args);
    ok($t->wait([$c]), "$name: ends");
    check_whole($c, $s, $name);
    is($c->response()->{protocol}, $version, "$name: protocol");

    my @times = map { $_->{time} } $c->packets();
    cmp_ok(($times[-1] // 0) - ($times[1] // 0), '>', 0.06, "$name: streams");

    $c = $t->curl_turn('ses_unknown', $order, $base, @args);
    $t->wait([$c]);
    is_error_packet($c->response(), 404, "$name: an error");
}

$t->done();


sub message {
    my ($session) = @_;

    return $t->http_request($t->message_request($session, $order,
                                                keepalive => 1));
}


sub check_whole {
    my ($client, $session, $name, $n) = @_;
    my $one = bless { responses => [$client->response($n)] }, ref $client;

    check_turn($one, $name);
    check_text($one, $t->messages($session), $name);
}
