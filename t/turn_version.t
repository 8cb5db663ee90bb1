#!/usr/bin/perl

# A session of an OpenCode that is too old is reported once, with the version, in
# the log; its turns run nevertheless.  One that is supported is not reported.
#
# Broken by: a version that is not read, is compared as text (1.9 and 1.14), or is
# reported for each turn.

use FindBin;
use lib "$FindBin::Bin/lib";

use AgentStream;

my $t = AgentStream->new();

check_turn($t->turn(session('1.14.0'), 'text:2:8:0'), 'supported');
check_turn($t->turn(session('1.100.2'), 'text:2:8:0'), 'newer');
unlike($t->log_text(), qr/not supported/, 'nothing is reported');

my $old = session('1.9.12');

check_turn($t->turn($old, 'text:2:8:0'), 'too old') for 1 .. 2;
check_turn($t->turn(session('1.2.27'), 'text:2:8:0'), 'older still');

my @lines = grep { /not supported/ } split /\n/, $t->log_text();

is(scalar @lines, 1, 'reported once');
like($lines[0] // '',
     qr/\[warn\] .* made by OpenCode 1\.9\.12, which .*, session $old$/,
     'with the version');

$t->done();


# a session that was made by this version

sub session {
    my ($version) = @_;
    my $id = $t->session();

    $t->request('POST', '/session', port => $t->{port_opencode},
                body => { id => $id, version => $version });

    return $id;
}
