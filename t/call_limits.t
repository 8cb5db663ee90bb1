#!/usr/bin/perl

# Answers of OpenCode that are larger than a call takes, 64 MB: an error, never
# a part of the answer as if it were all.
#
# Broken by: a body that is cut off at the limit and passed on with OpenCode's
# own status; a worker that keeps it.

use FindBin;
use lib "$FindBin::Bin/lib";

use AgentStream;
use AgentStream::Attach;

my $t = AgentStream->new(timeout => 120);
my ($worker) = $t->workers();
my $s = $t->session();

check_turn($t->turn($t->session(), 'text:3:16:0'), 'before all');
my $files = files($worker);

my %huge = (status => 200, body => '"%d' . 'x' x 10000 . '"', repeat => 6800);

$t->control('config', { rules => [
    { method => 'GET', url => '^/session(\?|$)', %huge },
    { method => 'GET', url => "^/session/$s", %huge },
] });

my $c = $t->request('GET', '/sessions', timeout => 60);
is_error_packet($c->response(), 502, 'a list: 502');

$c = $t->turn($s, 'text:3:16:0', timeout => 60);
is_error_packet($c->response(), 502, 'a session: 502');
is(prompts($t, $s), 0, 'a session: no prompt');

my @said = $t->log_text() =~ /agentstream call: the answer exceeds 67108864 /g;
is(scalar @said, 2, 'the log tells why');

$t->control('config', { rules => [] });
check_turn($t->turn($s, 'text:3:16:0', timeout => 60), 'then');
ok(wait_for(sub { files($worker) <= $files }, 10), 'no descriptor is left');

SKIP: {
    skip 'a sanitized worker keeps what it frees', 1 if $ENV{AGENTSTREAM_ASAN};
    cmp_ok(rss($worker), '<', 20 * 1024, 'nothing is kept (kB)');
}

$t->done();
