#!/usr/bin/perl

# The limits of a turn: how long it may take, how long it may be silent, how
# many steps it may have.  Each limit aborts the turn in OpenCode and ends it
# with an error that names the limit; a heartbeat shows that the turn is still
# watched.
#
# Broken by: a timer that is not set or that an event does not renew; an abort
# that is not sent, or sent before there is a turn upstream; a limit that ends
# the turn without an error; a subagent's events that do not count; a prompt
# that no event follows and that nobody asks after, or too early, or not once.

use FindBin;
use lib "$FindBin::Bin/lib";

use Time::Piece;

use AgentStream;

my $t = AgentStream->new(server => join "\n", map { qq{
    location /$_->[0] {
        agentstream /opencode/;
        $_->[1]
    }
} } (
    [ idle => 'agentstream_idle_timeout 1500ms;' ],
    [ child => 'agentstream_idle_timeout 2s;' ],
    [ deaf => 'agentstream_idle_timeout 10500ms;' ],
    [ turn => 'agentstream_turn_timeout 700ms;' ],
    [ steps => 'agentstream_max_steps 2;' ],
    [ enough => 'agentstream_max_steps 3;' ],
    [ beat => 'agentstream_heartbeat 200ms;' ],
));


sub begin {
    my ($where, $prompt, $s) = @_;
    $s //= $t->session();

    return ($s, $t->open('POST', "/$where/$s/send-message",
                         body => { content => $prompt }));
}


sub ended {
    my ($s, $c) = @_;

    $t->wait([$c], timeout => 20);

    my @aborts = grep { $_->{url} =~ m{/session/$s/abort} }
                 @{ $t->control('log') };

    return ($c, packet_json(($c->packets())[-1]), scalar @aborts);
}


sub limited {
    return ended(begin(@_));
}


# these take long, and run while the others do

my ($deaf, $stuck) = map { $t->session() } 1, 2;
$t->control('config', { mute => '/workspace/mute', sessions => {
    map { $_ => '/workspace/mute' } $deaf, $stuck } });
my @deaf = begin('sessions', 'text:12:8:1000', $deaf);
my @stuck = begin('deaf', 'text:30:8:1000', $stuck);
my @child = begin('child', 'replay:task-one delay=100');

# silence, which each event ends

my ($c, $last, $aborts) = limited('idle', 'text:10:8:4000');

is($last->{type}, 'error', 'silent: an error');
is($last->{code}, 504, 'silent: 504');
like($last->{message}, qr/agentstream_idle_timeout/, 'silent: which limit');
is($aborts, 1, 'silent: aborted upstream');
check_turn($c, 'silent');

($c, $last, $aborts) = limited('idle', 'text:10:8:300');

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

# While its subagent speaks, for 4 seconds, the session itself says nothing.
# Broken by: heard_at set in turn_event() only for events of turn->session.

($c, $last, $aborts) = ended(@child);

my @root = map { Time::Piece->strptime($_->{timestamp} =~ s/\..*//r,
                                       '%Y-%m-%dT%H:%M:%S')->epoch }
           grep { !$_->{_meta}{sessionId} }
           map { packet_json($_) } $c->packets();
my ($silent) = sort { $b <=> $a } map { $root[$_] - $root[$_ - 1] } 1 .. $#root;

cmp_ok($silent, '>', 3, 'subagent: longer silent than it may be');
is($last->{stopReason}, 'end_turn', 'subagent: its events renew the time');
is($aborts, 0, 'subagent: nothing aborted');
check_turn($c, 'subagent');

# A prompt that was accepted, and then no event at all: after ten seconds, and
# before the stream counts as dead, OpenCode is asked, and as long as it works on
# the turn it is asked again, and has it all in the end.
# Broken by: poll_at not set in turn_accepted(), or TURN_FIRST 1000; no poll in
# turn_reconciled() while it is busy and nothing was heard.

($c, $last) = ended(@deaf);

my ($prompt) = grep { $_->{url} =~ m{/session/$deaf/prompt_async} }
               @{ $t->control('log') };
my @asked = grep { $_->{method} eq 'GET' && $_->{time} > $prompt->{time}
                   && $_->{url} =~ /$deaf|status\?directory=%2Fworkspace%2Fmute/ }
            @{ $t->control('log') };

is($last->{stopReason}, 'end_turn', 'no event: it ends well');
like(join(' ', map { $_->{url} =~ s/\?.*//r } @asked),
     qr{^(/session/status ){2,8}/session/$deaf/message$},
     'no event: asked until it is idle');
cmp_ok($asked[0]{time} - $prompt->{time}, '>', 9.5, 'no event: not at once');
cmp_ok($asked[0]{time} - $prompt->{time}, '<', 20, 'no event: soon enough');
cmp_ok($asked[-1]{time} - $prompt->{time}, '<', 22, 'no event: and again');
check_text($c, $t->messages($deaf), 'no event');
check_turn($c, 'no event');

# That OpenCode says it works on it is not an event: the idle timeout ends it.
# Broken by: heard_at renewed in turn_reconciled() though nothing was heard.

($c, $last, $aborts) = ended(@stuck);
is($last->{code}, 504, 'no event, for too long: ended');
is($aborts, 1, 'no event, for too long: aborted');
cmp_ok(($c->packets())[-1]{time} - ($c->packets())[0]{time}, '<', 18,
       'no event, for too long: in time');

$t->done();
