#!/usr/bin/perl

# An OpenCode server that is too old is reported once, with its version, in the
# log; its turns run nevertheless.  One that is supported is not reported, not
# even if its sessions were made by an older one, and is not asked for its version
# unless there is such a session.
#
# Broken by: the version of the session instead of the server's; a version that
# is not read, is compared as text (1.9 and 1.14), or is reported or asked for with
# each turn.

use FindBin;
use lib "$FindBin::Bin/lib";

use AgentStream;

my $t = AgentStream->new();

check_turn($t->turn(session('1.14.0'), 'text:2:8:0'), 'supported');
check_turn($t->turn(session('1.100.2'), 'text:2:8:0'), 'newer');
is(asked(), 0, 'not asked for its version');

# a server that was upgraded

check_turn($t->turn(session('1.9.12'), 'text:2:8:0'), 'of an old one')
    for 1 .. 3;
ok(wait_for(sub { asked() == 1 }), 'asked for its version, once');
unlike($t->log_text(), qr/not supported/, 'nothing is reported');

# a server that is replaced by one that is too old, while nginx runs: the first
# session that this one makes tells

$t->finish();
$t = AgentStream->new();

check_turn($t->turn(session('1.18.0'), 'text:2:8:0'), 'before it was replaced');
$t->control('config', { version => '1.9.12' });

check_turn($t->turn(session('1.9.12'), 'text:2:8:0'), 'too old') for 1 .. 2;
check_turn($t->turn(session('1.2.27'), 'text:2:8:0'), 'older still');
ok(wait_for(sub { $t->log_text() =~ /not supported/ }), 'reported');

my @lines = grep { /not supported/ } split /\n/, $t->log_text();

is(scalar @lines, 1, 'reported once');
like($lines[0] // '',
     qr{\[warn\] .* OpenCode 1\.9\.12 is not supported$},
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


# how often the server was asked

sub asked {
    return scalar grep { $_->{url} =~ m{^/global/health} }
                  @{ $t->control('log') };
}
