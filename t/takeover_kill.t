#!/usr/bin/perl

# The worker that owns turns is killed, each worker in its turn, again and
# again: readers in the other worker get the rest of their turns, within
# seconds, each packet once; the clients of the killed worker come back with
# their last id and get the rest too; one end and one prompt for each turn.
#
# Broken by: a turn that nobody adopts, or two workers do; text sent again
# after it was reconciled; a sequence that starts anew; a lock or a session
# that stays taken; a half-written packet that is read; an abort for a prompt
# that was never sent.

use FindBin;
use lib "$FindBin::Bin/lib";

use AgentStream;
use AgentStream::Attach;

my $t = AgentStream->new(attach(timeout => 120, server => '
        location /impatient {
            agentstream /opencode/;
            agentstream_idle_timeout 1s;
        }'));
my @workers = $t->workers();


# one turn: a reader on the other worker waits, the sender comes back

for my $n (0, 1) {
    my ($owner, $other) = $n ? reverse @workers : @workers;
    my $s = $t->session();
    my $sender = on_worker($t, $owner, send_to($s, 'text:30:24:80'));
    hear($t, $sender, 3);
    my $reader = on_worker($t, $other, events_of($s));
    hear($t, $reader, 8);

    my $new = kill_worker($t, $owner);
    $t->wait([$sender], timeout => 1);
    isnt($sender->ended() // '', 'clean', "one, $n: the sender is cut off");
    my $back = events($t, $s, ($sender->packets())[-1]{id});
    ok($t->wait([$reader, $back], timeout => 15), "one, $n: both end");

    check_turn($reader, "one, $n: the reader");
    check_text($reader, $t->messages($s), "one, $n: the reader");
    is(join_raw($sender, $back), join_raw($reader),
       "one, $n: the sender who came back");
    is(prompts($t, $s), 1, "one, $n: one prompt");
    is(last_packet($reader)->{stopReason}, 'end_turn', "one, $n: a good end");

    check_turn($t->turn($s, 'text:2:24:0'), "one, $n: the next turn");
    @workers = grep { $_ != $owner } @workers;
    push @workers, $new;
    @workers = reverse @workers if $n;
}

# Nobody waits: the next client that asks takes the turn over, also after it has
# ended.  It asks the new worker, which has seen no other worker die.

for ([0, 'with its id'], [2, 'with its id'], [2, 'from the start']) {
    my ($pause, $from) = @$_;
    my $name = "$pause s later, $from";

    @workers = $t->workers();
    my $s = $t->session();
    my $sender = on_worker($t, $workers[0], send_to($s, 'text:20:24:60'));
    hear($t, $sender, 5);
    my $new = kill_worker($t, $workers[0]);
    $t->wait([$sender], timeout => 1);
    sleep($pause);
    my $id = $from eq 'from the start' ? undef : ($sender->packets())[-1]{id};
    my $back = on_worker($t, $new, events_of($s, $id));
    ok($t->wait([$back], timeout => 8), "$name: the turn ends");
    my $all = $t->request(events_of($s));
    check_turn($all, $name);
    check_text($all, $t->messages($s), $name);
    is(join_raw($id ? $sender : (), $back), join_raw($all), "$name: joined");
    is(prompts($t, $s), 1, "$name: one prompt");
}

# the next is a sender: an abandoned turn does not keep the session

@workers = $t->workers();
my $s = $t->session();
my $sender = on_worker($t, $workers[0], send_to($s, 'text:20:24:80'));
hear($t, $sender, 3);
kill_worker($t, $workers[0]);
ok(wait_for(sub { my $c = $t->turn($s, 'text:2:24:0');
                  sleep(0.3);
                  ($c->status() // 0) == 200 }, 10),
   'a sender comes next: the session is free again');

# the same client_request_id after the kill is still the same turn

@workers = $t->workers();
$s = $t->session();
my @request = send_to($s, { content => 'text:20:24:80',
                            client_request_id => 'killed' });
$sender = on_worker($t, $workers[0], @request);
hear($t, $sender, 5);
kill_worker($t, $workers[0]);
my $again = $t->open(@request);
ok($t->wait([$again], timeout => 15), 'sent again: it ends');
check_turn($again, 'sent again');
is(prompts($t, $s), 1, 'sent again: one prompt');

# killed before the prompt was sent, and while it was on its way

for my $url ('/session/ses_\w+$', '/prompt_async') {
    @workers = $t->workers();
    $s = $t->session();
    $t->control('config', { rules => [{ url => $url, times => 1,
                                        delay => 1000 }] });
    $sender = on_worker($t, $workers[0], send_to($s, 'text:20:24:50'));
    sleep(0.3);
    my $reader = on_worker($t, $workers[1], events_of($s));
    sleep(0.2);
    kill_worker($t, $workers[0]);
    ok($t->wait([$reader], timeout => 20), "killed at $url: the reader ends");
    my @types = types($reader->packets());
    is(scalar(grep { /^(prompt_response|error)$/ } @types), 1,
       "killed at $url: one end") or diag("@types");
    cmp_ok(prompts($t, $s), '<=', 1, "killed at $url: at most one prompt");
    $t->control('config', { rules => [] });
    ok(wait_for(sub { $t->control('stats')->{playing} == 0 }, 8),
       "killed at $url: nothing runs");
    check_turn($t->turn($s, 'text:2:24:0'), "killed at $url: the next turn");
}

# a turn whose prompt was never sent is given up by the worker that took it
# over: nothing of it is to be aborted, but something of others could be

@workers = $t->workers();
$s = $t->session();
$t->control('config', { rules => [{ url => "/session/$s\$",
                                    delay => 60000 }] });
$sender = on_worker($t, $workers[0], send_to($s, 'text:20:24:50'));
sleep(0.3);
my $given_up = on_worker($t, $workers[1], 'GET', "/impatient/$s/events",
                         headers => { Accept => 'text/event-stream' });
sleep(0.2);
kill_worker($t, $workers[0]);
ok($t->wait([$given_up], timeout => 20), 'given up: the reader ends');
is(join(' ', types($given_up->packets())), 'error', 'given up: one packet')
    or diag($given_up->body());
is(scalar(grep { m{$s/(abort|prompt)} } $t->upstream()), 0,
   'given up: neither prompt nor abort');
$t->control('config', { rules => [] });
check_turn($t->turn($s, 'text:2:24:0'), 'given up: the next turn');

# tools and thoughts: nothing is told twice, and what OpenCode has stored by
# then is told within seconds, not with the end

for my $name (qw(tools-sequence text-interleaved)) {
    @workers = $t->workers();
    $s = $t->session();
    $sender = on_worker($t, $workers[0],
                        send_to($s, "replay:$name delay=60"));
    hear($t, $sender, 4);
    my $reader = on_worker($t, $workers[1], events_of($s));
    hear($t, $reader, 4);
    kill_worker($t, $workers[0]);

    my $killed = time();
    my $n = $reader->packets();
    hear($t, $reader, $n + 1);
    my $after = time() - $killed;
    cmp_ok($after, '<', 3, "$name: goes on within seconds");
    note(sprintf '%s: %.1f s', $name, $after);
    ok($t->wait([$reader], timeout => 20), "$name: ends");
    check_turn($reader, $name);
    check_text($reader, $t->messages($s), $name);
}

# thirty turns with readers on both workers, and each worker killed twice

my @turns = map { { s => $t->session() } } 1 .. 30;

for (@turns) {
    $_->{pieces} = [$t->send_message($_->{s}, 'text:60:24:100')];
}

hear($t, $_->{pieces}[0], 2) for @turns;
$_->{reader} = [events($t, $_->{s})] for @turns;

for my $round (1 .. 4) {
    kill_worker($t, (sort { $a <=> $b } $t->workers())[0]);
    come_back(1.5);
}

my $end = time() + 20;
come_back(0.2) while time() < $end && grep { !is_over($_->[-1]) }
                     map { @$_{qw(pieces reader)} } @turns;

my ($whole, $same, $text, $once) = (0) x 4;

for (@turns) {
    my $all = $t->request(events_of($_->{s}));

    $whole++ if check_turn($all, 'one of many', quiet => 1);
    $text++ if joined_text($all)
               eq stored_text($t->messages($_->{s}), turn_id($all));
    $same += grep { join_raw(@$_) eq join_raw($all) } @$_{qw(pieces reader)};
    $once++ if prompts($t, $_->{s}) == 1;
}

is($whole, 30, 'many: each turn has one end');
is($text, 30, 'many: each as stored');
is($same, 60, 'many: nobody lost a packet or got one twice');
is($once, 30, 'many: one prompt each');

done_killed($t);


# clients that were cut off attach again with the last id they have

sub come_back {
    my ($seconds) = @_;
    my $end = time() + $seconds;

    do {
        my @now = map { $_->[-1] } map { @$_{qw(pieces reader)} } @turns;

        $t->wait(\@now, timeout => 0.1);

        for my $turn (@turns) {
            for my $pieces (@$turn{qw(pieces reader)}) {
                my $c = $pieces->[-1];

                next if is_over($c) || $c->{fh} && !$c->finished();

                my ($last) = map { $_->{id} }
                             reverse map { $_->packets() } @$pieces;
                push @$pieces, events($t, $turn->{s}, $last);
            }
        }

        sleep(0.05);
    } while (time() < $end);
}


sub is_over {
    my ($client) = @_;

    return ($client->status() // 0) == 204
           || (last_packet($client)->{type} // '')
              =~ /^(prompt_response|error)$/;
}


sub last_packet {
    my ($client) = @_;

    return packet_json(($client->packets())[-1] // {});
}
