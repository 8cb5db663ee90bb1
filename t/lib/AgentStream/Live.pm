package AgentStream::Live;

# Runs turns on a real OpenCode, many at a time, with actions while they run,
# and checks properties that every turn must have:
#
#     play($t, { name => 'abort', orders => ['!hang'],
#                on => { turn_started => sub { my ($packet, $case) = @_ } },
#                ends => 'cancelled' }, …);
#
# Text, thoughts and tool calls equal what OpenCode stored, in the session and
# in each of its subagents; there is one terminal packet, in time.

use strict;
use warnings;

use JSON::PP;
use Test::More;

use AgentStream::Check;
use AgentStream::Process qw(scaled);

use Exporter 'import';

our @EXPORT = qw(ask_opencode calls_of play said stored_calls);

my $json = JSON::PP->new->canonical->allow_nonref;
my $SECONDS = 60;
my %status = (completed => 'completed', error => 'failed');


# a request to OpenCode itself, not through the module

sub ask_opencode {
    my ($t, $method, $path, $body) = @_;

    my $c = $t->request($method, $path, port => $t->{port_opencode},
                        defined $body ? (body => $body) : ());

    return eval { JSON::PP->new->utf8->allow_nonref->decode($c->body()) };
}


# name; orders, or body for the whole body; session, location, directory; on =>
# {type => sub}; ends => stop reason, or error message, as a pattern; has =>
# [types]; seconds it may take, counted from {acted} if that is set; core: as
# in agentstream_packets; unstored: do not compare with OpenCode's stored state

sub play {
    my ($t, @cases) = @_;

    for my $case (@cases) {
        my $at = $case->{location} // '/sessions';

        $case->{session} //= $t->create_session();
        $case->{started} = Time::HiRes::time();
        $case->{client} = $t->open('POST',
            "$at/$case->{session}/send-message",
            body => $case->{body} // { content => join "\n", $case->{name},
                                       @{ $case->{orders} } });
    }

    my %case = map { $_->{client} => $_ } @cases;
    my $limit = (sort { $b <=> $a } map { $_->{seconds} // $SECONDS }
                 @cases)[0];

    $t->wait([map { $_->{client} } @cases], timeout => $limit,
             until => sub { react($case{ $_[0] }); 0 });

    check_case($t, $_) for @cases;
}


# handles each packet once, when it arrives

sub react {
    my ($case) = @_;
    my @packets = $case->{client}->packets();

    while (($case->{next} //= 0) < @packets) {
        my $packet = packet_json($packets[ $case->{next}++ ]);
        my $do = $case->{on}{ $packet->{type} };

        $do->($packet, $case) if $do;
    }
}


sub check_case {
    my ($t, $case) = @_;
    my ($c, $name) = @{$case}{qw(client name)};
    my @packets = map { packet_json($_) } $c->packets();
    my %types = map { $_->{type} => 1 } @packets;
    my $from = $case->{after} ? $case->{acted} // 0 : $case->{started};
    my $limit = $case->{after} // $case->{seconds} // $SECONDS;
    my $took = $c->ended() ? ($c->packets())[-1]{time} - $from : 1e9;

    local $Test::Builder::Level = $Test::Builder::Level + 2;

    $case->{core} or check_turn($c, $name)
        or diag(join ' ', types($c->packets()));

    like(($packets[-1] // {})->{stopReason} // ($packets[-1] // {})->{message}
         // 'nothing', qr/^(?:$case->{ends})/, "$name: how it ends")
        if defined $case->{ends};

    ok($took < scaled($limit), sprintf '%s: in time, %.1f s', $name, $took);
    ok($types{$_}, "$name: $_ is there") for @{ $case->{has} // [] };

    check_stored($t, $case, @packets) unless $case->{unstored}
                                             || $case->{core};
}


sub check_stored {
    my ($t, $case, @packets) = @_;
    my ($c, $name) = @{$case}{qw(client name)};
    my $root = $case->{session};
    my %sessions = map { $_ => 1 } $root,
                   map { ($_->{_meta} // {})->{sessionId} // () } @packets;

    for my $id (sort keys %sessions) {
        my $messages = $t->messages($id);
        my $who = $id eq $root ? $name : "$name, subagent";
        my $of = $id eq $root ? undef : $id;
        my $first = $of ? $messages->[0]{info}{id} : turn_id($c);

        is(said($c, $of), stored_text($messages, $first), "$who: text");
        is(said($c, $of, 'agent_thought_chunk'),
           stored_text($messages, $first, 'reasoning'), "$who: thoughts");
        is($json->encode([calls_of($c, $of)]),
           $json->encode([stored_calls($messages, $first)]), "$who: calls");
    }
}


# what a client shows of one session: all chunks except those declared void

sub said {
    my ($c, $session, $type) = @_;
    my @packets = map { packet_json($_) } $c->packets();
    my @chunks;

    for my $i (0 .. $#packets) {
        my $p = $packets[$i];

        if ($p->{type} eq 'chunks_discarded') {
            @chunks = grep { $_->[0] < $p->{from} || $_->[0] > $p->{to}
                             || $_->[1]{messageId} ne $p->{messageId} }
                      @chunks;

        } elsif ($p->{type} eq ($type // 'agent_message_chunk')
                 && session_of($p) eq ($session // ''))
        {
            push @chunks, [$i + 1, $p];
        }
    }

    return join '', map { $_->[1]{content}{text} } @chunks;
}


sub session_of {
    my ($packet) = @_;

    return ($packet->{_meta} // {})->{sessionId} // '';
}


# the last state of every tool call, in the order in which they started

sub calls_of {
    my ($c, $session) = @_;
    my (@order, %call);

    for my $p (map { packet_json($_) } $c->packets()) {
        next unless $p->{type} =~ /^tool_call_/
                    && session_of($p) eq ($session // '');

        push @order, $p->{toolCallId} if $p->{type} eq 'tool_call_start';
        $call{ $p->{toolCallId} } = $p;
    }

    return map { my $p = $call{$_}; my $out = $p->{rawOutput} // {};
        { id => plain_id($_), tool => $p->{_meta}{toolName} // 'none',
          status => $p->{status}, input => $p->{rawInput},
          output => $out->{output} // $out->{error} } } @order;
}


# without the appended number: OpenCode stores the model's id

sub plain_id {
    my ($id) = @_;

    return $id =~ s/#\d+$//r;
}


# the same from OpenCode's messages, from the given one on

sub stored_calls {
    my ($messages, $first) = @_;
    my $mine = 0;

    return map { { id => $_->{callID}, tool => $_->{tool},
                   status => $status{ $_->{state}{status} }
                             // $_->{state}{status},
                   input => $_->{state}{input},
                   output => $_->{state}{output} // $_->{state}{error} } }
           grep { $_->{type} eq 'tool' }
           map { @{ $_->{parts} } }
           grep { $mine ||= $_->{info}{id} eq $first } @$messages;
}


1;
