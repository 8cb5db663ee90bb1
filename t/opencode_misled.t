#!/usr/bin/perl

# What an operator sees whose internal location is not as it should be, on a real
# OpenCode with a password: every route tells the same, and the table "When
# something does not work" in docs/operations.md has it.
#
# Broken by: a row of that table that is not true; a route that passes on the web
# page which OpenCode sends for paths that it does not know; a status of OpenCode
# that is missing in "details".

use FindBin;
use lib "$FindBin::Bin/lib";

use AgentStream;
use AgentStream::Process qw(free_ports slurp);

my $json = JSON::PP->new->utf8->canonical;
my ($closed) = free_ports(1);
my $opencode = 'proxy_pass http://127.0.0.1:%%port_opencode%%';
my $password = 'proxy_set_header Authorization "Basic b3BlbmNvZGU6c2VjcmV0"';

my %internal = (
    '/sessions' => "$opencode/; $password",
    '/no-slash' => "$opencode; $password",
    '/no-password' => "$opencode/",
    '/wrong-password' => "$opencode/; proxy_set_header Authorization \"Basic eA==\"",
    '/nobody' => "proxy_pass http://127.0.0.1:$closed/",
    '/files' => 'root %%dir%%',
);

my $t = AgentStream->new(opencode => 'real', password => 'secret',
    timeout => 120, conf => $AgentStream::Nginx::HEAD
    . "server { listen 127.0.0.1:%%port%%; location = /_status { stub_status; }\n"
    . join('', map {
        "location $_ { agentstream /opencode$_/; }\n"
        . "location /opencode$_/ { internal; $internal{$_};\n"
        . "proxy_http_version 1.1; proxy_set_header Connection \"\"; }\n"
      } sort keys %internal)
    . "}}\n");

my $s = $json->decode($t->request('POST', '/sessions', body => {})->body())->{id};
my @routes = (
    [ 'a turn', POST => "/$s/send-message", { content => 'x' } ],
    [ 'events', GET => "/$s/events?last_event_id=msg_000000000000000000000000:1" ],
    [ 'a session', GET => "/$s" ],
    [ 'a new session', POST => '', {} ],
    [ 'a new title', PATCH => "/$s", { title => 'x' } ],
    [ 'the sessions', GET => '' ],
    [ 'the history', GET => "/$s/messages" ],
    [ 'the state of a turn', GET => '/ses_0000000000000000Other/turn' ],
    [ 'interrupt', POST => "/$s/interrupt", {} ],
    [ 'an answer', POST => "/$s/questions/que_0/reply", { answers => [['x']] } ],
    [ 'models', GET => '/models' ],
    [ 'agents', GET => '/agents' ],
);
# what each tells, and what the table has

my %told = (
    '/no-slash' => [ "OpenCode's answer makes no sense", undef,
                     '`proxy_pass` has no slash at its end' ],
    '/no-password' => [ 'OpenCode refused the request', 401,
                        'OpenCode has a password' ],
    '/wrong-password' => [ 'OpenCode refused the request', 401, 'a wrong one' ],
    '/nobody' => [ 'OpenCode cannot be reached', 502, 'is not running there' ],
);

my ($table) = slurp("$FindBin::Bin/../docs/operations.md")
    =~ /^## When something does not work\n(.*)/ms;

for my $location (sort keys %told) {
    my ($reason, $status, $advice) = @{ $told{$location} };
    my $row = "502 `$reason`" . (defined $status ? ", `{\"status\":$status}`" : '');

    like($table, qr/^\| \Q$row\E \| [^|]*\Q$advice\E/m, "$location: documented");

    for (@routes) {
        my ($name, $method, $path, $body) = @$_;
        my $c = $t->request($method, "$location$path", body => $body);
        my ($packet) = $c->body() =~ /(\{"type":"error".*?\})\s*\z/s;
        my $told = $json->decode($packet // '{}');

        is($c->status(), 502, "$location, $name: status");
        is($told->{message}, $reason, "$location, $name: reason");
        is(($told->{details} // {})->{status}, $status, "$location, $name: details");
    }
}

# a location that leads to files

for ([ GET => "/$s", 404 ], [ GET => "/$s/messages", 404 ], [ GET => '', 502 ],
     [ POST => '', 502 ])
{
    my ($method, $path, $status) = @$_;

    is($t->request($method, "/files$path")->status(), $status,
       "files: $method /sessions$path");
}

# and one as it should be

for (@routes) {
    my ($name, $method, $path, $body) = @$_;

    isnt($t->request($method, "/sessions$path", body => $body)->status(), 502,
         "$name: works");
}

$t->done();
