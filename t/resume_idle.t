#!/usr/bin/perl

# Many clients that follow sessions in which nothing happens, on one worker, and
# one that reads a turn there which runs on the other worker: what the packets of
# that turn cost the worker does not depend on the many.  Each of them still
# hears of what happens in its own session.
#
# Broken by: a wake-up from another worker, or the poll, that calls all waiters
# of a worker (notify_read_handler(), notify_poll_handler()); a mark that is not
# that of the session (zone_mark()).

use FindBin;
use lib "$FindBin::Bin/lib";

use AgentStream;
use AgentStream::Attach;

my $N = $ENV{AGENTSTREAM_FOLLOWERS} // 2000;

# sends and reads the same turn, with and without the others
my $TURN = 'text:1200:24:4';

my $t = AgentStream->new(attach(timeout => 120 + $N / 20,
    conf => $AgentStream::Nginx::TEMPLATE
            =~ s/worker_connections \d+/'worker_connections ' . ($N + 2048)/er,
    http => 'agentstream_zone 64m;', location => 'agentstream_keepalive 60s;'));
my ($there, $here) = $t->workers();

my $alone = packets('alone');

# one for each session, the last of which will have a turn

my @sessions = ((map { sprintf 'ses_idle%06d', $_ } 2 .. $N), $t->session());
my @followers;

for (@sessions) {
    push @followers, on_worker($t, $here, events_of($_, undef,
                                                    query => 'follow=1'));
    $t->wait([$followers[-1]], timeout => 10,
             until => sub { defined $_[0]->status() });
}

is(scalar(grep { ($_->status() // 0) == 200 } @followers), $N,
   'followers: all are connected');

my $idle = cpu($here);
sleep(5);
$idle = cpu($here) - $idle;
note(sprintf 'the worker with %d followers and nothing to do: %.1f ms/s', $N,
     $idle * 200);
cmp_ok($idle, '<', $ENV{AGENTSTREAM_ASAN} ? 0.5 : 0.15,
       'followers: what it costs to have them');

my $many = packets('with followers');
note(sprintf 'a turn: %.2f s alone, %.2f s with %d followers', $alone, $many,
     $N);
cmp_ok($many, '<', $alone * 1.3 + ($ENV{AGENTSTREAM_ASAN} ? 1 : 0.2),
       'followers: the packets of another session cost what they did');

my $c = on_worker($t, $there, send_to($sessions[-1], 'text:5:24:0'));
ok($t->wait([$c]), 'its own session: a turn');
ok($t->wait([$followers[-1]], until => sub {
       $_[0]->packets() >= $c->packets() }), 'its own session: is followed');
is(join_raw($followers[-1]), join_raw($c), 'its own session: the same packets');
is(scalar(grep { $_->packets() } @followers), 1, 'the others hear nothing');

$_->close() for @followers;
$t->done();


# what the packets of a turn cost the worker that does not own it, in seconds

sub packets {
    my ($name) = @_;

    my $s = $t->session();
    my $sender = on_worker($t, $there, send_to($s, $TURN));
    hear($t, $sender, 1);

    my $reader = on_worker($t, $here, events_of($s));
    hear($t, $reader, 1);

    my $spent = cpu($here);
    # each of its timers may be late
    ok($t->wait([$sender, $reader], timeout => 40), "$name: the turn ends");
    $spent = cpu($here) - $spent;

    is(join_raw($reader), join_raw($sender), "$name: read on the other worker");

    return $spent;
}
