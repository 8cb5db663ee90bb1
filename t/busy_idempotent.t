#!/usr/bin/perl

# The same client_request_id on the same session is one turn and one prompt:
# sent again while it runs, after its end, from the other worker, five times at
# once, over a reload; every sender gets the whole turn.  Another id, session
# or no id at all is another turn.
#
# Broken by: an id that is looked up before the lock is taken, kept per worker,
# compared by its length or a prefix, or forgotten when the turn ends.

use FindBin;
use lib "$FindBin::Bin/lib";

use AgentStream;
use AgentStream::Attach;

my $t = AgentStream->new(attach(timeout => 90));
my @workers = $t->workers();
my $id = 'b1946ac9-2492-4d23-8f47-0123456789ab';
my ($s, $c, @c);


# while it runs, from both workers; after its client left; after its end

$s = $t->session();
$c = on_worker($t, $workers[0], order($s, $id));
hear($t, $c, 3);
@c = map { on_worker($t, $_, order($s, $id)) } @workers;
my $gone = on_worker($t, $workers[1], order($s, $id));
hear($t, $gone, 2);
$gone->close();
$t->wait([$c, @c]);
check_turn($c, 'the first');
is(join_raw($_), join_raw($c), 'again while it runs') for @c;

for my $pid (@workers) {
    my $again = on_worker($t, $pid, order($s, $id));
    $t->wait([$again]);
    is(join_raw($again), join_raw($c), 'again after the end');
}

is(prompts($t, $s), 1, 'one prompt');

# five at once, in many sessions, over both workers

my @all;

for my $n (1 .. 20) {
    my $s = $t->session();
    push @all, { session => $s, clients => [map {
        on_worker($t, $workers[$_ % 2], order($s, "five-$n")) } 1 .. 5] };
}

# ... and on connections that are already there, without any time between

for my $n (1 .. 20) {
    my $s = $t->session();
    my @open = map { on_worker($t, $workers[$_ % 2], 'GET', '/_pid',
                               keepalive => 1) } 1 .. 5;
    $t->wait(\@open);

    for (@open) {
        $_->{responses} = [];
        $_->send($t->http_request(order($s, "instant-$n")));
    }

    push @all, { session => $s, clients => \@open };
}

$t->wait([map { @{ $_->{clients} } } @all], timeout => 30);

is(scalar(grep { my ($first, @rest) = @{ $_->{clients} };
                 check_turn($first, 'five at once', quiet => 1)
                     && 4 == grep { join_raw($_) eq join_raw($first) } @rest }
          @all), 40, 'five at once: all five have the one turn');
is(scalar(grep { prompts($t, $_->{session}) != 1 } @all), 0,
   'five at once: one prompt');

# over a reload, and when the next turn has come and gone

$s = $t->session();
$c = on_worker($t, $workers[0], order($s, $id, 'text:20:24:60'));
hear($t, $c, 2);
$t->reload();
my $during = $t->open(order($s, $id));
$t->wait([$c, $during]);
is(join_raw($during), join_raw($c), 'from a new worker, while it runs');
my $next = $t->turn($s, 'text:2:24:0');
isnt(turn_id($next), turn_id($c), 'without an id it is another turn');
@c = map { $t->request(order($s, $id)) } 1 .. 4;
is(join_raw($_), join_raw($c), 'still known after the next turn') for @c;
is(prompts($t, $s), 2, 'two prompts');

# other ids

my @ids = ('a', 'b', 'A', 'ab', 'a ', 'x' x 128, 'é', '😀', '"', '\\', 'a');
$s = $t->session();
my @turns = map { $t->request(order($s, $_, 'text:1:24:0')) } @ids;
my @want = (1 .. 10, 1);
my (%number, $n);
is(join(' ', map { $number{ turn_id($_) } //= ++$n } @turns),
   join(' ', @want), 'each id is a turn of its own');
is(prompts($t, $s), 10, 'and a prompt');

# another session: another turn

@c = map { $t->request(order($t->session(), $id, 'text:1:24:0')) } 1 .. 2;
isnt(turn_id($c[0]), turn_id($c[1]), 'the id counts in its session only');

# it does not open a busy session to others

$s = $t->session();
$c = $t->open(order($s, $id));
hear($t, $c, 1);
is($t->request(order($s, 'other'))->status(), 409, 'another id: 409');
is($t->request(send_to($s, 'say:x'))->status(), 409, 'no id: 409');
$t->wait([$c]);

# none, or not an id

$s = $t->session();
@c = map { $t->request(send_to($s, { content => 'text:1:24:0',
                                     client_request_id => $_ })) } '', '';
is(scalar(grep { $_->status() == 200 || $_->status() == 400 } @c), 2,
   'empty: no id, or refused');
isnt(turn_id($c[0]), turn_id($c[1]), 'empty: no id')
    if $c[0]->status() == 200;

for my $bad (5, [1], { a => 1 }, JSON::PP::true()) {
    my $status = $t->request(send_to($s, { content => 'text:1:24:0',
        client_request_id => $bad }))->status();
    is($status, 400, 'not a string: 400');
}

$t->done();


sub order {
    my ($session, $request, $order) = @_;

    return send_to($session, { content => $order // 'text:5:24:40',
                               client_request_id => $request });
}
