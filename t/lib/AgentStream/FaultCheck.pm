package AgentStream::FaultCheck;

# Checks what must be true of every turn, see Faults.pm.

use strict;
use warnings;
use utf8;

use JSON::PP;

use AgentStream::Check;
use AgentStream::Client;
use AgentStream::FaultTurn qw(path problem raw struck $TERMINAL);
use AgentStream::Live qw();

use Exporter 'import';

our @EXPORT_OK = qw(check_case);

my $json = JSON::PP->new->utf8->canonical->allow_nonref;


# -> how it ended: well or error

sub check_case {
    my ($t, $case, $report) = @_;
    my $plan = $case->{room}{plan};
    my @packets = @{ $case->{got} };
    my @types = types(@packets);

    if ($case->{none} && $case->{client} eq 'gone' && $case->{gone} == 0) {
        # the client disconnected before there was a turn
        return 'none';
    }

    if (!@packets) {
        problem($case, 'no packets, status ' . ($case->{status} // 'none'));
        return 'error';
    }

    # void packets: all before the last reset
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

    # the fault of another turn in this room may have hit the start of this
    # one, or its worker was killed: nothing of it has reached OpenCode, and
    # the client was told so

    my ($id) = ($packets[0]{id} // '') =~ /^(\w+):/;
    my $early = !$report->{prompts}{ $id // '' }
                && ($refused && @{ $plan->{turns} } > 1 || struck($t, $case));

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
    check_asks($case, $well, map { packet_json($_) } @packets);
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


# every question is asked once, and answered once

sub check_asks {
    my ($case, $well, @packets) = @_;
    my (%asked, %resolved);

    for (@packets) {
        my $id = $_->{questionId} // $_->{permissionId} // next;

        $_->{type} =~ /_resolved$/ ? $resolved{$id}++ : $asked{$id}++;
    }

    problem($case, map { "$_ was asked $asked{$_} times" }
                   grep { $asked{$_} > 1 } sort keys %asked);
    problem($case, map { "$_ was resolved " . ($resolved{$_} // 0) . ' times' }
                   grep { ($resolved{$_} // 0) != 1
                          && ($well || $resolved{$_}) } sort keys %asked);
    problem($case, map { "$_ was never asked" }
                   grep { !$asked{$_} } sort keys %resolved);
    problem($case, 'nothing was asked') if $well && $case->{asks} && !%asked;
}


# while the turn is kept, every client gets the same packets

sub check_replay {
    my ($t, $case) = @_;
    my $c = $t->request('GET', path($case, 'events'), port => $t->{port_pid},
                        headers => { Accept => 'text/event-stream' });
    my @packets = $c->packets();

    problem($case, 'another turn when it is read again')
        if ($c->status() // 0) == 200 && ($c->ended() // '') eq 'clean'
           && turn_id($c) eq
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

    # the next turn of the session must be a different one
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
