#!/usr/bin/perl

# The example of docs/access.md for pages of another origin: nginx answers the
# preflight, and the page, which sends application/json with each request, can
# read all responses, including errors.
#
# Broken by: a handler that answers OPTIONS with 405 before nginx can; headers
# of the configuration that are lost on a stream or an error; a page that may
# do nothing although it was allowed to.

use FindBin;
use lib "$FindBin::Bin/lib";

use AgentStream;
use AgentStream::Docs qw(example);

my $t = AgentStream->new(conf => example('access.md', 'cors'));
my $origin = 'https://app.example.com';
my %headers = (Origin => $origin);

my $c = $t->request('OPTIONS', '/sessions/ses_a/send-message', headers => {
    %headers, 'Access-Control-Request-Method' => 'POST',
    'Access-Control-Request-Headers' => 'content-type' });

is($c->status(), 204, 'a preflight');
is($c->header('Access-Control-Allow-Origin'), $origin, 'for this page');
like($c->header('Access-Control-Allow-Methods'), qr/POST/, 'and method');
like($c->header('Access-Control-Allow-Headers'), qr/Content-Type/,
     'and header');

$c = $t->request('OPTIONS', '/sessions/ses_a/send-message',
                 headers => { Origin => 'https://evil.example.com' });
is($c->header('Access-Control-Allow-Origin'), undef, 'for no other page');

$c = $t->turn($t->session(), 'text:3:8:0', headers => \%headers);
check_turn($c, 'a turn');
is($c->header('Access-Control-Allow-Origin'), $origin, 'a turn can be read');

$c = $t->request('GET', '/sessions/ses_a/messages', headers => \%headers);
is($c->header('Access-Control-Allow-Origin'), $origin, 'so can a history');

$c = $t->request('POST', '/sessions/ses_a/interrupt', headers => {
    %headers, 'Content-Type' => 'application/json' });
is($c->status(), 200, 'a request without a body');
is($c->header('Access-Control-Allow-Origin'), $origin, 'can be read, too');

$c = $t->request('POST', '/sessions/ses_a/interrupt', headers => \%headers);
is_error_packet($c->response(), 403, 'one that no preflight was made for');
is($c->header('Access-Control-Allow-Origin'), $origin, 'can be read as well');

$c = $t->request('POST', '/sessions/ses_a/nothing', headers => \%headers);
is_error_packet($c->response(), 404, 'an error');
is($c->header('Access-Control-Allow-Origin'), $origin, 'can be read');

$t->done();
