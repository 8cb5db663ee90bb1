#!/usr/bin/perl

# nginx -s reload again and again while fifty turns run, with other directives
# each time: no packet is lost or sent twice, each turn has one end, clients of
# old workers can go over to new ones, and an old worker leaves within two
# seconds of its last turn.  The zone's contents stay; a zone of another size
# is a new one, as nginx does it.
#
# Broken by: a timer, hub or reader that keeps an old worker; a turn that uses
# the old configuration's memory after it is gone; an owner's wake-up that
# reaches only its own generation; a zone that is initialised again.

use FindBin;
use lib "$FindBin::Bin/lib";

use AgentStream;
use AgentStream::Attach;

my $t = AgentStream->new(attach(timeout => 120));
my $SLOW = 'text:70:24:100';        # seven seconds
my (%born, %gone, %last);

my @turns = map { started() } 1 .. 50;
hear($t, $_->{pieces}[0], 2) for @turns;

# every fourth sender leaves and comes back by every reload, each time on a
# worker of the newest generation

my @changes = ('agentstream_keepalive 1s', 'agentstream_busy attach',
               'agentstream_tool_throttle 0; agentstream_heartbeat 0');

for my $n (1 .. 3) {
    my $last = $n == 1 ? '' : $changes[$n - 2];

    my @now = $t->workers();
    change_conf($t, [qr/agentstream \/opencode\/;\n\Q$last\E/,
                     "agentstream /opencode/;\n$changes[$n - 1]"
                     . ($n == 1 ? ';' : '')]);
    $t->reload();

    # told to leave now
    $born{$_} = $n for grep { !$born{$_} } @now;
    $last{$_} //= time() for @now;

    for my $turn (@turns[grep { $_ % 4 == 0 } 0 .. $#turns]) {
        my $client = $turn->{pieces}[-1];

        next if $client->finished();

        my $id = cut_after($t, $client, scalar $client->packets() || 1);
        push @{ $turn->{pieces} }, events($t, $turn->{session}, $id);
    }

    push @turns, map { started() } 1 .. 4;

    watch(2);
}

my @open = map { @{ $_->{pieces} } } @turns;

for (1 .. 150) {
    last unless grep { !$_->finished() } @open;
    watch(0.1);
}

my $end = time() + scaled(3);
watch(0.1) while time() < $end && grep { !$gone{$_} } keys %born;

is(scalar(grep { !$_->finished() } @open), 0, 'all come to an end');
is(scalar(grep { $_->status() != 200 } @open), 0, 'all with 200');

my ($same, $whole, $once) = (0, 0, 0);

for my $turn (@turns) {
    my $uncut = $t->request(events_of($turn->{session}));

    $whole++ if check_turn($uncut, 'over reloads', quiet => 1)
                && joined_text($uncut) eq stored_text(
                    $t->messages($turn->{session}), turn_id($uncut));
    $same++ if join_raw(@{ $turn->{pieces} }) eq join_raw($uncut);
    $once++ if prompts($t, $turn->{session}) == 1;
}

is($whole, @turns, 'each turn is whole, as stored, with one end');
is($same, @turns, 'nothing lost, nothing twice');
is($once, @turns, 'one prompt each');

# which worker served what until when; a sender's worker owns its turn

for my $c (@open) {
    my $pid = $c->header('X-Worker');
    my ($at) = map { $_->{time} } ($c->packets())[-1];

    $last{$pid} = $at if ($last{$pid} // 0) < $at;
}

for my $turn (@turns) {
    my $pid = $turn->{pieces}[0]->header('X-Worker');
    my ($at) = map { $_->{time} } ($turn->{pieces}[-1]->packets())[-1];

    $last{$pid} = $at if ($last{$pid} // 0) < $at;
}

my @late = grep { !$gone{$_} || $gone{$_} - $last{$_} > scaled(2) }
           sort keys %born;

ok(!@late, 'old workers are gone within 2 s of their last turn')
    or diag(map { sprintf "%d: %s s after it\n", $_, $gone{$_}
                  ? sprintf '%.1f', $gone{$_} - $last{$_} : 'never' }
            @late);
is(scalar keys %born, 6, 'three generations');

# the zone's contents are still there; another size is another zone

my $turn = $turns[0];
my $id = turn_id($turn->{pieces}[0]);
is(turn_id($t->request(events_of($turn->{session}))), $id,
   'turns are kept over a reload');

my $s = $t->session();
my $fds = fds();

for my $size (qw(8m 16m 4m 32m)) {
    change_conf($t, [qr/\n\s*(agentstream_zone \w+;)?\s*server \{/,
                     "\nagentstream_zone $size;\nserver {"]);
    my $running = $t->send_message($s, 'text:20:24:100');
    hear($t, $running, 1);
    my @old = $t->reload();
    $t->wait([$running]);
    check_turn($running, "zone of $size: the running turn");
    ok(wait_for(sub { !grep { kill 0, $_ } @old }, 2),
       "zone of $size: the old workers leave");

    my $c = $t->turn($t->session(), 'text:3:24:0');
    check_turn($c, "zone of $size: a new turn");
}

cmp_ok(fds(), '<=', $fds + 2, 'the master\'s files do not pile up');

# more workers than before

change_conf($t, [qr/worker_processes 2/, 'worker_processes 8']);
$t->{workers} = 8;
$t->reload();
my @many = map { my $c = $t->send_message($t->session(), 'text:10:24:50');
                 $c } 1 .. 16;
$t->wait(\@many);
is(scalar(grep { check_turn($_, 'eight workers', quiet => 1) } @many), 16,
   'more workers than when the zone was made');

$t->done();


sub started {
    my $s = $t->session();

    return { session => $s, pieces => [$t->send_message($s, $SLOW)] };
}


# continues to read for a while, and notes which workers exit

sub watch {
    my ($seconds) = @_;
    my $end = time() + $seconds;

    do {
        $t->wait([map { $_->{pieces}[-1] } @turns],
                 timeout => 0.1);
        $gone{$_} //= time() for grep { !kill 0, $_ } keys %born;
        sleep(0.02);
    } while (time() < $end);
}


sub fds {
    return scalar(() = glob "/proc/$t->{master}{pid}/fd/*");
}
