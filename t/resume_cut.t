#!/usr/bin/perl

# A client that is cut off after any packet of its turn reconnects with the
# last id it has seen.  What it receives in both connections is byte for byte
# what a client that stayed connected receives: on the same worker, on the
# other one, with the id in the query, over HTTP/2, while the turn runs and
# after it.
#
# Broken by: a cursor off by one, a packet rendered again instead of read from
# the journal, a resumed stream that starts before its reader is known to the
# owner, a seek that assumes the first block.

use FindBin;
use lib "$FindBin::Bin/lib";

use AgentStream;
use AgentStream::Attach;

my $t = AgentStream->new(attach(timeout => 120));
my @workers = $t->workers();

my $ORDER = 'text:56:40:20';
my $N = 59;                     # turn_started, chunks, usage, the end


# the sender itself is cut after packet k, for all k; each in its own turn

my @cut = map { {
    k => $_, session => $t->session(), how => $_ % 2 ? 'query' : 'header'
} } 1 .. $N;

for (@cut) {
    my @request = send_to($_->{session}, "$ORDER start=1000");

    $_->{from} = $workers[$_->{k} % 2];
    $_->{first} = on_worker($t, $_->{from}, @request);
}

# a reader that stays, of one of them, from the first packet on

hear($t, $cut[-1]{first}, 1);
my $stays = events($t, $cut[-1]{session});

cut($_->{first}, $_) for @cut;

ok($t->wait([map { $_->{second} } @cut], timeout => 30), 'all come to an end');
$t->wait([$stays]);

my ($same, $whole, $moved) = (0, 0, 0);

for my $cut (@cut) {
    my $uncut = $t->request(events_of($cut->{session}));

    $whole++ if check_turn($uncut, "turn $cut->{k}", quiet => 1)
                && $uncut->packets() == $N;
    $moved++ if $cut->{k} == $N
                || $cut->{second}->header('X-Worker') != $cut->{from};

    if (join_raw($cut->{first}, $cut->{second}) eq join_raw($uncut)) {
        $same++;

    } else {
        diag("cut after $cut->{k}: ", join ' ', map { $_->{id} =~ /(:\d+)/ }
             map { $_->packets() } $cut->{first}, $cut->{second});
    }
}

is($whole, $N, "each turn is whole and has $N packets");
is($same, $N, 'cut after any packet, resumed on the other worker: all equal');
is($moved, $N, 'it was the other worker');

is(join_raw($stays), join_raw($t->request(events_of($cut[-1]{session}))),
   'live is what is replayed');
is($cut[-1]{second}->status(), 204, 'nothing after the last packet');


# one turn and a reader for each k that is cut there, all at once, live

my $s = $t->session();
my $sender = $t->send_message($s, $ORDER);
hear($t, $sender, 1);
my @readers = map { { k => $_, session => $s, how => 'header',
                      first => events($t, $s) } } 1 .. $N - 1;

cut($_->{first}, $_) for @readers;
ok($t->wait([$sender, map { $_->{second} } @readers]),
   'readers of one turn come to an end');

is(scalar(grep { join_raw($_->{first}, $_->{second}) eq join_raw($sender) }
          @readers), $N - 1, 'readers of one turn: all equal');


# after the end: replay from any packet, on either worker

for my $pid (@workers) {
    my @packets = $sender->packets();
    my @replay = map { on_worker($t, $pid, events_of($s, $packets[$_]{id})) }
                 0 .. $#packets;

    $t->wait(\@replay);

    is(scalar(grep { join_raw($replay[$_])
                     eq join "\n", map { $_->{raw} }
                                   @packets[$_ + 1 .. $#packets] }
              0 .. $#packets), $N, "replayed from any packet by $pid");
}


# HTTP/2: live, cut and resumed there, and what HTTP/1 had begun

$s = $t->session();
my @base = ('--http2-prior-knowledge',
            "http://127.0.0.1:$t->{port_h2}/sessions/$s/events");
$sender = $t->send_message($s, $ORDER);
hear($t, $sender, 1);

my @h2 = map { { k => 5 * $_, first => AgentStream::Client->curl(@base) } }
         1 .. 11;

for my $cut (sort { $a->{k} <=> $b->{k} } @h2) {
    my $id = cut_after($t, $cut->{first}, $cut->{k});

    $cut->{second} = AgentStream::Client->curl('-H', "Last-Event-ID: $id",
                                               @base);
}

$t->wait([$sender, map { $_->{second} } @h2]);
is(scalar(grep { join_raw($_->{first}, $_->{second}) eq join_raw($sender) }
          @h2), @h2, 'HTTP/2: all equal');
is($h2[0]{second}->response()->{protocol}, '2', 'it was HTTP/2');

@h2 = map { AgentStream::Client->curl('-H', "Last-Event-ID: $_->{id}", @base) }
      $sender->packets();
$t->wait(\@h2, timeout => 20);
my @packets = $sender->packets();
is(scalar(grep { join_raw($h2[$_])
                 eq join "\n", map { $_->{raw} } @packets[$_ + 1 .. $#packets] }
          0 .. $#packets), $N, 'HTTP/2: replayed from any packet');
is($h2[-1]->status(), 204, 'HTTP/2: nothing after the last packet');

$t->done();


# cuts the client after its k packets, and comes back with what it has

sub cut {
    my ($client, $cut) = @_;

    my $id = cut_after($t, $client, $cut->{k});
    my ($other) = grep { $_ != ($cut->{from} // 0) } @workers;
    my @request = $cut->{how} eq 'header' ? events_of($cut->{session}, $id)
        : events_of($cut->{session}, undef, query => 'last_event_id='
                    . ($cut->{k} % 4 == 1 ? $id : $id =~ s/:/%3A/r));

    $cut->{second} = on_worker($t, $other, @request);
}
