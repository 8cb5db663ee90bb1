#!/usr/bin/perl

# worker_shutdown_timeout: an old worker is not allowed to wait for its turns.
# Its clients are cut off and come back, with their last id, to a new worker,
# which has taken the turns over: nothing lost, nothing twice, no alerts.
#
# Broken by: a turn that dies with its owner's connections; an abort or an
# error packet on the way out; an owner that leaves its slot as if it lived.

use FindBin;
use lib "$FindBin::Bin/lib";

use AgentStream;
use AgentStream::Attach;

my $t = AgentStream->new(attach(timeout => 60,
    globals => 'worker_shutdown_timeout 1s;'));

my @turns = map { { s => $t->session() } } 1 .. 10;

for (@turns) {
    $_->{pieces} = [$t->send_message($_->{s}, 'text:60:24:100')];
}

hear($t, $_->{pieces}[0], 3) for @turns;

my @old = $t->reload();
ok($t->wait([map { $_->{pieces}[0] } @turns], timeout => 4),
   'all are cut off');
is(scalar(grep { ($_->{pieces}[0]->ended() // '') eq 'clean' } @turns), 0,
   'not as if it were the end');
ok(wait_for(sub { !grep { kill 0, $_ } @old }, 2), 'the old workers leave');

for (@turns) {
    my @packets = $_->{pieces}[0]->packets();
    push @{ $_->{pieces} }, events($t, $_->{s}, $packets[-1]{id});
}

ok($t->wait([map { $_->{pieces}[1] } @turns], timeout => 20), 'all end');

my ($whole, $same, $text, $once) = (0) x 4;

for (@turns) {
    my $all = $t->request(events_of($_->{s}));
    my $end = packet_json(($all->packets())[-1] // {});

    $whole++ if check_turn($all, 'shut down', quiet => 1)
                && ($end->{stopReason} // '') eq 'end_turn';
    $same++ if join_raw(@{ $_->{pieces} }) eq join_raw($all);
    $text++ if joined_text($all)
               eq stored_text($t->messages($_->{s}), turn_id($all));
    $once++ if prompts($t, $_->{s}) == 1;
}

is($whole, 10, 'each turn has its good end');
is($same, 10, 'nothing lost, nothing twice');
is($text, 10, 'as stored');
is($once, 10, 'one prompt each');
is(scalar(grep { m{/abort} } $t->upstream()), 0, 'nothing aborted');

# nobody comes back: the turn is finished by the next reader

my $s = $t->session();
my $c = $t->send_message($s, 'text:30:24:100');
my $id = cut_after($t, $c, 3);
$t->reload();
sleep(5);
my $d = $t->request(events_of($s, $id), timeout => 15);
is(join_raw($c, $d), join_raw($t->request(events_of($s))),
   'nobody was there: the rest can be had');
check_turn($t->turn($s, 'text:2:24:0'), 'nobody was there: the next turn');

done_killed($t);
