#!/usr/bin/perl

# An upgrade of the binary (USR2, then QUIT), as docs/operations.md tells it: the
# turn that runs goes on in the old nginx, and its client loses nothing; a client
# that reconnects gets the turn from the new nginx, after a stream_reset, whole;
# the new nginx runs new turns, refuses a prompt to the busy session, and can
# interrupt its turn.
#
# Broken by: sockets or shared memory of the old nginx that the new one takes for
# its own; an old worker that leaves before its turn; a turn of the other nginx
# that is told as if there were none.

use FindBin;
use lib "$FindBin::Bin/lib";

use AgentStream;
use AgentStream::Process qw(slurp);

# nginx starts the other one without what is preloaded
plan(skip_all => 'not with the sanitizers') if $ENV{AGENTSTREAM_ASAN};

my $t = AgentStream->new(timeout => 90, nginx => 0);
my ($new, @pids);

# nginx in the foreground ignores USR2, so this one is a daemon

$t->write_conf();

my $conf = slurp("$t->{dir}/nginx.conf") =~ s/^daemon off;//mr;
CORE::open my $fh, '>', "$t->{dir}/nginx.conf" or die;
print $fh $conf;
close $fh;

END { kill 'TERM', @pids }

{
    local %ENV = (%ENV, %{ $t->nginx_env() // {} });
    is(system($t->nginx_command()), 0, 'nginx');
}

my $master = slurp("$t->{dir}/nginx.pid") + 0;
push @pids, $master;

my ($s, $s2) = map { $t->session() } 1 .. 2;

my $c = $t->send_message($s, 'text:150:8:40');
my $c2 = $t->send_message($s2, 'text:1000:8:20');
$t->wait([$c, $c2], until => sub { $_[0]->packets() > 3 });

my @old = AgentStream::Process::children($master);
is(scalar @old, 1, 'a worker');

kill 'USR2', $master;

ok(wait_for(sub {
    $new = -e "$t->{dir}/nginx.pid.oldbin" && -e "$t->{dir}/nginx.pid"
           && slurp("$t->{dir}/nginx.pid") + 0;
    return $new && $new != $master;
}, 10), 'a second nginx');

push @pids, $new if $new;
ok(wait_for(sub { AgentStream::Process::children($new) == 1 }, 10),
   'and its worker');

kill 'QUIT', $master;

# the old one accepts no more as soon as its worker has heard of it

ok(wait_for(sub { $t->log_text() =~ /gracefully shutting down/ }, 5),
   'the first one is to quit');

my ($id) = map { $_->{id} } ($c->packets())[2];
my $again = $t->open('GET', "/sessions/$s/events",
                     headers => { 'Last-Event-ID' => $id });

my $busy = $t->turn($s, 'text:3:8:0');
is($busy->status(), 409, 'the session is busy');
like($busy->body(), qr/OpenCode works on another prompt/, 'with what');

check_turn($t->turn($t->session(), 'text:5:8:0'), 'a turn in the new one');

is($t->request('POST', "/sessions/$s2/interrupt")->body(),
   '{"interrupted":true}', 'the other turn is interrupted by the new one');

$t->wait([$c, $c2, $again], timeout => 30);

check_turn($c, 'the old client');
is(joined_text($again), joined_text($c),
   'reconnected: the same text');

my @packets = map { packet_json($_) } $again->packets();
is($packets[0]{type}, 'stream_reset', 'reconnected: a reset');
is($packets[-1]{stopReason}, 'end_turn', 'reconnected: to the end');
is(packet_json(($c2->packets())[-1])->{stopReason}, 'cancelled', 'interrupted');

ok(wait_for(sub { !grep { kill 0, $_ } @old, $master }, 10),
   'the old nginx leaves');

kill 'QUIT', $new;
ok(wait_for(sub { !kill 0, $new }, 10), 'the new one leaves, too');
@pids = ();

$t->check_log();
$t->check_sanitizer();
$t->done();
