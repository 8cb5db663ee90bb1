package AgentStream::Faults;

# Runs rooms of a plan (FaultPlan.pm), many at once, and checks what must hold
# for every turn, whatever happened to it:
#
#     one terminal packet, in time, and nothing after it
#     ids that ascend by one, also over the connections of a client that
#       comes back with its last one
#     the text is a part of what OpenCode stored, or was going to say, and all
#       of it when the turn ended well
#     a prompt was forwarded at most once
#
# and for nginx at the end: descriptors, connections and the zone are back
# where they were, and a turn without faults goes well.

use strict;
use warnings;
use utf8;

use FindBin;
use IO::Select;
use JSON::PP;
use List::Util qw(max);
use Test::More;
use Time::HiRes qw(sleep time);

use AgentStream::Attach;
use AgentStream::Check;
use AgentStream::Client;
use AgentStream::FaultPlan qw(fault_names plan_room);
use AgentStream::Live qw();
use AgentStream::Process qw(scaled wait_for);

use Exporter 'import';

our @EXPORT = qw(fault_run fault_workers);

my $json = JSON::PP->new->utf8->canonical->allow_nonref;
# what is not done by a rule of the proxy
my $ELSEWHERE = qr/^(?:event-|down-after|down-before|disk|none)/;

my $TERMINAL = qr/^(?:prompt_response|error)$/;


# how many rooms at once; how many turns of a short run
my %LIMIT = (scripted => 30, real => 10);
my %SHORT = (scripted => 50, real => 10);

my %happened;


# ---- a run

# with one worker and with two; a short run only with two

sub fault_workers {
    return split ' ', $ENV{FAULT_WORKERS}
                      // (defined $ENV{FAULT_TURNS} ? '1 2' : '2');
}


# part: of all turns of a long run

sub fault_run {
    my ($side, $workers, $part) = @_;
    my $seed = $ENV{FAULT_SEED} // 1;
    my $long = defined $ENV{FAULT_TURNS};
    my $room = $ENV{FAULT_ROOM};
    my $t = fault_world($side, $workers);
    my $name = "$side, $workers workers, seed $seed";

    $t->{again} = "make test-faults FAULT_SEED=$seed FAULT_ROOM=%s "
        . "FAULT_WORKERS=$workers FAULT_TESTS=t/faults_$side.t";

    my @plans = defined $room ? plan_room("$seed.$workers", $side, $room)
                : fault_rooms("$seed.$workers", $side,
                              $long ? $ENV{FAULT_TURNS} * $part
                                    : $SHORT{$side}, $long);
    my $fired = run_rooms($t, $name, \@plans, $LIMIT{$side});

    note('happened: ' . join ' ', map { "$_:$fired->{$_}" } sort keys %$fired);

    # a fault at a byte that a short turn does not reach does not happen

    my @names = fault_names($side);

    $happened{$side}{$_} += $fired->{$_} for keys %$fired;

    if ($long && !defined $room && @plans >= @names
        && $workers == (fault_workers())[-1])
    {
        is(join(' ', grep { !$happened{$side}{$_} } @names), '',
           "$side, seed $seed: every fault happened");
    }

    finish_world($t);
}


# ---- the world

# a scripted or real OpenCode, the proxy, nginx; each room is a route

sub fault_world {
    my ($side, $workers, %args) = @_;
    my $timeout = $side eq 'real' ? '12s' : '3s';

    my $t = AgentStream->new(attach(opencode => $side, workers => $workers,
        timeout => 900, %args,
        http => 'agentstream_zone 6m retain=4s;',
        server => qq{
            location /rooms {
                agentstream /via/;
                agentstream_route \$arg_room;
                agentstream_event_size 1m;
                agentstream_turn_size 16m;
                add_header X-Worker \$pid always;
            }

            location /patient {
                agentstream /via/patient/;
                agentstream_route \$arg_room;
                agentstream_event_size 1m;
            }

            location /via/ {
                internal;
                rewrite ^/via/(.*)\$ /\$1 break;
                proxy_pass http://127.0.0.1:\$agentstream_route;
                proxy_http_version 1.1;
                proxy_set_header Connection "";
                proxy_read_timeout $timeout;

                location /via/patient/ {
                    internal;
                    rewrite ^/via/patient/(.*)\$ /\$1 break;
                    proxy_pass http://127.0.0.1:\$agentstream_route;
                    proxy_read_timeout 1h;
                }
            }}));

    $t->control('config', { heartbeat => 1000 }) if $side eq 'scripted';

    $t->{side} = $side;
    $t->start_proxy();
    $t->{port_probe} = $side eq 'scripted' ? $t->{port_opencode}
        : $t->start_server('probe', qr/^listening (\d+)$/m, 'node',
                           "$FindBin::Bin/lib/opencode.mjs");

    # what a worker has when it has done everything once
    quiet_turn($t, 'the first turn') for 1 .. 2 * $workers;
    $t->{base} = resources($t);

    return $t;
}


# a turn without faults, as every turn should be

sub quiet_turn {
    my ($t, $name) = @_;
    my $plan = { number => 'quiet', options => '', faults => ['none'],
        rules => [], expect => 'well', seconds => 60, before => 0, after => 0,
        turns => [
        { start => 0, client => 'plain', $t->{side} eq 'real'
          ? (order => "x\n!say \"One two three.\"", text => 'One two three.')
          : (order => 'text:5:24:2') }] };

    run_rooms($t, $name, [$plan], 1);
}


# what faults must not use up

sub resources {
    my ($t) = @_;
    my %is = (zone => zone_room($t));

    # hubs linger for ten seconds
    wait_for(sub { $t->active() == $t->{active} }, 30);

    my $fds = sub { max(map { fds($_) } $t->workers()) };
    my $base = $t->{base};

    wait_for(sub { $fds->() <= $base->{descriptors} }, 10) if $base;

    return { %is, connections => $t->active(), descriptors => $fds->() };
}


# How many packets of one turn, which is larger than the zone, can be kept in
# it: all that is finished makes room for them, what was leaked does not.

sub zone_room {
    my ($t) = @_;
    my $port = $t->proxy('room', upstream => $t->{port_probe})->{port};
    my $last = 2600;
    my %case = (room => { port => $port }, got => [],
                session => "ses_probe$$" . int(time()));
    my $c = connect_to($t, \%case, 'POST', path(\%case, 'send-message'),
                       body => { content => "text:$last:1200:0" });

    $t->wait([$c], until => sub { $_[0]->packets() }, timeout => 20);

    my $id = turn_id($c);

    $c->close();
    wait_for(sub { !$json->decode($t->request('GET', path(\%case, 'turn'),
        port => $t->{port_pid})->body())->{running} }, 60)
        or die "the large turn does not end\n";

    my ($lost, $kept) = (0, $last);

    while ($kept - $lost > 1) {
        my $n = int(($lost + $kept) / 2);

        $case{got} = [{ id => "$id:$n" }];
        $c = attach_to($t, \%case);
        $t->wait([$c], until => sub { $_[0]->packets() }, timeout => 20);

        my ($first) = $c->packets();

        $c->close();
        (($first // {})->{id} // '') eq "$id:" . ($n + 1) ? ($kept = $n)
                                                          : ($lost = $n);
    }

    $t->proxy('close', port => $port);

    return $last - $kept;
}


sub fds {
    my ($pid) = @_;

    opendir my $dh, "/proc/$pid/fd" or return 0;

    return scalar(() = readdir $dh) - 2;
}


# the end of a world, which any test has, and what is special here

sub finish_world {
    my ($t) = @_;

    quiet_turn($t, 'a clean turn at the end') for 1 .. 2 * $t->{workers};

    my $is = resources($t);

    is($is->{connections}, $t->{base}{connections}, 'connections are back');
    cmp_ok($is->{descriptors}, '<=', $t->{base}{descriptors},
           'descriptors are back');
    note("zone: room for $is->{zone} packets, $t->{base}{zone} before");
    cmp_ok($is->{zone}, '>=', $t->{base}{zone} * 0.95, 'the zone is back')
        or diag("room for $is->{zone} packets, $t->{base}{zone} before");

    $t->finish();
}


# ---- the rooms

# -> plans for so many turns; a short run has no time for some

sub fault_rooms {
    my ($seed, $side, $turns, $long) = @_;
    my @plans = $long && $side eq 'scripted' ? specials($seed) : ();

    for (my $room = 0; $turns > 0; $room++) {
        my $plan = plan_room($seed, $side, $room);

        next if $plan->{rare} && !$long;

        push @plans, $plan;
        $turns -= @{ $plan->{turns} };
    }

    return @plans;
}


# what is too much to do often: an event of 100 MB; a stream that is silent
# while nginx would wait, so that the hub itself must find out

sub specials {
    my ($seed) = @_;
    my $huge = plan_room($seed, 'scripted', 'huge', 'stream-huge-event');
    my $dead = plan_room($seed, 'scripted', 'dead', 'stream-half-dead');

    $huge->{rules}[0]{size} = 100_000_000;
    $_->{seconds} = 120 for $huge, $dead;
    $dead->{location} = '/patient';

    return ($huge, $dead);
}


# runs them, at most `limit` at once; -> {fault => how often it happened}

sub run_rooms {
    my ($t, $name, $plans, $limit) = @_;
    my @waiting = @$plans;
    my (@running, %fired, @problems);
    my $stat = { turns => 0, well => 0, error => 0, slowest => 0 };
    my $from = time();

    while (@waiting || @running) {
        push @running, open_room($t, shift @waiting)
            while @waiting && @running < $limit;

        step($t, $_) for map { @{ $_->{cases} } } @running;

        my @over = grep { room_over($t, $_) } @running;

        for my $room (@over) {
            @running = grep { $_ != $room } @running;
            push @problems, close_room($t, $room, $stat, \%fired);
        }

        listen_to(map { @{ $_->{cases} } } @running);
    }

    note(sprintf '%s: %d turns, %d well, %d with an error, in %.1f s; the '
         . 'slowest took %.1f s (%s)', $name, @{$stat}{qw(turns well error)},
         time() - $from, $stat->{slowest}, $stat->{who} // 'none');
    ok(!@problems, "$name: every turn is as it must be") or diag(@problems);

    return \%fired;
}


sub open_room {
    my ($t, $plan) = @_;
    my $port = $t->proxy('room', rules => $plan->{rules})->{port};
    my $dir = $t->{side} eq 'real'
              ? "$t->{workspace}/" . room_directory($t, $plan)
              : "/workspace/room-$plan->{number}";

    $t->proxy('cut', port => $port, ms => $plan->{before})
        if $plan->{before};

    my %room = (plan => $plan, port => $port, directory => $dir);

    $room{cases} = [map { { %$_, room => \%room, n => ++$room{n},
        session => session_in($t, $dir), from => time() + $_->{start} / 1000,
        got => [], problems => [], cuts => [@{ $_->{cuts} // [] }] } }
        @{ $plan->{turns} }];

    return \%room;
}


sub room_directory {
    my ($t, $plan) = @_;
    my ($n) = $plan->{number} =~ /(\d+)/;
    my $dir = 'd' . ($n // 0) % 3;

    mkdir "$t->{workspace}/$dir";

    return $dir;
}


sub session_in {
    my ($t, $dir) = @_;
    my $c = $t->request('POST', "/session?directory=$dir", body => {},
                        port => $t->{port_opencode}, timeout => 30);

    return $json->decode($c->body())->{id};
}


# ---- one turn and its clients

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


# what is new, and what the plan says to do now

sub step {
    my ($t, $case) = @_;
    my $now = time();

    return if $case->{over};

    if (!$case->{started}) {
        return if $now < $case->{from};

        $case->{started} = $now;
        $case->{fh} = connect_to($t, $case, 'POST',
            path($case, 'send-message'), body => { content => $case->{order} },
            headers => { Accept => 'text/event-stream' });
    }

    if ($now - $case->{started} > scaled($case->{room}{plan}{seconds})) {
        problem($case, 'not over in time');
        return over($case);
    }

    if (my $c = $case->{fh}) {
        my @packets = $c->packets();

        push @{ $case->{got} }, @packets[$case->{seen} .. $#packets];
        $case->{seen} = @packets;

        if ($case->{client} eq 'watch' && @packets && !$case->{watcher}) {
            my $seen = $case->{seen};
            local $case->{got} = [];
            $case->{watcher} = attach_to($t, $case);
            $case->{seen} = $seen;
        }

        if ($case->{client} eq 'interrupt' && @packets > $case->{gone}
            && !$case->{interrupted}++)
        {
            $t->request('POST', path($case, 'interrupt'), body => {},
                        port => $t->{port_pid});
        }

        return if leave($case, $c) || !$c->finished();

        if (!ended($case, $c)) {
            # nginx did not say how it ends: nobody cut it off but itself
            problem($case, 'the response was cut off');
            return over($case);
        }

        $c->close() if $c->{fh};
        delete $case->{fh};

        return $case->{watcher} ? undef : over($case);
    }

    if (my $w = $case->{watcher}) {
        return if !$w->finished();

        problem($case, 'the watcher got something else')
            if raw($w->packets()) ne raw(@{ $case->{got} });
        $w->close() if $w->{fh};

        return over($case);
    }

    return if $now < $case->{back_at};

    if ($case->{client} eq 'gone') {
        my $state = eval { $json->decode($t->request('GET',
            path($case, 'turn'), port => $t->{port_pid})->body()) };

        if (!$state || $state->{running}) {
            $case->{back_at} = $now + 0.3;
            return;
        }

        # it reads all of it now
        $case->{got} = [];
    }

    $case->{fh} = attach_to($t, $case);
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

        # what came with the last packet was never read
        splice @{ $case->{got} }, @{ $case->{got} } - $case->{seen} + $n;
        shift @{ $case->{cuts} };

    } elsif ($case->{client} eq 'gone' && !$case->{left}) {
        return if $case->{seen} < $case->{gone}
                  || time() - $case->{started} < 0.02;
        $case->{left} = 1;

    } else {
        return;
    }

    $c->close();
    delete $case->{fh};
    $case->{back_at} = time() + $case->{wait} / 1000;

    return 1;
}


# the response is over, and so is the turn

sub ended {
    my ($case, $c) = @_;
    my $status = $c->status() // 0;

    $case->{status} = $status;

    if ($status == 204) {
        # gone before there was a turn, or back after its end
        $case->{none} = !@{ $case->{got} };
        return 1;
    }

    return ($c->ended() // '') eq 'clean';
}


sub over {
    my ($case) = @_;

    $_->{fh} && $_->close() for grep { $_ } @{$case}{qw(fh watcher)};
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
             map { @{$_}{qw(fh watcher)} } @_;
    my $select = IO::Select->new(map { $_->{fh} } values %of);

    if (!%of) {
        sleep(0.01);
        return;
    }

    $of{ fileno $_ }->read() for $select->can_read(0.02);
}


# ---- the end of a room

sub room_over {
    my ($t, $room) = @_;
    my ($first) = @{ $room->{cases} };

    return if grep { !$_->{over} } @{ $room->{cases} };

    # down after the turn, and then another one
    if ($room->{plan}{after} && !$room->{again}) {
        $room->{again} = 1;
        $t->proxy('cut', port => $room->{port},
              ms => $room->{plan}{after});
        push @{ $room->{cases} }, { %$first, map({ $_ => undef }
            qw(over started fh watcher left)), n => 2, got => [],
            problems => [], client => 'plain',
            from => time() + $room->{plan}{after} / 1000 + 0.5 };

        return;
    }

    return 1;
}


sub close_room {
    my ($t, $room, $stat, $fired) = @_;
    my $plan = $room->{plan};
    my $report = $t->proxy('report', port => $room->{port});
    my @problems;

    $t->proxy('close', port => $room->{port});

    $fired->{$_} += $report->{fired}{$_} for keys %{ $report->{fired} };
    $fired->{$_}++ for grep { !$report->{fired}{$_} && /$ELSEWHERE/ }
                       @{ $plan->{faults} };

    for my $case (@{ $room->{cases} }) {
        my $how = check_case($t, $case, $report);
        my $took = $case->{over} - ($case->{started} // $case->{over});

        $stat->{turns}++;
        $stat->{$how}++;
        @{$stat}{qw(slowest who)} = ($took, "@{ $plan->{faults} }")
            if $took > $stat->{slowest};

        next unless @{ $case->{problems} };

        push @problems, "room $plan->{number}, turn $case->{n} "
            . "($case->{client}): @{ $plan->{faults} }\n",
            (map { "    $_\n" } @{ $case->{problems} },
             'packets: ' . join(' ', short(types(@{ $case->{got} })))),
    }

    return unless @problems;

    my %public = map { $_ => $plan->{$_} } grep { $_ ne 'n' } keys %$plan;

    return (@problems, '    plan: ', JSON::PP->new->canonical->encode(\%public),
        "\n", (map { "    $_\n" } 'proxy:', map { "  $_" }
               @{ $report->{trace} }), $t->{again} ? '    again: '
               . sprintf($t->{again}, $plan->{number}) . "\n" : ());
}


sub short {
    my @out;

    for (@_) {
        if (@out && $out[-1][0] eq $_) {
            $out[-1][1]++;
        } else {
            push @out, [$_, 1];
        }
    }

    return map { $_->[1] > 1 ? "$_->[0]*$_->[1]" : $_->[0] } @out;
}


# -> how it ended: well or error

sub check_case {
    my ($t, $case, $report) = @_;
    my $plan = $case->{room}{plan};
    my @packets = @{ $case->{got} };
    my @types = types(@packets);

    if ($case->{none} && $case->{client} eq 'gone' && $case->{gone} == 0) {
        # it left before there was a turn
        return 'none';
    }

    if (!@packets) {
        problem($case, 'no packets, status ' . ($case->{status} // 'none'));
        return 'error';
    }

    # what was void: all before the last reset
    my ($reset) = grep { $types[$_] eq 'stream_reset' } reverse 0 .. $#types;

    splice @packets, 0, $reset + 1 if defined $reset;

    my $last = packet_json($packets[-1]);
    my $refused = @packets == 1 && $last->{type} eq 'error';

    if (defined $reset || $refused) {
        my @terminal = grep { /$TERMINAL/ } types(@packets);

        problem($case, "terminal packets: @terminal")
            if @terminal != 1 || $last->{type} !~ $TERMINAL;

    } else {
        problem($case, AgentStream::Check::turn_problems(@packets));
    }

    my $well = $last->{type} eq 'prompt_response'
               && $last->{stopReason} eq 'end_turn';

    # what another turn of the room made up for may have hit the start of this
    # one: nothing of it has reached OpenCode, and that is what it was told

    my ($id) = ($packets[0]{id} // '') =~ /^(\w+):/;
    my $early = $refused && @{ $plan->{turns} } > 1
                && !$report->{prompts}{ $id // '' };

    problem($case, "ended with $packets[-1]{data}")
        if $plan->{expect} eq 'well' && !$well && !$early;
    problem($case, "ended well")
        if $plan->{expect} eq 'error' && $well;
    problem($case, "error without a message: $packets[-1]{data}")
        if $last->{type} eq 'error' && !length($last->{message} // '');
    problem($case, "code $last->{code}, not $plan->{code}")
        if $plan->{code} && ($last->{code} // 0) != $plan->{code};

    problem($case, "status $case->{status}, code $last->{code}")
        if $refused && $case->{status} != 200
           && $case->{status} != $last->{code};

    check_prompts($case, $report);
    check_said($t, $case, $well, @packets);
    check_replay($t, $case) unless defined $reset || $refused;

    return $well ? 'well' : 'error';
}


sub check_prompts {
    my ($case, $report) = @_;
    my $plan = $case->{room}{plan};
    my %sent = %{ $report->{prompts} };

    problem($case, map { "prompt $_ was sent $sent{$_} times" }
                   grep { $sent{$_} > 1 } sort keys %sent);
    problem($case, 'the prompt was sent') if defined $plan->{prompts}
                                             && %sent;
}


# while it is kept, the turn is the same for everybody

sub check_replay {
    my ($t, $case) = @_;
    my $c = $t->request('GET', path($case, 'events'), port => $t->{port_pid},
                        headers => { Accept => 'text/event-stream' });
    my @packets = $c->packets();

    problem($case, 'another turn when it is read again')
        if ($c->status() // 0) == 200 && turn_id($c) eq
           (($case->{got}[0]{id} // '') =~ /^(\w+):/ ? $1 : '')
           && raw(@packets) ne raw(@{ $case->{got} });
}


sub check_said {
    my ($t, $case, $well, @packets) = @_;
    my $client = bless { responses => [bless { packets => \@packets },
                         'AgentStream::Response'] }, 'AgentStream::Client';
    my ($turn) = ($packets[0]{id} // '') =~ /^(msg_\w+):/;
    my $got = joined_text($client);

    $turn //= packet_json($packets[0])->{turnId};

    if (!defined $turn) {
        problem($case, 'ended well without a turn') if $well;
        return;
    }

    my $messages = $t->messages($case->{session});
    my $stored = stored_text($messages, $turn);
    my $intended = $case->{text} // $t->control('said',
                                                { user => $turn })->{text};

    # the next turn of the session is not this one's
    if ($well) {
        problem($case, "text: got \"$got\"", "stored \"$stored\"")
            if $got ne $stored && !$case->{room}{again};
        problem($case, "text: got \"$got\"", "meant \"$intended\"")
            if $got ne $intended && $case->{room}{plan}{options} eq '';

        my ($mine) = map { $json->encode([$_->($client)]) }
                     \&AgentStream::Live::calls_of;
        my $theirs = $json->encode(
            [AgentStream::Live::stored_calls($messages, $turn)]);

        problem($case, "calls: got $mine", "stored $theirs")
            if $mine ne $theirs && !$case->{room}{again};

    } elsif (index($stored, $got) != 0 && index($intended, $got) != 0) {
        problem($case, "text: got \"$got\"", "stored \"$stored\"",
                "meant \"$intended\"");
    }
}


1;
