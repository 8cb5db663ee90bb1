#!/usr/bin/perl

# Faults of OpenCode itself while turns run on it: it is killed and restarted,
# its instance is disposed of, its disk is full.  Every turn ends, and what the
# client received is a part of the intended text; then the next turn succeeds.
#
# Broken by: a turn that takes an answer without an end, or a step after which
# another one was to come, for a good one; a rejected call that counts as lost,
# as OpenCode has never asked the model again; a turn
# that waits for an idle that never comes; an error that nobody is told.

use FindBin;
use lib "$FindBin::Bin/lib";

use AgentStream;
use AgentStream::Live;

use JSON::PP;

my $json = JSON::PP->new->canonical;
my $words = 'harbor saffron brook spruce ember otter delta maple ' x 8;
my $slow = "turn\n!pace 60\n!say \"$words\"";


killed();
between_steps();
disk_full();

done_testing();


sub start_turns {
    my ($t, $n, %args) = @_;
    my @cases = map { { session => $t->create_session(%args) } } 1 .. $n;

    $_->{client} = $t->send_message($_->{session}, $slow) for @cases;
    $t->wait([map { $_->{client} } @cases], timeout => 40, until => sub {
        grep { packet_json($_)->{type} eq 'agent_message_chunk' }
             $_[0]->packets() });

    return @cases;
}


# -> the terminal packets

sub end_turns {
    my ($t, $name, $seconds, @cases) = @_;
    my @ends;

    ok($t->wait([map { $_->{client} } @cases], timeout => $seconds),
       "$name: all end in time");

    for (@cases) {
        my $c = $_->{client};
        my $text = joined_text($c);

        check_turn($c, $name);
        is(substr($words, 0, length $text), $text, "$name: text as meant");
        push @ends, packet_json(($c->packets())[-1] // {});
    }

    note("$name: " . $json->encode($ends[0]));

    return @ends;
}


sub clean_turn {
    my ($t, $name) = @_;
    my $s = $t->create_session();
    my $c = $t->turn($s, "turn\n!say \"All is well.\"", timeout => 40);

    check_turn($c, $name);
    check_text($c, $t->messages($s), $name);
    is(joined_text($c), 'All is well.', "$name: goes well");
}


sub killed {
    my $t = AgentStream->new(opencode => 'real', timeout => 180, nginx => 0);

    # A request in the very moment of OpenCode's start gets no answer, and
    # would cost 30 seconds: the proxy lets none through before it is ready.

    $t->start_proxy();
    $t->{port_opencode} = $t->proxy('room')->{port};
    $t->start_nginx();

    my @cases = start_turns($t, 3);
    my $early = $t->create_session();

    # one whose prompt has just been accepted
    push @cases, { session => $early,
                   client => $t->send_message($early, $slow) };
    $t->wait([$cases[-1]{client}], timeout => 40,
             until => sub { $_[0]->packets() > 0 });

    $t->proxy('cut', port => $t->{port_opencode});
    $t->restart_real();
    $t->proxy('up', port => $t->{port_opencode});

    for my $end (end_turns($t, 'killed', 60, @cases)) {
        is($end->{type}, 'error', 'killed: an error');
        ok(length($end->{message} // ''), 'killed: that says what it is');
    }

    clean_turn($t, 'killed: the next one');

    # its session goes on, too
    my $c = $t->turn($cases[0]{session}, "turn\n!say \"Again.\"",
                     timeout => 40);

    check_turn($c, 'killed: the same session');
    is(joined_text($c), 'Again.', 'killed: the same session');

    # disposed of

    my $dir = "$t->{workspace}/other";
    mkdir $dir;

    @cases = map { { session => ask_opencode($t, 'POST',
        "/session?directory=$dir", {})->{id} } } 1 .. 2;
    $_->{client} = $t->send_message($_->{session}, $slow) for @cases;
    $t->wait([map { $_->{client} } @cases], timeout => 40,
             until => sub { $_[0]->packets() > 5 });
    ask_opencode($t, 'POST', "/instance/dispose?directory=$dir", {});

    for my $end (end_turns($t, 'disposed', 60, @cases)) {
        like($end->{stopReason} // $end->{type}, qr/^(cancelled|error)$/,
             'disposed: cancelled, or an error');
    }

    clean_turn($t, 'disposed: the next one');
    $t->finish();
}


# It is killed after a step, before it has begun the next one: it gets no time
# for that, so what it has begun is deleted.  A rejected call looks alike.

sub between_steps {
    my $t = AgentStream->new(opencode => 'real', timeout => 180, nginx => 0,
        config => { permission => { bash => 'ask' } });
    my $call = '!call bash {"command":"true","description":"x"}';
    my $ask = '!call question {"questions":[{"question":"Which?","header":'
              . '"One","options":[{"label":"Brook","description":"x"}]}]}';

    $t->start_proxy();
    $t->{port_opencode} = $t->proxy('room')->{port};
    $t->start_nginx();

    # [name, call, reply, how it ends]

    my @cases = map { my %case; @case{qw(name call reply ends)} = @$_; \%case }
        ['answered', $call, ['permission', { reply => 'once' }],
         'OpenCode has lost the turn'],
        ['with advice', $call,
         ['permission', { reply => 'reject', message => 'No.' }],
         'OpenCode has lost the turn'],
        ['rejected', $call, ['permission', { reply => 'reject' }],
         'end_turn'],
        ['dismissed', $ask, ['question'], 'end_turn'];

    for (@cases) {
        $_->{session} = $t->create_session();
        $_->{client} = $t->send_message($_->{session},
            "turn\n!say \"Saffron.\"\n$_->{call}\n!next\n!hang");
    }

    $t->wait([map { $_->{client} } @cases], timeout => 60, until => sub {
        grep { ($_->{permissionId} // $_->{questionId}) }
        map { packet_json($_) } $_[0]->packets() });

    # those that end are not heard of

    my $port = $t->{port_opencode};

    $t->proxy('cut', port => $port);
    local $t->{port_opencode} = $t->{port_real};

    # nginx is stopped meanwhile: a server that takes long to start on a busy
    # machine is not to be given up

    my @workers = $t->workers();
    kill STOP => @workers;

    for my $noun (qw(permission question)) {
        for my $asked (@{ ask_opencode($t, 'GET', "/$noun") }) {
            my ($case) = grep { $_->{session} eq $asked->{sessionID} } @cases;
            my ($what, $body) = @{ $case->{reply} };

            ask_opencode($t, 'POST', "/$what/$asked->{id}/"
                         . ($body ? 'reply' : 'reject'), $body);
        }
    }

    wait_for(sub {
        !grep { my $case = $_; my $n = @{ $t->messages($case->{session}) };
                $n < ($case->{ends} eq 'end_turn' ? 2 : 3)
                || !$t->messages($case->{session})->[1]{info}{time}{completed}
        } @cases }, 30);

    $t->restart_real();

    for my $case (@cases) {
        my ($user, $first, @more) = @{ $t->messages($case->{session}) };
        my $id = $case->{session};

        is($first->{info}{finish}, 'tool-calls', "$case->{name}: a step");
        is(scalar(@more), $case->{ends} eq 'end_turn' ? 0 : 1,
           "$case->{name}: whether another one was begun");
        ask_opencode($t, 'DELETE', "/session/$id/message/$_->{info}{id}")
            for @more;
        is(scalar(@{ $t->messages($id) }), 2, "$case->{name}: deleted");
    }

    $t->proxy('up', port => $port);
    kill CONT => @workers;

    ok($t->wait([map { $_->{client} } @cases], timeout => 60),
       'between steps: all end in time');

    for (@cases) {
        my $last = packet_json(($_->{client}->packets())[-1] // {});

        check_turn($_->{client}, $_->{name});
        is($last->{message} // $last->{stopReason}, $_->{ends},
           "$_->{name}: how it ends");
    }

    $t->finish();
}


# its data is on a small file system, which something else fills

sub disk_full {
    my $mount = AgentStream::Nginx::build() . "/t/faults_server.$$.disk";

    mkdir $mount;

    SKIP: {
        skip 'no file system of our own can be mounted', 1
            if system("mount -t tmpfs -o size=40m none $mount 2>/dev/null");

        eval { disk_full_on($mount); 1 } or fail("disk full: $@");
        system('umount', '-l', $mount);
    }

    rmdir $mount;
}


sub disk_full_on {
    my ($mount) = @_;
    my $t = AgentStream->new(opencode => 'real', timeout => 180,
                             home => "$mount/home",
        location => 'agentstream_idle_timeout 20s;');

    clean_turn($t, 'disk: before');

    my @cases = start_turns($t, 2);
    my $s = $t->create_session();

    system("dd if=/dev/zero of=$mount/full bs=64k 2>/dev/null; "
           . "dd if=/dev/zero of=$mount/full2 bs=1 2>/dev/null");

    end_turns($t, 'disk full in mid-turn', 60, @cases);

    my $c = $t->turn($s, $slow, timeout => 60);
    my @packets = $c->packets();

    note('disk full before: ' . ($c->status() // 'none') . ' '
         . join ' ', types(@packets), ($packets[-1] // {})->{data} // '');
    like(packet_json($packets[-1] // {})->{type} // 'nothing',
         qr/^(error|prompt_response)$/, 'disk full before: one end');
    is(scalar(grep { /^(error|prompt_response)$/ } types(@packets)), 1,
       'disk full before: not two');

    unlink "$mount/full", "$mount/full2";
    clean_turn($t, 'disk: after');
    $t->finish();
}
