#!/usr/bin/perl

# Every captured turn of real OpenCode, cut into reads in every way, against
# the packets that t/data/expected says a client must see.
#
# Broken by: any change of the translation; a parser that needs a whole event,
# line or character in one read; an event given to the wrong session's turn.

use FindBin;
use lib "$FindBin::Bin/lib";

use AgentStream;

my $t = AgentStream->new(timeout => 240,
    location => 'agentstream_tool_throttle 0;');

my @turns = expected_turns();
my @ways = ('chunk=event', 'chunk=whole', 'chunk=bytes:61', 'chunk=data',
            'chunk=newline', 'chunk=escape', 'chunk=utf8', 'chunk=crlf',
            'chunk=event with=two-sessions:1:2', 'chunk=bytes:1');

for my $way (@ways) {
    my %session;

    # first turns together, then the second ones in the same sessions

    for my $n (1, 2) {
        my @now = grep { $_->[1] == $n } @turns;

        # 450 kB, byte by byte, show nothing that 20 kB do not
        @now = grep { $_->[0] ne 'bash-large' } @now if $way =~ /bytes:1$/;

        replay($way, \%session, @now);
    }
}

$t->done();


sub replay {
    my ($way, $session, @turns) = @_;
    my @clients;

    for my $turn (@turns) {
        my ($name, $n, $s) = @$turn;

        $session->{"$name:$s"} //= $t->session();
    }

    # a disposed instance closes its event stream for all, hence alone

    $t->control('config', { sessions => {
        map { $session->{$_} => '/workspace/disposed' }
        grep { /dispose/ } keys %$session } });

    for my $turn (@turns) {
        my ($name, $n, $s) = @$turn;

        push @clients, $t->send_message($session->{"$name:$s"},
                                        "replay:$name:$n:$s $way");
    }

    ok($t->wait(\@clients, timeout => 60), "$way: all turns end");

    for my $i (0 .. $#turns) {
        my ($name, $n, $s, $packets) = @{ $turns[$i] };
        my $c = $clients[$i];
        my $what = "$name:$n:$s $way";

        check_turn($c, $what) or next;
        compare_expected($packets, $c, $what);
        check_text($c, $t->messages($session->{"$name:$s"}), $what);
    }
}
