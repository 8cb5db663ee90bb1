#!/usr/bin/perl

# A zone that is too small ends no turn, and refuses none while any turn can
# give up memory.  A packet that finds no room is a gap that its readers are
# told of.  Finished turns that somebody still reads are evicted last.  The
# turn with the most memory gives some up, for packets and for new turns alike.
#
# Broken by: a packet without room that fails its turn (turn_squeeze()); a last
# block that is emptied while there are others before it, so that readers see
# what was never written (journal_empty_locked()); finished turns evicted in the
# order of their end only, or for good when a client is stuck
# (zone_place_locked()); new turns for which nobody gives way
# (zone_alloc_locked()).

use FindBin;
use lib "$FindBin::Bin/lib";

use AgentStream;
use AgentStream::Attach;

my $t = AgentStream->new(attach(timeout => 150, workers => 1,
    listen => 'sndbuf=16k', http => 'agentstream_zone 512k retain=60s;'));
my %stuck = (port => $t->{port_pid}, rcvbuf => 4096);
my (@c, @s, $c, $s, $status);


# packets of 50 kB, more at a time than the zone has room for

many('large packets', 20, 'text:3:20000:30');
cmp_ok($t->status()->{packets}{dropped}, '>', 0, 'large packets: counted');

# packets that are larger than the zone: numbers go on behind them

$s = $t->session();
$c = $t->turn($s, 'text:3:250000:20');
is(packet_json((since_reset($c)->packets())[0])->{reason}, 'journal_dropped',
   'larger than the zone: the sender is told');
like($t->log_text(), qr/\[warn\].*no room in the zone for a packet of 6\d{5} /,
     'larger than the zone: and whoever reads the log');
is_whole($c, $s, 'larger than the zone');

my $turn = turn_state($t, $s);
is($turn->{stopReason}, 'end_turn', 'larger than the zone: a good end');
my $all = $turn->{packets};
my $id = $turn->{turnId};
my $rest = $t->request(events_of($s, "$id:" . ($all - 1)));
is(join(' ', map { $_->{id} } $rest->packets()), "$id:$all",
   'larger than the zone: what came behind is kept');
my $none = $t->request(events_of($s, "$id:2"), timeout => 10);
is_whole($none, $s, 'larger than the zone: what came before');
is((types($none->packets()))[0], 'stream_reset',
   'larger than the zone: it is not');

# many turns have one block each, a few say much, and their clients are late

@c = map { $t->send_message($t->session(), 'text:2:24:2500') } 1 .. 125;
$t->wait(\@c, timeout => 20, until => sub { $_[0]->packets() > 0 });
@s = map { $t->session() } 1 .. 6;
my @late = map { $t->open($t->message_request($_, 'text:400:40:1'), %stuck) }
           @s;
ok($t->wait(\@c, timeout => 30), 'few have much: the others end');
is(scalar(grep { check_turn($_, 'small', quiet => 1) } @c), 125,
   'few have much: the others are whole');
ok($t->wait(\@late, timeout => 30), 'few have much: they end');
is_whole($late[$_], $s[$_], "few have much: $_") for 0 .. $#late;

# a client is stuck in a finished turn; then so many others that all finished
# ones must go

$s = $t->session();
$c = $t->open($t->message_request($s, 'text:70:500:2'), %stuck);
finished($s);
$t->turn($t->session(), 'text:40:40:0') for 1 .. 60;
$status = $t->status();
cmp_ok($status->{turns}{evicted}, '>', 30, 'stuck: others were evicted');
ok($t->wait([$c], timeout => 10), 'stuck: it goes on');
check_turn($c, 'stuck: nothing is lost');

# so many are stuck that nothing else is there: they are in nobody's way

@s = map { $t->session() } 1 .. 14;
@c = map { $t->open($t->message_request($_, 'text:70:500:2'), %stuck) } @s;
finished($_) for @s;
is(scalar(grep { check_turn($t->turn($t->session(), 'text:40:40:0'), 'small',
                            quiet => 1) } 1 .. 20), 20,
   'all stuck: new turns are whole');
ok($t->wait(\@c, timeout => 20), 'all stuck: they go on');
is_whole($c[$_], $s[$_], "all stuck: $_") for 0 .. $#c;

# some say more than the zone holds: nobody is refused for that

@s = map { $t->session() } 1 .. 5;
@c = map { $t->send_message($_, 'text:400:500:5') } @s;
hear($t, $_, 150) for @c;
my @new = map { $t->send_message($t->session(), 'text:3:24:20') } 1 .. 60;
ok($t->wait([@c, @new], timeout => 30), 'verbose: all end');
is(scalar(grep { $_->status() == 200 } @new), 60, 'verbose: nobody is refused');
is(scalar(grep { check_turn($_, 'new', quiet => 1) } @new), 60,
   'verbose: the others are whole');
is_whole($c[$_], $s[$_], "verbose: $_") for 0 .. $#c;

is($t->status()->{turns}{failed}, 0, 'no turn has failed');

$t->done();


# so many at once, all of which end well and tell all that is stored

sub many {
    my ($name, $n, $order) = @_;
    my @s = map { $t->session() } 1 .. $n;
    my @c = map { $t->send_message($_, $order) } @s;

    ok($t->wait(\@c, timeout => 40), "$name: all end");
    is_whole($c[$_], $s[$_], "$name: $_") for 0 .. $#c;
}


sub is_whole {
    my ($client, $session, $name) = @_;
    my $one = since_reset($client);
    my ($turn) = grep { defined } map { packet_json($_)->{turnId} }
                 $one->packets();

    local $Test::Builder::Level = $Test::Builder::Level + 1;

    is(($client->status() // 'none') . ' ' . (types($one->packets()))[-1],
       '200 prompt_response', "$name: a good end");
    ok(joined_text($one) eq stored_text($t->messages($session), $turn // ''),
       "$name: all its text");
}


sub finished {
    my ($session) = @_;

    wait_for(sub { my $turn = turn_state($t, $session);
                   defined $turn->{turnId} && !$turn->{running} }, 10)
        or die "the turn does not end\n";
}
