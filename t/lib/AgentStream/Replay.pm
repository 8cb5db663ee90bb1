package AgentStream::Replay;

# Sends all captured turns through the module, once, for tests that check the
# output in general and not the translation itself (turn_replay.t does that).

use strict;
use warnings;

use Test::More;

use AgentStream::Check;

use Exporter 'import';

our @EXPORT = qw(replay_all);


# -> {name => "capture:turn:session", client => …} of every turn

sub replay_all {
    my ($t, $options) = @_;
    my (%session, @done);

    # a disposed instance closes its event stream for all turns, so this
    # capture runs alone

    my @turns = expected_turns();
    my %of = map { ("$_->[0]:$_->[2]" => $_->[0]) } @turns;

    $session{$_} = $t->session() for sort keys %of;
    $t->control('config', { sessions => {
        map { $session{$_} => "/workspace/disposed" }
        grep { /dispose/ } keys %session } });

    # all first turns together, then the second ones in the same sessions

    for my $n (1, 2) {
        my @now = map { my ($name, undef, $s) = @$_;
            { name => "$name:$n:$s", client => $t->send_message(
                $session{"$name:$s"}, "replay:$name:$n:$s $options") } }
            grep { $_->[1] == $n } @turns;

        $t->wait([map { $_->{client} } @now], timeout => 60);
        push @done, @now;
    }

    my @bad = grep { !check_turn($_->{client}, $_->{name}, quiet => 1) } @done;

    ok(!@bad, 'all captured turns replayed, ' . @done);

    return @done;
}


1;
