#!/usr/bin/perl

# A worker that dies between a turn's terminal packet and its end, and nobody
# asks for the turn: after "retain" the turn is ended as what it is, without a
# second terminal packet.
#
# Broken by: an orphan that is ended whatever its last packet is
# (turn_last_word()).

use FindBin;
use lib "$FindBin::Bin/lib";

use AgentStream;
use AgentStream::Attach;
use AgentStream::Process qw(slurp);

# only a debugger can stop a worker at that point

plan(skip_all => 'no gdb') if system('gdb --version >/dev/null 2>&1');

my $t = AgentStream->new(attach(timeout => 60, workers => 1,
    http => 'agentstream_zone 1m retain=2s;'));
my ($worker) = $t->workers();
my $out = "$t->{dir}/gdb.out";
my $gdb = AgentStream::Process->start(out => $out, command => ['gdb', '-q',
    '-batch', '-p', $worker, '-ex', 'break ngx_http_agentstream_turn_end',
    '-ex', 'continue', '-ex', 'kill']);

if (!wait_for(sub { slurp($out) =~ /^Breakpoint 1 at/m },
              15))
{
    $gdb->stop('TERM', 2);
    plan(skip_all => 'gdb cannot attach to a worker');
}

my $s = $t->session();
my $c = $t->send_message($s, 'text:3:24:20');

$t->wait([$c], timeout => 10);
isnt($c->ended() // 'cut', 'clean', 'the worker dies');

my $turn;
ok(wait_for(sub { $turn = eval { turn_state($t, $s) };
                  $turn && defined $turn->{turnId} && !$turn->{running} }, 15),
   'the turn is ended');
is($turn->{stopReason}, 'end_turn', 'as it was going to');

my $d = $t->request(events_of($s));
check_turn($d, 'the turn');
is((types($d->packets()))[-1], 'prompt_response', 'a good end');

$t->{expected} = qr/process $worker|locked by $worker/;
done_killed($t);
