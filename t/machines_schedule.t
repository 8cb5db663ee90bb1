#!/usr/bin/perl

# Turns on three machines while a seeded schedule of faults runs: machines are
# lost, cut off from Redis, from OpenCode, or from both without a word, workers
# are stopped for longer than their lease or killed, Redis is stopped, killed,
# emptied and full, and the clock of one machine is ten minutes ahead.  What
# all clients have received is checked (AgentStream/MachinesRun.pm).
#
# Broken by: anything that t/machines_broken.t breaks; a reader that hangs; a
# prompt that is sent twice.  A short run is a part of "make test"; "make
# test-machines" runs MACHINES_TURNS turns (300) with MACHINES_SEED (1), and as
# many with a real OpenCode (MACHINES_REAL).

use FindBin;
use lib "$FindBin::Bin/lib";

use AgentStream;
use AgentStream::Attach;
use AgentStream::Machines;
use AgentStream::MachinesRun;

my $long = $ENV{AGENTSTREAM_MACHINES};
my $seed = $ENV{MACHINES_SEED} // 1;
my $real = $ENV{MACHINES_REAL};
my $turns = $ENV{MACHINES_TURNS} // ($long ? 300 : 30);

my $m = AgentStream::Machines->new(3, networks => 1, clocks => 1,
    workers => 2,
    timeout => $long ? 1500 : 120, redis => { appendonly => 'yes' },
    $real ? (opencode => 'real') : ());
my ($x) = $m->machines();

$m->clock($x, 600, 0);

my $run = AgentStream::MachinesRun->new(
    machines => $m, seed => $seed, turns => $turns,
    places => $real ? 5 : $long ? 12 : 10,
    session => sub { $real ? $x->create_session() : $x->session() },
    prompt => sub { $real ? "n=$_[0]\n!pace 60\n!say \"" . 'word ' x 40 . '"'
                          : 'text:' . (10 + int rand 30) . ":24:80 n=$_[0]" },
    faults => [$long ? qw(lost network noredis noopencode worker killed stopped
                          restarted emptied full)
                     : qw(lost network noredis killed emptied)],
    sent => $real ? undef : \&sent);

my $begun = time();
$run->run();
my @wrong = $run->check();
my $counts = $run->{counts};

ok(!@wrong, "seed $seed: what must be true is true")
    or diag(join "\n", @wrong[0 .. ($#wrong < 19 ? $#wrong : 19)]);
is(scalar(@{ $run->{done} }), $turns, "seed $seed: all turns have ended");
cmp_ok($counts->{errors} // 0, '<', $counts->{clients} / 5,
       "seed $seed: most of them well");
note(sprintf '%s: %d turns, %.0f s, %s', $real ? 'real' : 'scripted', $turns,
     time() - $begun, join ', ', map { "$_ $counts->{$_}" } sort keys %$counts);

$m->clock($x, 0, 0);
$m->done();


# each prompt once, and none before the one before was answered

sub sent {
    my (%sent, @bad);

    for my $r (@{ $x->control('log') }) {
        next unless $r->{url} =~ m{/prompt_async};
        my ($n) = ($r->{body} // '') =~ /n=(\d+)/ or next;

        push @bad, "prompt $n was sent twice" if $sent{$n}++;
    }

    my $overlaps = $x->control('stats')->{overlaps};

    push @bad, "$overlaps prompts while their session was working"
        if $overlaps;

    return @bad;
}
