#!/usr/bin/perl

# Parts that OpenCode mentions and never announces, in the middle of a turn:
# the client gets its whole text and its end, and the worker does not grow.
#
# Broken by: strangers that are kept until the turn's end (TR_STRANGERS_MAX);
# strangers that are forgotten without asking OpenCode (NGX_AGAIN of
# translate_event()).

use FindBin;
use lib "$FindBin::Bin/lib";

use AgentStream;

my $t = AgentStream->new(timeout => 120);
my $orders = 'text:12:24:2 fault=strangers';

turn('a few', 100);

my $before = peak();

turn('many', 60000);

my $grown = peak() - $before;

note("grown by $grown kB");

SKIP: {
    skip('a sanitized worker keeps what it frees', 1) if $ENV{AGENTSTREAM_ASAN};

    ok($grown < 6000, 'the worker does not grow');
}

$t->done();


sub turn {
    my ($name, $n) = @_;
    my $s = $t->session();
    my $c = $t->turn($s, "$orders strangers=$n");

    check_turn($c, $name);
    check_text($c, $t->messages($s), $name);
    is(packet_json(($c->packets())[-1] // {})->{stopReason}, 'end_turn',
       "$name: ends well");
}


# the most memory that the worker has had, in kilobytes

sub peak {
    my ($worker) = $t->workers();

    open my $fh, '<', "/proc/$worker/status" or die "$worker: $!\n";
    local $/;
    return <$fh> =~ /^VmHWM:\s+(\d+) kB/m ? $1 : 0;
}
