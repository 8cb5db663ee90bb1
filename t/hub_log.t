#!/usr/bin/perl

# Texts from outside are escaped in the error log: a session's directory, a
# client's text, a route.  None of them can begin a new line.
#
# Broken by: a message that is filled in with what OpenCode, a client or a
# variable said, as it is.

use FindBin;
use lib "$FindBin::Bin/lib";

use AgentStream;
use AgentStream::Attach;

my $forged = "/x\r\n2026/01/01 00:00:00 [forged] 1#1: line \"by\" \x1b[2J\x{9b}";

my $t = AgentStream->new(timeout => 60, level => 'info', http => '
    map $uri $tenant { default "a\r\n[forged] line"; }
', server => '
        location /routed {
            agentstream /tenant/;
            agentstream_route $tenant;
        }

        location /tenant/ {
            internal;
            proxy_pass http://127.0.0.1:1/$agentstream_route;
        }');

my $s = $t->session();

# an event stream that fails, and one with nonsense in it

$t->control('config', { sessions => { $s => $forged }, rules => [
    { url => '^/event', status => 500, times => 1 } ] });

is($t->turn($s, 'text:3:16:0')->status(), 502, 'the event stream fails');

$t->control('config', { rules => [] });
my $c = $t->send_message($s, 'text:30:16:50');
hear($t, $c, 2);
$t->control('emit', { raw => "data: nonsense\n\n" });
$t->wait([$c], timeout => 20);
check_turn($c, 'a malformed event');

# a client's words, and a route that is one

$t->request('POST', "/sessions/$s/send-message",
            body => { content => 'x', "\r\n[forged] line" => 1 });
$t->request('GET', '/routed');

my $log = $t->log_text();

is(scalar(grep { !/^\d{4}\/\d\d\/\d\d \d\d:\d\d:\d\d \[\w+\] \d+#\d+: / }
          split /\n/, $log), 0, 'every line is one of nginx')
    or diag(grep { !/^\d{4}\/\d\d\/\d\d / } split /^/, $log);
is(scalar(grep { /^\S+ \S+ \[forged\]/ } split /\n/, $log), 0, 'nothing is forged');
unlike($log, qr/[\x00-\x09\x0b-\x1f\x7f-\xff]/, 'no control characters');
like($log, qr/event stream failed with status 500, directory "\/x\\x0D\\x0A2026/,
     'the directory is told');
like($log, qr/malformed event skipped, directory "\/x\\x0D\\x0A2026/,
     'of events, too');
like($log, qr/\\x22by\\x22 \\x1B\[2J/, 'quotes are escaped');

$t->done();
