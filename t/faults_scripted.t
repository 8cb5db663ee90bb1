#!/usr/bin/perl

# Faults on the scripted OpenCode: a proxy in front of it cuts, stalls and
# corrupts connections.  A random seed chooses the faults, so that a run can be
# repeated.
#
#     FAULT_TURNS=500 FAULT_SEED=7     a long run; see "make test-faults"
#     FAULT_ROOM=12 FAULT_WORKERS=1    only this room of it
#
# Broken by: a turn that is not reconciled after a gap; text sliced by length;
# a prompt that is sent again; a read that is tried only once; a turn without
# an end, or with two.

use FindBin;
use lib "$FindBin::Bin/lib";

use AgentStream;
use AgentStream::Faults;

my $part = defined $ENV{FAULT_TURNS} ? 0.35 : 1;

fault_run('scripted', $_, $part) for fault_workers();

done_testing();
