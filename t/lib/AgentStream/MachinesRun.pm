package AgentStream::MachinesRun;

# Many turns on several machines while a seeded schedule of faults runs, and a
# check of what all clients have received.
#
# Each place runs one turn after the other in sessions of its own.  A turn has a
# sender and readers, on machines chosen at random; when a connection breaks,
# or the client breaks it, the client comes back on any machine, with the last
# id that it has, or with its prompt and client_request_id if it has nothing.
#
# What must be true, whatever happens: a number of a turn stands for the same
# bytes everywhere; between resets a client's numbers have no gaps and its
# epochs do not go back; it gets one terminal packet, and nothing after it; the
# text since its last reset is what OpenCode has stored; a prompt reaches
# OpenCode at most once, and none before the one before has been answered; no
# client waits for ever.

use strict;
use warnings;
use utf8;

use Digest::SHA qw(sha1_hex);
use JSON::PP;
use List::Util qw(max);
use Test::More;
use Time::HiRes qw(sleep time);

use AgentStream::Attach;
use AgentStream::Check;
use AgentStream::Process qw(scaled wait_for);

my $LAST = 999_999_999_999_999;

# how long a client may wait for the end of a turn, after all faults in it
my $PATIENCE = 60;


# machines; seed; turns; places; faults: names, in turn

sub new {
    my ($class, %args) = @_;
    my $self = bless { %args, started => 0, done => [], wrong => [],
                       counts => {}, number => 0 }, $class;

    srand($self->{seed});

    # the same faults for the same seed, however long the turns take
    $self->{rolls} = [map { rand } 1 .. 4000];
    $self->{places} = [map { { } } 1 .. $args{places}];

    return $self;
}


sub run {
    my ($self) = @_;
    my $m = $self->{machines};
    my ($x) = $m->machines();

    while (@{ $self->{done} } < $self->{turns}) {
        $self->fault();

        for my $place (@{ $self->{places} }) {
            $self->begin($place) if !$place->{turn}
                && $self->{started} < $self->{turns};
            $self->step($place) if $place->{turn};
        }

        my @open = grep { $_->{fh} } map { $_->{conns}[-1] // () }
                   map { @{ $_->{turn}{clients} } }
                   grep { $_->{turn} } @{ $self->{places} };

        @open ? $x->wait(\@open, timeout => 0.1 / scaled(1),
                         until => sub { 0 }) : sleep(0.1);
        last if @{ $self->{wrong} } > 20;
    }

    $self->heal();
}


# ---- turns

sub alive {
    my ($self) = @_;
    my @alive = grep { !$_->{lost} && !$_->{cut} }
                $self->{machines}->machines();

    return $alive[int rand @alive];
}


sub begin {
    my ($self, $place) = @_;
    my $n = ++$self->{started};
    my $session = $place->{session};

    # several turns of one session, and now and then another one
    if (!$session || rand() < 0.2) {
        $session = $place->{session} = $self->{session}->();
    }

    my $turn = { n => $n, session => $session, begun => time(), clients => [] };

    $place->{turn} = $turn;
    $turn->{content} = $self->{prompt}->($n);
    push @{ $turn->{clients} }, { sender => 1, conns => [], wait => 0 };
}


sub step {
    my ($self, $place) = @_;
    my $turn = $place->{turn};
    my ($sender, @readers) = @{ $turn->{clients} };

    # readers come when there is something to read
    if (!@readers && $sender->{begun}) {
        push @{ $turn->{clients} }, { conns => [], wait => 0 }
            for 1 .. 1 + int rand 3;
    }

    $self->client($turn, $_) for @{ $turn->{clients} };

    my @left = grep { !$_->{over} } @{ $turn->{clients} };
    my $since = max($turn->{begun}, $self->{healed} // 0);

    if (@left && time() - $since > scaled($PATIENCE)) {
        push @{ $self->{wrong} }, "turn $turn->{n}, $turn->{session}: "
            . scalar(@left) . ' clients wait for ever';
        $_->{over} = $_->{hung} = 1 for @left;
        @left = ();
    }

    return if @left || ($sender->{begun} && @{ $turn->{clients} } == 1);

    push @{ $self->{done} }, $turn;
    delete $place->{turn};
}


sub client {
    my ($self, $turn, $client) = @_;
    my $conn = $client->{conns}[-1];

    return if $client->{over} || time() < $client->{wait};

    if (!$conn) {
        $self->connect($turn, $client);
        return;
    }

    my @packets = $conn->packets();

    $client->{begun} ||= @packets && ($conn->status() // 0) == 200;

    if (@packets && terminal($packets[-1]) && ($conn->status() // 0) == 200) {
        $conn->close() if $conn->{fh};
        $client->{over} = 1;
        return;
    }

    # a client breaks its connection now and then, and one that leads to a
    # machine without a network
    if ($conn->{fh} && !$conn->finished()) {
        return if rand() > ($conn->{machine}{cut} ? 0.1 : 0.01)
                  || (!@packets && !$conn->{machine}{cut});
        $conn->close();
    }

    # it has all of the turn
    if (($conn->status() // 0) == 204 && defined last_id($client)) {
        $client->{over} = $client->{had} = 1;
        return;
    }

    pop @{ $client->{conns} } unless ($conn->status() // 0) == 200;
    $client->{wait} = time() + 0.2 + rand 0.5;
    $client->{again} = 1;
    push @{ $client->{old} }, pop @{ $client->{conns} }
        if @{ $client->{conns} };
}


sub connect {
    my ($self, $turn, $client) = @_;
    my $t = $self->alive();
    my $id = last_id($client);

    my $conn = eval {
        !$client->{sender} || $client->{begun}
        ? $t->open(events_of($turn->{session}, $id))
        : $t->send_message($turn->{session}, { content => $turn->{content},
              client_request_id => "request-$turn->{n}" })
    };

    if (!$conn) {
        $client->{wait} = time() + 0.3;
        return;
    }

    $self->{counts}{connections}++;
    $conn->{machine} = $t;
    push @{ $client->{conns} }, $conn;
}


# as an EventSource has it: a packet without an id does not change it

sub last_id {
    my ($client) = @_;
    my $id;

    for my $p (all($client)) {
        $id = $p->{id} if defined $p->{id};
        $id = undef if $p->{data} =~ /^\{"type":"stream_reset"/
                       && !defined $p->{id};
    }

    return $id;
}


sub all {
    my ($client) = @_;

    return map { $_->packets() } @{ $client->{old} // [] },
                                 @{ $client->{conns} };
}


sub terminal {
    return $_[0]{data} =~ /^\{"type":"(?:prompt_response|error)"/;
}


# ---- faults

sub roll {
    my ($self, $n) = @_;
    my $roll = shift @{ $self->{rolls} } // rand;

    return int $n * $roll;
}


sub fault {
    my ($self) = @_;
    my $now = time();

    if (my $f = $self->{fault}) {
        return if $now < $f->{until};
        $f->{end}->();
        $self->{healed} = time();
        delete $self->{fault};
        $self->{next} = $now + 1 + $self->roll(30) / 10;
        return;
    }

    $self->{next} //= $now + 7;
    return if $now < $self->{next};

    my @names = @{ $self->{faults} };
    my $name = $names[$self->roll(scalar @names)];
    my @machines = $self->{machines}->machines();
    my $i = $self->roll(scalar @machines);
    my ($seconds, $end) = $self->can("fault_$name")->($self, $i + 1,
                                                      $machines[$i]);

    note(sprintf '%d of %d turns: %s, machine %d, %.1f s',
         scalar @{ $self->{done} }, $self->{turns}, $name, $i + 1, $seconds);
    $self->{counts}{$name}++;
    $self->{fault} = { until => $now + $seconds, end => $end };
}


sub heal {
    my ($self) = @_;

    if (my $f = delete $self->{fault}) {
        $f->{end}->();
    }
}


sub fault_lost {
    my ($self, $i, $t) = @_;

    $self->{machines}->lose($t);

    return (3 + $self->roll(6), sub { $t->{lost} = 0; $t->start_nginx() });
}


sub fault_network {
    my ($self, $i) = @_;
    my $m = $self->{machines};

    $m->cut($i);

    return (3 + $self->roll(8), sub { $m->mend($i) });
}


sub fault_noredis {
    my ($self, $i) = @_;
    my $m = $self->{machines};

    $m->tunnel('hold', "redis$i");

    return (2 + $self->roll(9), sub { $m->tunnel('up', "redis$i") });
}


sub fault_noopencode {
    my ($self, $i) = @_;
    my $m = $self->{machines};

    $m->tunnel('hold', "opencode$i");

    return (2 + $self->roll(6), sub { $m->tunnel('up', "opencode$i") });
}


sub fault_worker {
    my ($self, $i, $t) = @_;
    my @workers = $t->workers();
    my $pid = $workers[$self->roll(scalar @workers)];

    kill 'STOP', $pid;

    return (8, sub { kill 'CONT', $pid });
}


sub fault_killed {
    my ($self, $i, $t) = @_;
    my @workers = $t->workers();

    kill_worker($t, $workers[$self->roll(scalar @workers)]);

    return (1, sub { });
}


sub fault_stopped {
    my ($self) = @_;
    my $redis = $self->{machines}{redis};

    $redis->signal('STOP');

    return (10, sub { $redis->signal('CONT') });
}


sub fault_restarted {
    my ($self) = @_;
    my $m = $self->{machines};

    $m->{redis}->stop('KILL', 5);

    return (0.5 + $self->roll(3), sub { $m->start_redis(appendonly => 'yes') });
}


sub fault_emptied {
    my ($self) = @_;

    $self->{machines}->redis('FLUSHALL');

    return (2, sub { });
}


sub fault_full {
    my ($self) = @_;
    my $m = $self->{machines};

    $m->redis('CONFIG', 'SET', 'maxmemory', '1');

    return (2 + $self->roll(4),
            sub { $m->redis('CONFIG', 'SET', 'maxmemory', '0') });
}


# ---- the check -> what is wrong

sub check {
    my ($self) = @_;
    my $wrong = $self->{wrong};
    my (%bytes, %prompts);
    my ($t) = $self->{machines}->machines();
    my %stored;

    for my $turn (@{ $self->{done} }) {
        my $i = 0;

        $stored{ $turn->{session} } //= eval { $t->messages($turn->{session}) }
                                        // [];

        # a prompt reaches OpenCode once
        my $sent = grep { $_->{info}{role} eq 'user'
                          && grep { ($_->{text} // '') =~ /\bn=$turn->{n}\b/ }
                             @{ $_->{parts} } } @{ $stored{ $turn->{session} } };
        push @$wrong, "turn $turn->{n}: $sent prompts" if $sent > 1;

        for my $client (@{ $turn->{clients} }) {
            push @$wrong, map { "turn $turn->{n}, client $i: $_" }
                check_client($self, \%bytes, $client,
                             $stored{ $turn->{session} });
            $i++;
        }
    }

    push @$wrong, $self->{sent}->($self) if $self->{sent};

    return @$wrong;
}


sub check_client {
    my ($self, $bytes, $client, $messages) = @_;
    my ($turn, $last, $reset, $ends) = ('', 0, 0, 0);
    my @wrong;

    return if $client->{hung};

    for my $p (all($client)) {
        push @wrong, 'a packet after the end' if $ends;
        $ends++ if terminal($p);

        if ($p->{data} =~ /^\{"type":"stream_reset"/) {
            $self->{counts}{resets}++;
            $reset = 1;
        }

        my ($t, $n) = ($p->{id} // '') =~ /^(\w+):(\d+)$/ or next;
        next if $n == $LAST;

        my $hash = sha1_hex($p->{raw});
        my ($epoch, $seq, $e, $s) = (int($n / 1e9), $n % 1e9,
                                     int($last / 1e9), $last % 1e9);

        push @wrong, "$t:$n has two versions"
            if ($bytes->{"$t:$n"} //= $hash) ne $hash;
        push @wrong, "$t after $turn" if $turn ne '' && $t ne $turn;
        push @wrong, "$t:$n after $last"
            if $last && !$reset && ($seq != $s + 1 || $epoch < $e);

        $self->{counts}{epochs}++ if $epoch > $e;
        ($turn, $last, $reset) = ($t, $n, 0);
        $self->{counts}{packets}++;
    }

    push @wrong, "$ends ends" unless $ends == 1 || ($client->{had} && !$ends);
    $self->{counts}{clients}++;

    my ($end) = grep { terminal($_) } all($client);

    if ($end && $end->{data} =~ /^\{"type":"error"/) {
        $self->{counts}{errors}++;
        note("  $end->{data}");
        return @wrong;
    }

    $turn = $1 if $turn eq '' && $end && ($end->{id} // '') =~ /^(\w+):/;

    my ($got, $want) = (text($client), stored_text($messages, $turn, 'text'));

    push @wrong, "$turn: text of " . length($got) . ' instead of '
                 . length($want) . " characters" if $got ne $want;

    return @wrong;
}


# what a client shows since its last reset

sub text {
    my ($client) = @_;
    my @chunk;
    my $at = 0;

    for my $p (all($client)) {
        my $json = packet_json($p);

        if ($json->{type} eq 'stream_reset') {
            @chunk = ();
            $at = 0;
        }

        $at = $p->{id} && $p->{id} =~ /:(\d+)$/ && $1 != $LAST
              ? $1 % 1e9 : $at + 1;

        if ($json->{type} eq 'agent_message_chunk' && !$json->{_meta}) {
            push @chunk, [$at, $json];

        } elsif ($json->{type} eq 'chunks_discarded') {
            my ($from, $to) = map { $json->{$_} % 1e9 } qw(from to);

            @chunk = grep { $_->[0] < $from || $_->[0] > $to
                            || $_->[1]{messageId} ne $json->{messageId} }
                     @chunk;
        }
    }

    return join '', map { $_->[1]{content}{text} } @chunk;
}


1;
