#!/usr/bin/perl

# What the zone keeps: a finished turn for "retain" and as long as there is
# room, the oldest are evicted first, a running one never; a zone full of
# running turns refuses new prompts with 503 and does not harm the running
# ones; all memory is freed in the end.
#
# Broken by: eviction from the wrong end, of a running turn or under a reader;
# a leak in free; an allocation that fails where eviction would have made room;
# a terminal packet that needs memory.

use FindBin;
use lib "$FindBin::Bin/lib";

use AgentStream;
use AgentStream::Attach;

my $t = AgentStream->new(attach(timeout => 120,
    http => 'agentstream_zone 512k retain=3s;'));
my @workers = $t->workers();
my ($c, $s, @s);


# retain: there, and then not

$s = $t->session();
$c = $t->turn($s, 'text:3:24:0');
is($t->request(events_of($s))->status(), 200, 'retained');
is(turn_state($t, $s)->{turnId}, turn_id($c), 'retained: turn');
my $since = ($c->packets())[-1]{time};
ok(wait_for(sub { !defined turn_state($t, $s)->{turnId} }, 12),
   'forgotten after "retain"');
cmp_ok(time() - $since, '>', 1.5, 'not before');
cmp_ok(time() - $since, '<', 10, 'not long after');
is($t->request(events_of($s))->status(), 204, 'then there is nothing');

# eviction: many more turns than fit, oldest first, never a failure

my $s_running = $t->session();
my $running = on_worker($t, $workers[0], send_to($s_running,
                                                 'text:90:24:100'));
hear($t, $running, 2);

my @sizes = (1, 3, 40, 5, 1, 1, 1, 80, 2, 1, 1, 20);
my @failed;
my $n = 0;

for (1 .. 120) {
    my $s = $t->session();
    my $order = 'text:' . $sizes[$n++ % @sizes] . ':40:0';
    my $c = $t->turn($s, $n % 3 ? $order : { content => $order,
                             client_request_id => 'x' x ($n % 90 + 1) });
    push @s, $s;
    push @failed, "$n: " . ($c->status() // 'none')
        unless ($c->status() // 0) == 200
               && check_turn($c, "small turn $n", quiet => 1);
}

ok(!@failed, 'a turn always has room while finished ones can go')
    or diag("@failed");

my @kept = map { defined turn_state($t, $_)->{turnId} ? 1 : 0 } @s;
like(join('', @kept), qr/^0+1+$/, 'the oldest were evicted, the newest kept');
note('kept: ' . grep { $_ } @kept);

# the same with many at once, in a zone full of finished ones

my @c = map { $t->send_message($t->session(), 'text:2:24:20') } 1 .. 40;
$t->wait(\@c);
is(scalar(grep { $_->status() == 200 } @c), 40,
   'there is room for forty, too');

# a full zone: running turns only

my @many = map { $t->send_message($s[$_ - 1] = $t->session(),
                                  'text:20:24:100') } 1 .. 300;
$t->wait(\@many, timeout => 30);
my %by;
push @{ $by{ $_->status() // 'none' } }, $_ for @many;

is(join(' ', sort keys %by), '200 503', 'full: some run, the others get 503');
note('full: ' . join ', ', map { "$_: " . @{ $by{$_} } } sort keys %by);
is_error_packet($by{503}[0]->response(), 503, 'full: an error packet');
is(scalar(grep { ($_->ended() // '') eq 'clean' } @many), 300,
   'full: all answers end in good order');

my ($good, $text) = (0, 0);

for my $i (grep { $many[$_]->status() == 200 } 0 .. $#many) {
    my $one = since_reset($many[$i]);
    my @packets = $one->packets();
    my @types = types(@packets);
    my ($turn) = map { packet_json($_)->{turnId} // () } @packets[0, 1];

    $good++ if $types[-1] eq 'prompt_response';
    $text++ if joined_text($one)
               eq stored_text($t->messages($s[$i]), $turn // '');

    diag("$i: @types: $packets[-1]{data}") if $types[-1] ne 'prompt_response';
}

is($good, scalar @{ $by{200} }, 'full: each running turn has its good end');
is($text, scalar @{ $by{200} }, 'full: with all its text');

$t->wait([$running], timeout => 20);

# on a busy machine its reader may be late when the zone is full, as those of the
# others: then it is told so, and gets all of it again

my $again = since_reset($running);

check_turn($running, 'the turn that ran all the time')
    if $again->packets() == $running->packets();
is((types($again->packets()))[-1], 'prompt_response',
   'the turn that ran all the time: its good end');
ok(joined_text($again) eq stored_text($t->messages($s_running),
                                      turn_id($running)),
   'the turn that ran all the time: all its text');

# everything comes back: the same again fits again, some times over

my $fit = fill();
my @later = map { fill() } 1 .. 3;
note("room for $fit, then @later");
is(scalar(grep { $_ < $fit * 0.9 } @later), 0, 'no memory is lost');

$t->finish();

# a finished turn takes at most twice the bytes of its packets; broken by
# blocks that double, the small ones by a last block that is left as it is

$t = AgentStream->new(attach(http => 'agentstream_zone 512k retain=60s;'));

for ([8, 180], [40, 60], [75, 60]) {
    my ($chunks, $turns) = @$_;
    my ($bytes, @sessions);

    for (1 .. $turns) {
        push @sessions, $t->session();
        $bytes = length $t->turn($sessions[-1], "text:$chunks:40:0")->body();
    }

    my $kept = grep { defined turn_state($t, $_)->{turnId} } @sessions;
    note("$chunks chunks: $kept turns of $bytes bytes are kept");
    cmp_ok($kept * $bytes * 2, '>=', 512 * 1024,
           "turns of $chunks chunks take up to twice their bytes");
}

$t->done();


# how many turns run at once in a zone without other running ones; none ends
# before the last one has come

sub fill {
    my @c = map { $t->send_message($t->session(), 'text:10:24:250') } 1 .. 200;
    $t->wait(\@c, timeout => 30);

    return scalar grep { $_->status() == 200 } @c;
}
