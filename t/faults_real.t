#!/usr/bin/perl

# The same faults between nginx and OpenCode itself.  For the settings, and for
# what breaks it, see t/faults_scripted.t.

use FindBin;
use lib "$FindBin::Bin/lib";

use AgentStream;
use AgentStream::Faults;

my $part = defined $ENV{FAULT_TURNS} ? 0.15 : 1;

fault_run('real', $_, $part) for fault_workers();

done_testing();
