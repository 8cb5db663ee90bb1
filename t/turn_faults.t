#!/usr/bin/perl

# A very unreliable event stream: events lost, repeated, late, early, in
# disorder, or no events at all.  The client gets one complete turn, with the
# text that OpenCode stored.
#
# Broken by: what comes after a gap told before what was missed in it, or
# ending the turn; a gap that lasts until it is known what waits for an answer;
# text from deltas alone; a delta dropped or guessed because
# its part is not known yet; a subagent whose messages could not be read counted
# as read; any idle that ends the turn; an event that is not
# JSON, or too large, that ends the stream.

use FindBin;
use lib "$FindBin::Bin/lib";

use AgentStream;

my $t = AgentStream->new(timeout => 120,
    location => 'agentstream_event_size 1m;');

# name => on what it acts

my %fault = (
    nodeltas => 'no deltas, only snapshots',
    lostdelta => 'every other delta lost',
    deltafirst => 'a delta before its part',
    deltaorphan => 'a delta before its message',
    wrongfinal => 'another text in the end',
    dupevents => 'everything twice',
    dupidle => 'idle twice',
    staleidle => 'an idle before it begins',
    lateidle => 'an idle after the end',
    badjson => 'an event that is not JSON',
    badutf8 => 'an event that is not UTF-8',
    giant => 'an event that is too large',
    lostmessage => 'a whole message lost',
);

for my $fault (sort keys %fault) {
    for my $order ('text:12:24:2', 'replay:text-interleaved',
                   'replay:tools-sequence')
    {
        my $name = "$fault{$fault}, $order";
        my $s = $t->session();

        for my $n (1, 2) {
            my $c = $t->turn($s, "$order fault=$fault");

            check_turn($c, "$name, turn $n");
            check_text($c, $t->messages($s), "$name, turn $n");
            is(packet_json(($c->packets())[-1] // {})->{stopReason},
               'end_turn', "$name, turn $n: ends well");
        }
    }
}

# answers to questions about a message that are late, or old when they come

for my $how (qw(delay late)) {
    $t->control('config', { rules => [
        { method => 'GET', url => '/message/msg_', $how => 40 }] });

    for my $fault (qw(deltafirst deltaorphan)) {
        for my $ms (0, 2, 10) {
            my $s = $t->session();
            my $c = $t->turn($s,
                "replay:tools-sequence delay=$ms fault=$fault");
            my $name = "$fault{$fault}, answer $how, delay $ms";

            check_turn($c, $name);
            check_text($c, $t->messages($s), $name);
        }
    }
}

$t->control('config', { rules => [] });

# a gap, and the first reads after it fail

for my $rule ({ url => '/session/status', status => 200, body => '[[[' },
              { url => '/message', drop => 1 })
{
    $t->control('config', { rules => [{ method => 'GET', times => 1,
                                        %$rule }] });

    my $s = $t->session();
    my $c = $t->turn($s, 'replay:tools-sequence fault=lostmessage');

    check_turn($c, "a gap, $rule->{url} fails");
    check_text($c, $t->messages($s), "a gap, $rule->{url} fails");
}

$t->control('config', { rules => [] });

# a gap, and what waits for an answer cannot be read: the turn goes on, and it
# is asked for again

$t->control('config', { rules => [{ url => '^/(question|permission)',
                                    status => 500 }] });

my $s = $t->session();
my $c = $t->send_message($s, 'replay:tools-sequence delay=150');

$t->wait([$c], until => sub { $_[0]->packets() > 5 });
$t->control('close', {});

my $heard = $c->packets();

$t->wait([$c], timeout => 40);

my @packets = $c->packets();
my $clumps = grep { $packets[$_]{time} - $packets[$_ - 1]{time} < 0.02 }
             $heard + 1 .. $#packets;

cmp_ok($clumps, '<', (@packets - $heard) / 2,
       'no lists: packets after the gap come with their events');
check_turn($c, 'no lists');
check_text($c, $t->messages($s), 'no lists');

my @asked = grep { $_->{url} =~ m{^/(question|permission)} }
            @{ $t->control('log') };

cmp_ok(scalar @asked, '>=', 4, 'no lists: both are asked for again');
is(scalar(grep { $_->{url} =~ /abort/ } @{ $t->control('log') }), 0,
   'no lists: nothing is aborted');
$t->control('config', { rules => [] });

# a gap, and for a while the messages of a subagent cannot be read: its text is
# not left out

my $plain = $t->turn($t->session(), 'replay:task-one');

$s = $t->session();
$c = $t->send_message($s, 'replay:task-one delay=20');
$t->wait([$c], until => sub {
    grep { $_ eq 'subagent_started' } types($_[0]->packets()) });
$t->control('config', { rules => [
    { url => '^/event', status => 503, body => '' },
    { url => "^/session/(?!$s)ses_\\w+/message", status => 500 }] });
$t->control('close', {});
ok(wait_for(sub { $t->control('stats')->{playing} == 0 }, 20),
   'a subagent: OpenCode is done');
sleep(1.5); # not wait(), whose time is longer under valgrind
$t->control('config', { rules => [] });
ok($t->wait([$c], timeout => 20), 'a subagent: the turn ends');
check_turn($c, 'a subagent');
is(said_by_subagent($c), said_by_subagent($plain),
   'a subagent: all that it said');

# nothing says that it is over

$s = $t->session();
$c = $t->send_message($s, 'text:5:24:2 fault=noidle');

# the stream may still have to be opened again; then all has been said
$t->wait([$c], until => sub { $_[0]->packets() > 5 });
$t->control('close', {});
ok($t->wait([$c], timeout => 20), 'no idle: found out by asking');
check_turn($c, 'no idle');
check_text($c, $t->messages($s), 'no idle');

$t->done();


# what the subagents of a turn have said

sub said_by_subagent {
    my ($c) = @_;

    return join '', map { $_->{content}{text} }
                    grep { $_->{type} eq 'agent_message_chunk'
                           && $_->{_meta} && $_->{_meta}{parentSessionId} }
                    map { packet_json($_) } $c->packets();
}
