#!/usr/bin/perl

# Turns with a tool output of 30 kB each, on OpenCode itself and with the default
# zone: all end well, and clients that keep up see every packet.  By default a
# few; AGENTSTREAM_TURNS=500 AGENTSTREAM_AT_ONCE=50 does many.
#
# Broken by: a packet without room that fails its turn; a finished turn that is
# evicted before its reader has its end.

use FindBin;
use lib "$FindBin::Bin/lib";

use AgentStream;

my $n = $ENV{AGENTSTREAM_TURNS} // 12;
my $at_once = $ENV{AGENTSTREAM_AT_ONCE} // 12;
my $t = AgentStream->new(opencode => 'real', timeout => 60 + 2 * $n);
my $prompt = join "\n", '!call bash {"command":"yes 0123456789abcde '
    . '| head -n 1860","description":"x"}', '!next', '!say "Done."';
my ($good, $whole, $large) = (0, 0, 0);

for (my $left = $n; $left > 0; $left -= $at_once) {
    my @c = map { $t->send_message($t->create_session(), $prompt) }
            1 .. ($left < $at_once ? $left : $at_once);

    $t->wait(\@c, timeout => 120);

    for my $c (@c) {
        my @packets = map { packet_json($_) } $c->packets();
        my ($output) = sort { $b <=> $a } map { length $_->{data} }
                       $c->packets();

        $good++ if ($packets[-1]{stopReason} // '') eq 'end_turn';
        $whole++ if check_turn($c, 'a turn', quiet => 1);
        $large++ if ($output // 0) > 85_000;
    }
}

my $status = $t->status();

is($good, $n, "$n turns end well");
is($whole, $n, 'all of them whole');
is($large, $n, 'with what the tool said');
is($status->{turns}{failed}, 0, 'none has failed');
is($status->{streams}{resets}, 0, 'nobody had to start again');
note("packets: $status->{packets}{written}, $status->{packets}{bytes} bytes, "
     . "$status->{packets}{dropped} dropped; turns evicted: "
     . $status->{turns}{evicted});

$t->done();
