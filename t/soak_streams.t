#!/usr/bin/perl

# A stream that is open for a long time does not grow: a small version of
# bench/soak.mjs.  A turn of thousands of packets, a follower across hundreds
# of turns, thousands of keepalive comments and heartbeats.  "make test-soak"
# sends all the packets of a day.
#
# Broken by: an allocation from the request's pool per write (16 bytes are
# seen), a buffer or chain link that is not reused, a turn's state that the
# follower keeps, a timer that is set anew without the old one's memory.

use strict;
use warnings;

use FindBin;
use Test::More;

plan(skip_all => 'no libcurl headers: apt-get install libcurl4-openssl-dev')
    if system('echo "#include <curl/curl.h>" | cc -E - >/dev/null 2>&1');

# a sanitized worker keeps what it frees: its memory says nothing, but the
# streams are still to be whole

my $limits = $ENV{AGENTSTREAM_ASAN}
             ? '--packets=2000 --turns=100 --ticks=1000 --kb=1000000'
             : '--packets=10000 --turns=400 --ticks=5000 --kb=24';
my @said = `$FindBin::Bin/../bench/soak.mjs $limits 2>&1`;

is($?, 0, 'streams that are open for long') or diag(@said);
note(@said);

done_testing();
