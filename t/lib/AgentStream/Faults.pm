package AgentStream::Faults;

# Runs the rooms of a plan (FaultPlan.pm), many at once, and checks what must
# be true of every turn, whatever happened to it:
#
#     one terminal packet, in time, and nothing after it
#     ids that ascend by one, also over the connections of a client that
#       comes back with its last one
#     the text is a part of what OpenCode stored, or was going to say, and all
#       of it when the turn ended well
#     a prompt was forwarded at most once
#     what is asked is asked and resolved once
#
# and for nginx at the end: descriptors, connections and the zone are back
# where they were, and a turn without faults goes well.
#
# Rooms in which workers are killed come after the others: a kill hits every
# turn of its worker.

use strict;
use warnings;
use utf8;

use FindBin;
use JSON::PP;
use List::Util qw(max);
use Test::More;
use Time::HiRes qw(sleep time);

use AgentStream::Attach;
use AgentStream::Check;
use AgentStream::FaultCheck qw(check_case);
use AgentStream::FaultPlan qw(fault_names plan_room);
use AgentStream::FaultTurn qw(attach_to connect_to listen_to path step);
use AgentStream::Process qw(wait_for);

use Exporter 'import';

our @EXPORT = qw(fault_run fault_workers);

my $json = JSON::PP->new->utf8->canonical->allow_nonref;
# faults that are not made by a rule of the proxy
my $ELSEWHERE = qr/^(?:event-|down-after|down-before|disk|none)/;

# how many rooms run at once; how many turns a short run has; the same for
# rooms with kills, and their share of a long run
my %LIMIT = (scripted => 30, real => 10);
my %SHORT = (scripted => 50, real => 10);
my %KILL_LIMIT = (scripted => 6, real => 4);
my %KILL_SHORT = (scripted => 10, real => 3);
my $KILL_PART = 0.2;

# rooms of a short run in which something is asked
my %ASK_SHORT = (scripted => 8, real => 2);

my %happened;


# ---- a run

# with one worker and with two; a short run only with two

sub fault_workers {
    return split ' ', $ENV{FAULT_WORKERS}
                      // (defined $ENV{FAULT_TURNS} ? '1 2' : '2');
}


# part: the share of all turns of a long run

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
        : $long ? fault_rooms("$seed.$workers", $side,
                              $ENV{FAULT_TURNS} * $part * (1 - $KILL_PART), 1)
        : (fault_rooms("$seed.$workers", $side, $SHORT{$side}),
           map { plan_room("$seed.$workers", $side, "ask-$_") }
           0 .. $ASK_SHORT{$side} - 1);
    my $fired = run_rooms($t, $name, \@plans, $LIMIT{$side});

    if (!defined $room) {
        my @kills = fault_rooms("$seed.$workers", $side,
            $long ? $ENV{FAULT_TURNS} * $part * $KILL_PART
                  : $KILL_SHORT{$side}, $long, 'kill-');
        my $killed = run_rooms($t, "$name, workers killed", \@kills,
                               $KILL_LIMIT{$side});

        $fired->{$_} += $killed->{$_} for keys %$killed;
        ok(%{ $t->{killed} // {} }, "$name: workers were killed");
    }

    note('happened: ' . join ' ', map { "$_:$fired->{$_}" } sort keys %$fired);

    # a fault at a byte that a short turn does not reach does not occur

    my @names = (fault_names($side), fault_names($side, 'kill'));

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
        timeout => 900, %args, config => { permission => {
            bash => { '*' => 'allow', 'echo asked*' => 'ask' } } },
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

    # what a worker uses after it has done everything once
    quiet_turn($t, 'the first turn') for 1 .. 2 * $workers;
    $t->{base} = resources($t);

    return $t;
}


# a turn without faults, which must be perfect

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


# resources that faults must not use up

sub resources {
    my ($t) = @_;
    my %is = (zone => zone_room($t));

    my $fds = sub { $is{descriptors} = max(map { fds($_) } $t->workers()) };
    my $base = $t->{base};

    # Hubs stay open for ten seconds.  After a worker was killed, nginx's own
    # count of connections is wrong, so only descriptors are compared.

    wait_for(sub { $t->{killed} ? $fds->() <= $base->{descriptors}
                                : $t->active() == $t->{active} }, 30);

    $is{connections} = $t->active();
    $t->{active} = $base->{connections} = $is{connections} if $t->{killed};

    # the connection of that request is closed after its answer
    sleep(0.2);
    $base ? wait_for(sub { $fds->() <= $base->{descriptors} }, 10) : $fds->();

    return \%is;
}


# How many packets of one turn that is larger than the zone can be kept:
# finished turns make room for them, leaked memory does not.

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


# the end of an environment: what every test checks, and what is special here

sub finish_world {
    my ($t) = @_;

    quiet_turn($t, 'a clean turn at the end') for 1 .. 2 * $t->{workers};

    my $is = resources($t);

    is($is->{connections}, $t->{base}{connections}, 'connections are back');
    cmp_ok($is->{descriptors}, '<=', $t->{base}{descriptors},
           'descriptors are back')
        or diag(map { my $pid = $_; "worker $pid:\n", map { "    $_: "
                      . (readlink("/proc/$pid/fd/$_") // 'gone') . "\n" }
                      map { m{(\d+)$} } glob "/proc/$pid/fd/*" }
                $t->workers());
    note("zone: room for $is->{zone} packets, $t->{base}{zone} before");
    cmp_ok($is->{zone}, '>=', $t->{base}{zone} * 0.95, 'the zone is back')
        or diag("room for $is->{zone} packets, $t->{base}{zone} before");

    $t->finish();
}


# ---- the rooms

# -> plans for this number of turns; a short run leaves some faults out

sub fault_rooms {
    my ($seed, $side, $turns, $long, $deck) = @_;
    my @plans = $long && $side eq 'scripted' && !$deck ? specials($seed) : ();

    for (my $room = 0; $turns > 0; $room++) {
        my $plan = plan_room($seed, $side, ($deck // '') . $room);

        next if $plan->{rare} && !$long;

        push @plans, $plan;
        $turns -= @{ $plan->{turns} };
    }

    return @plans;
}


# what takes too long to do often: an event of 100 MB; a stream that is silent
# for longer than nginx would wait, so that the hub itself must notice

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
        got => [], problems => [], cuts => [@{ $_->{cuts} // [] }],
        kills => [@{ $_->{kills} // [] }] } }
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


# ---- the end of a room

sub room_over {
    my ($t, $room) = @_;
    my ($first) = @{ $room->{cases} };

    return if grep { !$_->{over} } @{ $room->{cases} };

    # OpenCode is down after the turn, then there is another turn
    if ($room->{plan}{after} && !$room->{again}) {
        $room->{again} = 1;
        $t->proxy('cut', port => $room->{port},
              ms => $room->{plan}{after});
        push @{ $room->{cases} }, { %$first, map({ $_ => undef }
            qw(over started fh watcher left done asked told)), n => 2,
            got => [],
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
    $fired->{$_}++ for grep { !$report->{fired}{$_} && /$ELSEWHERE/
                              || /^worker-/ && $room->{killed} }
                       @{ $plan->{faults} };

    for my $case (@{ $room->{cases} }) {
        my $how = check_case($t, $case, $report);
        my $took = $case->{over} - ($case->{started} // $case->{over});

        $stat->{turns}++;
        $stat->{$how}++;
        @{$stat}{qw(slowest who)} = ($took,
            "room $plan->{number}: @{ $plan->{faults} }")
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


1;
