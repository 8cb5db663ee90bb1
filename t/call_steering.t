#!/usr/bin/perl

# A call never leaves its location: no header of OpenCode's answer controls
# nginx, whatever the internal location says about such headers, with any
# module that proxies requests; content that is protected by "internal" and
# "deny all", and locations of other tenants, stay protected.  In other
# locations such headers work as usual.
#
# Broken by: headers that are acted on before the capture filters see them; a
# table of headers that is changed for everybody, or not made anew by a reload;
# an "error_page" of the internal location that is followed.

use FindBin;
use lib "$FindBin::Bin/lib";

use AgentStream;
use AgentStream::Attach;
use AgentStream::Raw;

my $raw = AgentStream::Raw->new();
my $port = $raw->port();

my %pass = (
    proxy => "proxy_pass http://127.0.0.1:$port/;",
    pointed => "proxy_pass http://127.0.0.1:$port/;
                proxy_ignore_headers Cache-Control;
                proxy_pass_header X-Accel-Redirect;",
    uwsgi => "uwsgi_pass 127.0.0.1:$port;",
    scgi => "scgi_pass 127.0.0.1:$port;",
    pages => "proxy_pass http://127.0.0.1:$port/;
              proxy_intercept_errors on;
              error_page 403 404 500 502 = /secret/f;",
);

my $t = AgentStream->new(timeout => 60, server => join('', map { "
        location /$_-s { agentstream /$_/; }
        location /$_/ { internal; $pass{$_} }" } sort keys %pass) . "

        location /secret/ { internal; deny all; return 200 'TOP-SECRET'; }
        location \@secret { return 200 'TOP-SECRET'; }

        location /tenant/ {
            internal;
            proxy_pass http://127.0.0.1:%%port_opencode%%/session/;
        }

        location /plain/ { proxy_pass http://127.0.0.1:$port/; }");

my $s = $t->session();

# they are somebody's, and would be told

$t->control('config', { sessions => { $s => '/TOP-SECRET' } });

for my $round ('', ' after a reload') {

    for my $name (sort keys %pass) {
        for my $header ("X-Accel-Redirect: /secret/f",
                        "X-Accel-Redirect: \@secret",
                        "X-Accel-Redirect: /tenant/$s",
                        "x-accel-redirect: /secret/f",
                        "X-Accel-Limit-Rate: 1",
                        "X-Accel-Buffering: yes",
                        "X-Accel-Expires: 3600",
                        "X-Accel-Charset: utf-7",
                        "Refresh: 0; url=/secret/f",
                        "Location: /secret/f")
        {
            my $body = '{"id":"' . $s . '","title":"' . 'x' x 3000 . '"}';

            $raw->say("HTTP/1.1 200 OK\r\n$header\r\n\r\n$body");
            answers($name, $header, 200, $body, $round);
        }

        for my $status (404, 500) {
            $raw->say("HTTP/1.1 $status No\r\n"
                      . "X-Accel-Redirect: /secret/f\r\n\r\n{}");
            answers($name, "status $status", $status == 404 ? 404 : 502, undef,
                    $round);
        }
    }

    # a location that has nothing to do with it

    $raw->say("HTTP/1.1 200 OK\r\nX-Accel-Redirect: \@secret\r\n\r\nx");
    is($t->request('GET', '/plain/', timeout => 5)->body(), 'TOP-SECRET',
       "others are steered$round");

    $t->reload() if $round eq '';
}

check_turn($t->turn($t->session(), 'text:3:16:0'), 'after all');
$t->done();


sub answers {
    my ($name, $what, $status, $body, $round) = @_;
    my $c = $t->request('GET', "/$name-s/$s", timeout => 5);
    my $got = $c->body() // '';

    is($c->status() // 'none', $status, "$name: $what: $status$round");
    unlike($got, qr/TOP-SECRET/, "$name: $what: nothing of others$round");
    is($got, $body, "$name: $what: the answer itself$round") if defined $body;
}
