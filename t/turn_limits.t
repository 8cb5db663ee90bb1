#!/usr/bin/perl

# The limits of a turn: how long it may take, how long it may be silent, how
# many steps it may go.  Each aborts upstream and ends the turn with an error
# that says which limit it was; a heartbeat tells that it is still watched.
#
# Broken by: a timer that is not set or that an event does not renew; an abort
# that is not sent, or sent before there is a turn upstream; a limit that ends
# the turn without an error.

use FindBin;
use lib "$FindBin::Bin/lib";

use AgentStream;

my $t = AgentStream->new(server => join "\n", map { qq{
    location /$_->[0] {
        agentstream /opencode/;
        $_->[1]
    }
} } (
    [ idle => 'agentstream_idle_timeout 400ms;' ],
    [ turn => 'agentstream_turn_timeout 700ms;' ],
    [ steps => 'agentstream_max_steps 2;' ],
    [ enough => 'agentstream_max_steps 3;' ],
    [ beat => 'agentstream_heartbeat 200ms;' ],
));


sub limited {
    my ($where, $prompt) = @_;
    my $s = $t->session();
    my $c = $t->open('POST', "/$where/$s/send-message",
                     body => { content => $prompt });

    $t->wait([$c], timeout => 20);

    my @aborts = grep { $_->{url} =~ m{/session/$s/abort} }
                 @{ $t->control('log') };

    return ($c, packet_json(($c->packets())[-1]), scalar @aborts);
}


# silence, which each event ends

my ($c, $last, $aborts) = limited('idle', 'text:10:8:1500');

is($last->{type}, 'error', 'silent: an error');
is($last->{code}, 504, 'silent: 504');
like($last->{message}, qr/agentstream_idle_timeout/, 'silent: which limit');
is($aborts, 1, 'silent: aborted upstream');
check_turn($c, 'silent');

($c, $last, $aborts) = limited('idle', 'text:10:8:150');

is($last->{stopReason}, 'end_turn', 'each event renews the time');
is($aborts, 0, 'nothing aborted');

# the whole turn

($c, $last, $aborts) = limited('turn', 'text:100:8:100');

is($last->{code}, 504, 'long: 504');
like($last->{message}, qr/agentstream_turn_timeout/, 'long: which limit');
is($aborts, 1, 'long: aborted upstream');
check_turn($c, 'long');

# steps: this one takes four

($c, $last, $aborts) = limited('steps', 'replay:tools-sequence');

is($last->{type}, 'error', 'too many steps: an error');
like($last->{message}, qr/agentstream_max_steps/, 'too many: which limit');
is($aborts, 1, 'too many: aborted upstream');

($c, $last, $aborts) = limited('enough', 'replay:text-plain');

is($last->{stopReason}, 'end_turn', 'few steps are fine');

# heartbeats

($c, $last, $aborts) = limited('beat', 'text:2:8:900');

my @beats = grep { $_->{type} eq 'heartbeat' }
            map { packet_json($_) } $c->packets();

cmp_ok(scalar @beats, '>=', 3, 'heartbeats while nothing is heard');
cmp_ok($beats[-1]{silentMs}, '>=', 200, 'how long it was silent');
cmp_ok($beats[-1]{elapsedMs}, '>=', $beats[-1]{silentMs}, 'how long it runs');
is($last->{stopReason}, 'end_turn', 'and it goes on');
check_turn($c, 'heartbeats');

$t->done();
