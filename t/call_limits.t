#!/usr/bin/perl

# Answers of OpenCode that are larger than such an answer can be: an error, never
# a part of the answer as if it were all.  Each kind of call has a limit of its
# own, and many that never end take little; messages are read one by one.
#
# Broken by: a body that is cut off at the limit and passed on with OpenCode's
# own status; a worker that keeps it; one limit for all kinds of calls; all
# messages of a session held at once.

use FindBin;
use lib "$FindBin::Bin/lib";

use AgentStream;
use AgentStream::Attach;
use AgentStream::Process;
use AgentStream::Raw;

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

my @said = $t->log_text() =~ /agentstream call: the answer exceeds (\d+) /g;
is("@said", '16777216 1048576', 'the log tells why');

$t->control('config', { rules => [] });
check_turn($t->turn($s, 'text:3:16:0', timeout => 60), 'then');
ok(wait_for(sub { files($worker) <= $files }, 10), 'no descriptor is left');

SKIP: {
    skip 'a sanitized worker keeps what it frees', 1 if $ENV{AGENTSTREAM_ASAN};
    cmp_ok(rss($worker), '<', 20 * 1024, 'nothing is kept (kB)');
}



# ---- 60 answers that never end

my $raw = AgentStream::Raw->new(endless => 'x' x 65536);
my $port = $raw->port();
my $w = AgentStream->new(timeout => 120, opencode => $port);

$raw->say(qq(HTTP/1.1 200 OK\r\n\r\n{"id":"$s","title":"));
($worker) = $w->workers();

my @endless = map { $w->open('GET', "/sessions/$s") } 1 .. 60;
$w->wait(\@endless, timeout => 60);

is(scalar(grep { $_->status() == 502 } @endless), 60, 'endless sessions: 502');

SKIP: {
    skip 'a sanitized worker needs more', 1 if $ENV{AGENTSTREAM_ASAN};
    my ($peak) = AgentStream::Process::slurp("/proc/$worker/status")
                 =~ /VmHWM:\s+(\d+)/;
    cmp_ok($peak, '<', 200 * 1024, "endless sessions: memory at most (kB)");
    note("peak $peak kB");
}

$w->finish();


# ---- 80 MB of messages, 10,000 of them, when events were lost and for a turn
# ---- that is not kept

$s = $t->session();
check_turn($t->turn($s, 'text:3:16:0'), 'a turn to come back to');
($worker) = $t->workers();

$t->control('config', { rules => [
    { url => "^/session/$s/message", status => 200, repeat => 10000,
      body => '{"info":{"id":"msg_0%d","sessionID":"' . $s . '",'
              . '"role":"user","time":{"created":1}},"parts":[{"type":"text",'
              . '"text":"' . 'x' x 8000 . '"}]}' },
    { url => '^/session/status', status => 200,
      body => qq({"$s":{"type":"busy"}}) },
] });

restart_nginx($t);
($worker) = $t->workers();
$c = events($t, $s);

# the turn is found, its messages are read, and what waits is asked for

ok(wait_for(sub { grep { m!^GET /question! } $t->upstream() }, 30),
   'many messages: all of them are read');
is(scalar(grep { m!/session/$s/message! } $t->upstream()), 2,
   'many messages: to find the turn, and to tell it');

SKIP: {
    skip 'a sanitized worker needs more', 1 if $ENV{AGENTSTREAM_ASAN};
    my ($peak) = AgentStream::Process::slurp("/proc/$worker/status")
                 =~ /VmHWM:\s+(\d+)/;
    cmp_ok($peak, '<', 40 * 1024, 'many messages: memory at most (kB)');
    note("peak $peak kB");
}

$c->close();
$t->done();
