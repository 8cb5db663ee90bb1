#!/usr/bin/perl

# The phone of "make run": what somebody writes into its page becomes a turn, and
# typing, progress and the answer appear in the page.
#
# Broken by: a webhook that the phone does not send, an event that the page does
# not get, a request of another origin that is accepted, a picture that the phone
# does not keep for getFile.

use FindBin;
use lib "$FindBin::Bin/lib";

use HTTP::Tiny;

use AgentStream;
use AgentStream::Process qw(free_ports slurp wait_for);

my ($port) = free_ports(1);
my $url = "http://127.0.0.1:$port";
my $http = HTTP::Tiny->new(timeout => 10);

my $t = AgentStream->new(timeout => 60, server => qq{
    location = /telegram {
        agentstream /opencode/;
        agentstream_chat telegram /telegram-api/ secret=telegram-s3cret;
        agentstream_chat_allow 1001;
    }

    location /telegram-api/ {
        internal;
        proxy_pass $url/telegram/bot42:AAtest-token/;
        proxy_http_version 1.1;
    }

    location /telegram-api/file/ {
        internal;
        proxy_pass $url/telegram/file/bot42:AAtest-token/;
        proxy_http_version 1.1;
    }
});

my $phone = AgentStream::Process->start(out => "$t->{dir}/phone.log",
    command => ['node', "$FindBin::Bin/../util/phone.mjs", $port,
                "http://127.0.0.1:$t->{port}"]);

ok(wait_for(sub { slurp("$t->{dir}/phone.log") =~ /^phone: / }, 20), 'started');
like($http->get("$url/")->{content}, qr/<title>Phone</, 'the page');

my $events = AgentStream::Process->start(out => "$t->{dir}/events.log",
    command => ['curl', '-sN', '--noproxy', '*', "$url/events"]);

sub seen {
    my ($regex) = @_;

    return wait_for(sub { slurp("$t->{dir}/events.log") =~ $regex }, 20);
}

ok(seen(qr/^: hello/m), 'the page is connected');

my $say = sub {
    $http->post("$url/say", { headers => { 'Content-Type' => $_[0] },
        content => '{"platform":"telegram","text":"text:30:24:100"}' });
};

is($say->('text/plain')->{status}, 400, 'another page cannot write');

my $res = $say->('application/json');
is($res->{status}, 200, 'said');
like($res->{content}, qr/"status":200/, 'and taken by nginx');

ok(seen(qr/"event":"message".*"text":"text:30:24:100"/), 'what was said');
ok(seen(qr/"event":"typing"/), 'typing');
ok(seen(qr/"bot":true,"silent":true/), 'progress');
ok(seen(qr/"text":"[^"]*#29 [^"]*".*"bot":true,"silent":false/), 'the answer');

# a picture, as the page sends it

$res = $http->post("$url/say", { headers => { 'Content-Type' =>
    'application/json' }, content => '{"platform":"telegram","text":"say:a dot",'
    . '"file":{"name":"dot.gif","mime":"image/gif","photo":true,"base64":'
    . '"R0lGODlhAQABAIAAAP///wAAACwAAAAAAQABAAACAkQBADs="}}' });
like($res->{content}, qr/"status":200/, 'a picture is said');
ok(seen(qr/"text":"say:a dot"[^\n]*"file":"dot.gif"/), 'and seen in the page');
ok(seen(qr/"text":"a dot"/), 'it is answered');
ok(grep({ JSON::PP->new->encode([$_->{body}])
          =~ m{data:image/gif;base64,R0lGODlh} } @{ $t->control('log') }),
   'and the agent has it');

$events->stop();
$phone->stop();

$t->done();
