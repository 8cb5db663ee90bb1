package AgentStream::FaultTurn;

# One turn of a room and its clients.  As the plan says (FaultPlan.pm), they
# send, watch, disconnect, reconnect with their last id, answer questions, and
# kill the worker they are connected to.  A client that was cut off by such a
# kill reconnects; one that had received nothing sends its prompt again, with
# the same client_request_id.

use strict;
use warnings;

use IO::Select;
use JSON::PP;
use Time::HiRes qw(sleep time);

use AgentStream::Check;
use AgentStream::Process qw(scaled);

use Exporter 'import';

our @EXPORT_OK = qw(attach_to connect_to listen_to path problem raw step
                    struck $TERMINAL);

our $TERMINAL = qr/^(?:prompt_response|error)$/;

my $json = JSON::PP->new->utf8->canonical->allow_nonref;


sub path {
    my ($case, $what) = @_;

    my $at = ($case->{room}{plan} // {})->{location} // '/rooms';

    return "$at/$case->{session}/$what?room=$case->{room}{port}";
}


sub connect_to {
    my ($t, $case, @request) = @_;

    $case->{seen} = 0;

    return $t->open(@request, port => $t->{port_pid});
}


sub attach_to {
    my ($t, $case) = @_;
    my $last = @{ $case->{got} } ? $case->{got}[-1]{id} : undef;

    return connect_to($t, $case, 'GET', path($case, 'events'),
        headers => { Accept => 'text/event-stream',
                     defined $last ? ('Last-Event-ID' => $last) : () });
}


sub send_to_room {
    my ($t, $case) = @_;
    my $plan = $case->{room}{plan};

    return connect_to($t, $case, 'POST', path($case, 'send-message'),
        headers => { Accept => 'text/event-stream' },
        body => { content => $case->{order}, $plan->{kills}
                  ? (client_request_id => "$plan->{number}.$case->{n}")
                  : () });
}


# handles new packets, and does what the plan says at this point

sub step {
    my ($t, $case) = @_;
    my $now = time();

    return if $case->{over};

    if (!$case->{started}) {
        return if $now < $case->{from};

        $case->{started} = $now;
        $case->{fh} = send_to_room($t, $case);
    }

    if ($now - $case->{started} > scaled($case->{room}{plan}{seconds})) {
        problem($case, 'not over in time', @{ $case->{answers} // [] });
        return over($case);
    }

    strike($t, $case, $now);
    answer($t, $case, $now) if $case->{asks};

    if (my $w = $case->{watcher}) {
        watch($t, $w);
    }

    if (my $c = $case->{fh}) {
        take($case);

        $case->{watcher} //= { room => $case->{room}, got => [],
                               session => $case->{session} }
            if $case->{client} eq 'watch' && $case->{seen};

        if ($case->{client} eq 'interrupt' && $case->{seen} > $case->{gone}
            && !$case->{interrupted}++)
        {
            $t->request('POST', path($case, 'interrupt'), body => {},
                        port => $t->{port_pid});
        }

        return if leave($case, $c) || !$c->finished();

        if (!ended($case, $c)) {
            if (was_killed($t, $c)) {
                drop($case);
                $case->{back_at} = $now + 0.05;
                return;
            }

            # nginx did not end the response properly, and nobody else cut it
            # off
            problem($case, 'the response was cut off');
            return over($case);
        }

        drop($case);
        $case->{done} = 1;
    }

    if ($case->{done}) {
        my $w = $case->{watcher} or return over($case);

        return unless $w->{over};

        problem($case, "the watcher $w->{over}") if $w->{over} ne 'ended';
        problem($case, 'the watcher got something else')
            if raw(@{ $w->{got} }) ne raw(@{ $case->{got} });

        return over($case);
    }

    return if $now < $case->{back_at};

    if ($case->{client} eq 'gone' && !$case->{room}{plan}{kills}) {
        my $state = eval { $json->decode($t->request('GET',
            path($case, 'turn'), port => $t->{port_pid})->body()) };

        if (!$state || $state->{running}) {
            $case->{back_at} = $now + 0.3;
            return;
        }
    }

    # it reads the whole turn now
    $case->{got} = [] if $case->{client} eq 'gone';

    $case->{fh} = @{ $case->{got} } || $case->{left} ? attach_to($t, $case)
                                                     : send_to_room($t, $case);
}


sub take {
    my ($case) = @_;
    my @packets = $case->{fh}->packets();

    push @{ $case->{got} }, @packets[$case->{seen} .. $#packets];
    $case->{seen} = @packets;
}


sub drop {
    my ($case) = @_;
    my $c = delete $case->{fh};

    $c->close() if $c && $c->{fh};
}


# another client that reads the turn

sub watch {
    my ($t, $w) = @_;

    return if $w->{over};

    $w->{fh} //= attach_to($t, $w);
    take($w);

    return unless $w->{fh}->finished();

    my $c = $w->{fh};
    my $ended = ended($w, $c);
    my $killed = was_killed($t, $c);

    drop($w);
    $w->{over} = $ended ? 'ended' : 'was cut off' unless !$ended && $killed;
}


# ---- workers that are killed

# -> whether this response has no end because of a kill

sub was_killed {
    my ($t, $c) = @_;
    my $killed = $t->{killed} // {};
    my $pid = $c->header('X-Worker');

    return defined $pid ? $killed->{$pid}
                        : scalar grep { $_ >= $c->{started} } values %$killed;
}


# whether any worker was killed while the turn was running

sub struck {
    my ($t, $case) = @_;

    return scalar grep { $_ >= $case->{started}
                         && $_ <= ($case->{over} // time()) }
                  values %{ $t->{killed} // {} };
}


# Kills the worker that the client is connected to, like the kernel would.  The
# master's message about that is not an alert of the module.

sub strike {
    my ($t, $case, $now) = @_;
    my $kill = ($case->{kills} // [])->[0] or return;

    return unless $kill->{packets} ? @{ $case->{got} } >= $kill->{packets}
        : $kill->{asked} ? grep({ !$_->{resolved}
                                  && $now - $_->{since} > $kill->{ms} / 1000 }
                                values %{ $case->{asked} // {} })
        : $now - $case->{started} > $kill->{ms} / 1000;

    my @workers = sort { $a <=> $b } $t->workers();
    my $pid = $case->{fh} && $case->{fh}->header('X-Worker') // 0;

    ($pid) = (grep({ $_ == $pid } @workers),
              $workers[ $kill->{worker} % (@workers || 1) ]);

    return unless $pid && kill 'KILL', $pid;

    shift @{ $case->{kills} };
    $case->{room}{killed}++;
    $t->{killed}{$pid} = $now;

    my $pids = join '|', keys %{ $t->{killed} };

    $t->{expected} = qr/(?:process|locked by) (?:$pids)\b/;
}


# ---- answers

my %ASK = (
    question_asked => ['questionId', 'questions/%s/reply', sub {
        { answers => [map { [$_->{options}[0]{label}] }
                      @{ $_[0]{questions} }] } }],
    request_permission => ['permissionId', 'permissions/%s/reply', sub {
        { reply => 'once' } }],
    question_resolved => ['questionId'],
    permission_resolved => ['permissionId'],
);


# Answers questions, and repeats each answer until it is known to have arrived.

sub answer {
    my ($t, $case, $now) = @_;
    my $asked = $case->{asked} //= {};
    my $got = $case->{got};

    # a client that reads everything again has fewer packets than before
    $case->{told} = 0 if !defined $case->{told} || $case->{told} > @$got;

    while ($case->{told} < @$got) {
        my $p = packet_json($got->[ $case->{told}++ ]);
        my ($field, $path, $body) = @{ $ASK{ $p->{type} } // next };
        my $id = $p->{$field};

        if ($path) {
            $asked->{$id} //= { since => $now, body => $body->($p),
                path => path($case, sprintf $path, $id),
                at => $now + $case->{answer} / 1000 };

        } elsif ($asked->{$id}) {
            $asked->{$id}{resolved} = 1;
        }
    }

    for my $ask (values %$asked) {
        if (my $c = $ask->{client}) {
            $c->read() if $c->{fh} && !$c->finished();

            next unless $c->finished();

            my $status = $c->status() // 0;

            push @{ $case->{answers} }, "an answer: $status";
            $c->close() if $c->{fh};
            delete $ask->{client};
            $ask->{at} = $now + ($status == 200 ? 5 : 0.3);
        }

        next if $ask->{resolved} || $now < $ask->{at};

        $ask->{client} = $t->open('POST', $ask->{path}, body => $ask->{body},
                                  port => $t->{port_pid});
    }
}


sub raw {
    return join "\n", map { $_->{raw} =~ s/\Aretry: \d+\n//r } @_;
}


# the client closes its connection; -> whether it did

sub leave {
    my ($case, $c) = @_;
    my $type = @{ $case->{got} } ? packet_json($case->{got}[-1])->{type} : '';
    my $n;

    return if $c->finished() || $type =~ $TERMINAL;

    if ($case->{client} eq 'reconnect' && @{ $case->{cuts} }) {
        $n = $case->{cuts}[0];

        return if $case->{seen} < $n;

        # what arrived together with the last packet was never read
        splice @{ $case->{got} }, @{ $case->{got} } - $case->{seen} + $n;
        shift @{ $case->{cuts} };

    } elsif ($case->{client} eq 'gone' && !$case->{left}) {
        return if $case->{seen} < $case->{gone}
                  || time() - $case->{started} < 0.02;
        $case->{left} = 1;

    } else {
        return;
    }

    drop($case);
    $case->{back_at} = time() + $case->{wait} / 1000;

    return 1;
}


# the response is over, and so is the turn

sub ended {
    my ($case, $c) = @_;
    my $status = $c->status() // 0;

    $case->{status} = $status;

    if ($status == 204) {
        # disconnected before there was a turn, or reconnected after its end
        $case->{none} = !@{ $case->{got} };
        return 1;
    }

    return ($c->ended() // '') eq 'clean';
}


sub over {
    my ($case) = @_;

    drop($_) for grep { $_ } $case, $case->{watcher};
    $_->{client} && $_->{client}{fh} && $_->{client}->close()
        for values %{ $case->{asked} // {} };
    $case->{over} = time();

    return;
}


sub problem {
    my ($case, @text) = @_;

    push @{ $case->{problems} }, @text;

    return;
}


sub listen_to {
    my %of = map { fileno($_->{fh}) => $_ }
             grep { $_ && $_->{fh} && !$_->finished() }
             map { $_->{fh}, ($_->{watcher} // {})->{fh} } @_;
    my $select = IO::Select->new(map { $_->{fh} } values %of);

    if (!%of) {
        sleep(0.01);
        return;
    }

    $of{ fileno $_ }->read() for $select->can_read(0.02);
}


1;
