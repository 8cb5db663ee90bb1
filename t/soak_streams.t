#!/usr/bin/perl

# A stream that is open for long grows by nothing: bench/soak.mjs in small.  A turn
# of thousands of packets, a follower across hundreds of turns, keepalive
# comments and heartbeats by the thousand.  All of a day's packets are "make
# test-soak".
#
# Broken by: an allocation from the request's pool per write (16 bytes are
# seen), a buffer or chain link that is not reused, a turn's state that the
# follower keeps, a timer that is set anew without the old one's memory.

use strict;
use warnings;

use FindBin;
use Test::More;

plan(skip_all => 'a sanitized worker keeps what it frees')
    if $ENV{AGENTSTREAM_ASAN};
plan(skip_all => 'no libcurl headers: apt-get install libcurl4-openssl-dev')
    if system('echo "#include <curl/curl.h>" | cc -E - >/dev/null 2>&1');

my @said = `$FindBin::Bin/../bench/soak.mjs --packets=10000 --turns=400 --ticks=5000 --kb=24 2>&1`;

is($?, 0, 'streams that are open for long') or diag(@said);
note(@said);

done_testing();
