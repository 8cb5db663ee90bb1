#!/usr/bin/perl

# A hundred turns at once, on one worker and on two: each client gets its own
# turn, whole, and nothing of another's.
#
# Broken by: an event routed by anything but its session, a turn that ends on
# another's idle, a limit on calls in flight that drops instead of queueing.

use FindBin;
use lib "$FindBin::Bin/lib";

use AgentStream;

my $N = 100;

for my $workers (1, 2) {
    my $t = AgentStream->new(workers => $workers);
    my @sessions = map { $t->session() } 1 .. $N;
    my @clients = map { $t->send_message($_, 'text:20:40:5') } @sessions;
    my (%turn, $text, $foreign);

    ok($t->wait(\@clients, timeout => 30), "$workers: all turns end");

    my $whole = grep { check_turn($_, 'one of many', quiet => 1) } @clients;
    is($whole, $N, "$workers: each turn is whole");

    for my $i (0 .. $#clients) {
        my $tag = substr $sessions[$i], -8;
        my $id = turn_id($clients[$i]);
        my $joined = joined_text($clients[$i]);

        $turn{$id} = 1;
        $text += $joined eq stored_text($t->messages($sessions[$i]), $id);
        $foreign += grep { $_ ne $tag } $joined =~ /(\w{8})#\d+ /g;
    }

    is(scalar keys %turn, $N, "$workers: each has its own id");
    is($text, $N, "$workers: each has the text that was stored");
    is($foreign, 0, "$workers: nobody has another's");

    my $stats = $t->control('stats');

    is($stats->{prompts}, $N, "$workers: one prompt each");
    cmp_ok($stats->{opened}, '<=', $workers, "$workers: one stream per worker");

    $t->finish();
}

done_testing();
