#!/usr/bin/perl

# The store tells the owner of a turn that the turn has another owner: the
# owner forgets it at once, and nothing of it is seen any more. Whoever reads
# the turn goes on with the new owner: each packet once, one end, one prompt,
# and no abort, at whatever moment the owner is fenced, again and again.
#
# Only a store that answers later can fence somebody: make test-later.
#
# Broken by: a fenced owner that aborts its turn, ends it, answers in it, or
# goes on; readers that nobody wakes; packets that readers have seen, and the
# new owner does not know.

use FindBin;
use lib "$FindBin::Bin/lib";

use AgentStream;
use AgentStream::Attach;

plan(skip_all => 'the store answers at once')
    unless ($ENV{AGENTSTREAM_MODULE} // '') =~ m{/later/};

for my $every (2, 3, 5, 8, 13, 21) {
    local $ENV{AGENTSTREAM_FENCE} = $every;

    my $name = "every $every";
    my $t = AgentStream->new(attach(timeout => 120));
    my ($one, $other) = $t->workers();

    my $s = $t->session();
    my $sender = on_worker($t, $one, send_to($s, 'text:30:24:30'));
    hear($t, $sender, 2);
    my $reader = on_worker($t, $other, events_of($s));

    ok($t->wait([$sender, $reader], timeout => 30), "$name: the turn ends");

    check_turn($sender, $name);
    check_text($sender, $t->messages($s), $name);
    is(join_raw($reader), join_raw($sender), "$name: for a reader elsewhere");
    is(join_raw($t->request(events_of($s))), join_raw($sender),
       "$name: from the start");

    is(prompts($t, $s), 1, "$name: one prompt");
    is(scalar(grep { /abort/ } $t->upstream()), 0, "$name: no abort");

    my $fenced = () = $t->log_text() =~ /another worker has taken it over/g;
    cmp_ok($fenced, '>', 0, "$name: fenced $fenced times");

    $t->finish();
}

done_testing();
