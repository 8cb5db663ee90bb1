#!/usr/bin/perl

# A cursor older than what is kept: "stream_reset" says so, then comes the turn
# so far, rebuilt from OpenCode's messages, to its end; never a silent gap.
# agentstream_turn_size drops a turn's oldest packets, an eviction or a restart
# of nginx all of them.
#
# Broken by: a cursor clamped to the oldest packet; a rebuilt turn that ends
# with the message it found first; text sent twice when the turn is read again;
# a rebuilt end that an EventSource asks for again and again.

use FindBin;
use lib "$FindBin::Bin/lib";

use AgentStream;
use AgentStream::Attach;

my $t = AgentStream->new(attach(timeout => 90, listen => 'sndbuf=16k',
    server => '
        location /small {
            agentstream /opencode/;
            agentstream_turn_size 32k;
        }'));
my @workers = $t->workers();
my ($c, $s, $d);


# a running turn drops its oldest packets; who keeps up sees all of it

$s = $t->session();
$c = on_worker($t, $workers[0], 'POST', "/small/$s/send-message",
               body => { content => 'text:150:500:10' });
my $fast = on_worker($t, $workers[1], events_of($s));
my $slow = AgentStream::Client->curl(
    "http://127.0.0.1:$t->{port_pid}/sessions/$s/events");

hear($t, $_, 3) for $c, $fast, $slow;
$slow->{process}->signal('STOP');
hear($t, $c, 100);
my $early = ($c->packets())[4]{id};
my $live = events($t, $s, $early);      # too old, while the turn runs
my $new = events($t, $s);               # all of it, and that is not there
$t->wait([$c, $fast]);
check_turn($c, 'small: the sender');
is(join_raw($fast), join_raw($c), 'small: a reader that keeps up');

# slow before sndbuf and rcvbuf are empty: the rest is rebuilt or whole

$slow->{process}->signal('CONT');
ok($t->wait([$slow, $live, $new], timeout => 15), 'small: the others end');
is_rebuilt($live, $c, 'too old, live');
is_rebuilt($new, $c, 'from the start, live');
is_rebuilt($slow, $c, 'slow', 1);

$d = $t->request(events_of($s, $early), timeout => 10);
is_rebuilt($d, $c, 'too old, over');
is(packet_json(($d->packets())[0])->{reason}, 'journal_dropped',
   'too old, over: the turn is kept, its first packets are not');
my ($s_small, $d_small) = ($s, $d);
$d = $t->request(events_of($s), timeout => 10);
is_rebuilt($d, $c, 'from the start, over');

# a cursor that is still there is not reset

my @p = $c->packets();
$d = $t->request(events_of($s, $p[-10]{id}));
is(join_raw($d), join("\n", map { $_->{raw} } @p[-9 .. -1]),
   'still there: just the rest');
is($t->request(events_of($s, $p[-1]{id}))->status(), 204, 'all of it: 204');

# tools, thoughts, several messages: what is rebuilt says the same

for my $name (qw(tools-sequence text-interleaved)) {
    $s = $t->session();
    $c = $t->turn($s, "replay:$name");
    my $small = $t->session();
    my $e = $t->request('POST', "/small/$small/send-message",
                        body => { content => "replay:$name" });
    is(join(' ', types($e->packets())), join(' ', types($c->packets())),
       "$name: live is live");
}


# nginx restarted while turns run, and after one ended

my @turns = map { { s => $t->session(), order => $_ } }
            'text:40:24:100', 'text:60:24:100', 'text:3:24:0';
$_->{c} = $t->send_message($_->{s}, $_->{order}) for @turns;
$t->wait([$turns[2]{c}]);
hear($t, $_->{c}, 5) for @turns;
restart_nginx($t);

for (@turns) {
    $_->{id} = ($_->{c}->packets())[-1]{id};
    $_->{d} = events($t, $_->{s}, $_->{id});
}

ok($t->wait([map { $_->{d} } @turns], timeout => 20), 'restart: all end');

for (@turns[0, 1]) {
    is_rebuilt($_->{d}, $_->{c}, "restart: $_->{order}", 0, $_->{s});
}

# An EventSource comes back with the last id it got, also after the end: it
# must be told to stop, or it goes round for ever.  Who had all of a turn that
# is not kept any more may get it once again.

for (@turns, { s => $s_small, id => $early, d => $d_small }) {
    my ($id) = grep { defined } (map { $_->{id} } reverse $_->{d}->packets()),
                                $_->{id};

    is($t->request(events_of($_->{s}, $id), timeout => 10)->status(), 204,
       'a rebuilt turn is not sent again and again');
}

# without a cursor nobody knows what turn is meant

is($t->request(events_of($turns[0]{s}))->status(), 204,
   'restart: no cursor, nothing retained');

# the session takes its next turn while the old one is still running upstream?
# OpenCode says that it is busy, the module does not know

$c = $t->turn($turns[0]{s}, 'text:3:24:0');
check_turn($c, 'restart: the next turn');

# a cursor of a turn OpenCode does not know

$d = $t->request(events_of($t->session(),
                           'msg_000000000000AAAAAAAAAAAAAA:3'));
is($d->status(), 204, 'a turn nobody knows: 204');

# OpenCode gone after a restart

$t->control('config', { rules => [{ url => '^/session/', drop => 1 }] });
$d = $t->request(events_of($turns[1]{s}, $turns[1]{id}), timeout => 10);
is_error_packet($d->response(), 502, 'OpenCode gone: 502');
$t->control('config', { rules => [] });

done_killed($t);


# stream_reset, turn_started, the text as stored, one end

sub is_rebuilt {
    my ($client, $of, $name, $late, $session) = @_;
    my @packets = $client->packets();
    my @types = types(@packets);

    local $Test::Builder::Level = $Test::Builder::Level + 1;

    if ($late) {
        # some of it came before
        shift @packets while @packets
            && packet_json($packets[0])->{type} ne 'stream_reset';

        if (!@packets) {
            is(join_raw($client), join_raw($of), "$name: nothing was lost");
            return;
        }

        @types = types(@packets);
    }

    is("$types[0] $types[1]", 'stream_reset turn_started',
       "$name: begins with stream_reset") or diag("@types[0 .. 5]");
    is(scalar(grep { /^stream_reset$/ } @types), 1, "$name: once");
    ok(length(packet_json($packets[0])->{reason} // ''), "$name: a reason");
    is(packet_json($packets[1])->{turnId}, turn_id($of), "$name: the turn");
    is(join(' ', grep { /^(prompt_response|error)$/ } @types),
       'prompt_response', "$name: one end");
    is($types[-1], 'prompt_response', "$name: at the end");
    is($client->ended(), 'clean', "$name: ends in good order");

    my $rebuilt = bless { responses => [bless { packets => \@packets },
                          ref $client->response()] }, ref $client;
    my $text = stored_text($t->messages($session // $s), turn_id($of));

    ok(joined_text($rebuilt) eq $text, "$name: the text that was stored")
        or diag(length(joined_text($rebuilt)) . ' of ' . length $text);
}
