#!/usr/bin/perl

# agentstream_busy queue when many wait for one session: a worker's work for
# one of them does not grow with their number; a sender that waits with the
# client_request_id of a turn that begins gets that turn at once, even if
# others are in front of it.
#
# Broken by: all of them woken for each turn (line_handler()); a walk through
# all kept turns of the session for each id (zone_started_locked());
# only the first one looked at (line_named()).

use FindBin;
use lib "$FindBin::Bin/lib";

use AgentStream;
use AgentStream::Attach;

my $t = AgentStream->new(attach(timeout => 120,
    http => 'agentstream_zone 64m;', location => 'agentstream_busy queue;'));
my @workers = $t->workers();
my ($s, $first, @c);


# behind somebody else, in the same worker and in the other one

$s = $t->session();
$first = on_worker($t, $workers[0], send_to($s, 'text:20:24:50 n=0'));
hear($t, $first, 1);
@c = map { my $c = on_worker($t, $workers[$_->[0]], send_to($s, $_->[1]));
           sleep(0.1); $c }
     [0, named('text:3:24:20 n=1', 'twice')],
     [0, 'text:60:24:60 n=2'], [1, 'text:3:24:20 n=3'],
     [0, named('text:3:24:20 n=1', 'twice')],
     [1, named('text:3:24:20 n=1', 'twice')];
ok($t->wait([$first, @c[0, 3, 4]], timeout => 20), 'twice: those end');
is(scalar(grep { $_->finished() } @c[1, 2]), 0,
   'twice: before those in front of them');
is(join_raw($_), join_raw($c[0]), 'twice: the same turn') for @c[3, 4];
ok($t->wait(\@c, timeout => 20), 'twice: then the others');
is(join(' ', prompt_numbers($t, $s)), '0 1 2 3', 'twice: in order, sent once');

# many, on one worker, each with an id

$s = $t->session();
my $n = 700;
$first = on_worker($t, $workers[0], send_to($s, 'text:2:24:3000 n=0'));
hear($t, $first, 1);
my $spent = cpu($workers[0]);
@c = map { on_worker($t, $workers[0],
                     send_to($s, named("text:1:24:0 n=$_", "id-$_"))) } 1 .. $n;
ok($t->wait([$first, @c], timeout => 90), 'many: all have their turn');
$spent = cpu($workers[0]) - $spent;
is(scalar(grep { check_turn($_, 'queued', quiet => 1) } @c), $n,
   'many: each a whole one');
is(join(' ', prompt_numbers($t, $s)), join(' ', 0 .. $n), 'many: in order');
note(sprintf 'many: %.2f ms of the worker for each of them',
     1000 * $spent / $n);
cmp_ok($spent, '<', $ENV{AGENTSTREAM_ASAN} ? 10 : 1.5,
       'many: what they cost together');

$t->done();


sub named {
    my ($content, $id) = @_;

    return { content => $content, client_request_id => $id };
}
