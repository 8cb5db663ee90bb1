#!/usr/bin/perl

# A small version of bench/held.mjs: 200 turns open at once on two workers;
# every packet is verified, as are latency, memory per turn, and that nothing
# is left.  The full load with its targets is "make test-load".
#
# Broken by: a packet lost, repeated or late between two workers; a reader that
# is woken by its fallback timer only; memory per turn that doubles; a worker
# that keeps a connection of a finished turn.

use strict;
use warnings;

use FindBin;
use Test::More;

plan(skip_all => 'no libcurl headers: apt-get install libcurl4-openssl-dev')
    if system('echo "#include <curl/curl.h>" | cc -E - >/dev/null 2>&1');

# a loaded machine is late, a sanitizer is large; the timer that readers fall
# back to is a second, half of which would be the median

my @limits = $ENV{AGENTSTREAM_ASAN} ? qw(--p50=400 --p99=5000 --kb=1000)
                                    : qw(--p50=250 --p99=3000 --kb=25);

my $held = "$FindBin::Bin/../bench/held.mjs";
my @said = `$held --workers=2 --turns=200 --seconds=3 @limits 2>&1`;

is($?, 0, '200 turns held') or diag(@said);
note(@said);

done_testing();
