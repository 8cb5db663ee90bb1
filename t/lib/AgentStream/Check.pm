package AgentStream::Check;

# Checks what must be true of every turn, whatever its content, and compares
# replayed turns with t/data/expected.

use strict;
use warnings;

use FindBin;
use JSON::PP;
use List::Util qw(first);
use Test::More;

use AgentStream::Process qw(slurp);

use Exporter 'import';

our @EXPORT = qw(check_text check_turn compare_expected expected_turns
                 is_error_packet joined_text packet_json since_reset
                 stored_text turn_id types);

my $json = JSON::PP->new->utf8->canonical->allow_nonref;
my $data = "$FindBin::Bin/data";

my %rank = (pending => 0, in_progress => 1, completed => 2, failed => 2);


sub packet_json {
    my ($packet) = @_;

    return $packet->{json} //= eval { $json->decode($packet->{data}) } // {};
}


sub types {
    return map { packet_json($_)->{type} // 'none' } @_;
}


# one packet after the other: framing, ids, fields; then the turn as a whole

sub turn_problems {
    my (@packets) = @_;
    my ($turn, @problems, %call);
    my $seq = 0;

    return 'no packets' unless @packets;

    for my $packet (@packets) {
        my $p = packet_json($packet);
        my $where = 'packet ' . ++$seq;
        my ($id, $n) = ($packet->{id} // '') =~ /^(msg_\w+):(\d+)$/;

        $turn //= $id;

        push @problems, "$where: framing: $packet->{raw}" unless
            $packet->{raw} =~ /\Aevent: message\nid: \S+\ndata: \{.*\}\n\z/;
        push @problems, "$where: id " . ($packet->{id} // 'missing')
            unless defined $n && $n == $seq && $id eq $turn;
        push @problems, "$where: no JSON object with a type"
            unless defined $p->{type};
        push @problems, "$where: timestamp " . ($p->{timestamp} // 'missing')
            unless ($p->{timestamp} // '')
                   =~ /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/;

        my $call = $p->{toolCallId};

        if (($p->{type} // '') eq 'tool_call_start') {
            push @problems, "$where: $call starts twice"
                if defined $call{$call};
            $call{$call} = 0;

        } elsif (($p->{type} // '') eq 'tool_call_progress') {
            my $rank = $rank{ $p->{status} };

            push @problems, "$where: $call did not start"
                unless defined $call{$call};
            push @problems, "$where: $call goes back or on after its end"
                if ($call{$call} // 0) > $rank || ($call{$call} // 0) == 2;
            $call{$call} = $rank;
        }
    }

    my @types = types(@packets);
    my @terminal = grep { $types[$_] =~ /^(prompt_response|error)$/ }
                   0 .. $#types;

    push @problems, "begins with $types[0]"
        unless $types[0] eq 'turn_started' || "@types" eq 'error';
    push @problems, "terminal packets at (@terminal) of $#types"
        unless @terminal == 1 && $terminal[0] == $#types;

    return @problems;
}


sub check_turn {
    my ($client, $name, %args) = @_;

    local $Test::Builder::Level = $Test::Builder::Level + 1;

    my @problems = turn_problems($client->packets());

    push @problems, 'response ' . ($client->ended() // 'not ended')
        unless ($client->ended() // '') eq 'clean';

    if (!$args{quiet} || @problems) {
        ok(!@problems, "$name: one whole turn") or diag(join "\n", @problems);
    }

    return !@problems;
}


# the packets from the last "stream_reset" on, if there was one: a client that
# does not keep up is told to start again

sub since_reset {
    my ($client) = @_;
    my @packets = $client->packets();
    my @types = types(@packets);
    my ($reset) = grep { $types[$_] eq 'stream_reset' } reverse 0 .. $#types;

    splice @packets, 0, $reset if defined $reset;

    return bless { responses => [bless { packets => \@packets },
                   ref $client->response()] }, ref $client;
}


# the text that a client shows: all chunks except those declared void

sub joined_text {
    my ($client, $type) = @_;
    my @packets = $client->packets();
    my @chunk;

    for my $i (0 .. $#packets) {
        my $p = packet_json($packets[$i]);

        if ($p->{type} eq ($type // 'agent_message_chunk') && !$p->{_meta}) {
            $chunk[$i + 1] = $p;

        } elsif ($p->{type} eq 'chunks_discarded') {
            for my $seq ($p->{from} .. $p->{to}) {
                $chunk[$seq] = undef if $chunk[$seq]
                    && $chunk[$seq]{messageId} eq $p->{messageId};
            }
        }
    }

    return join '', map { $_->{content}{text} } grep { defined } @chunk;
}


# the same text from OpenCode's stored messages of the turn, up to the answer
# to somebody else's prompt; a compaction repeats our prompt

sub stored_text {
    my ($messages, $turn, $type) = @_;
    my ($mine, $repeats, %foreign) = (0, 0);
    my @texts;

    for my $message (@$messages) {
        my $info = $message->{info};
        my @parts = @{ $message->{parts} };

        if ($mine && $info->{role} eq 'user') {
            $foreign{ $info->{id} } = 1
                if !$repeats && grep { $_->{type} ne 'compaction'
                                       && !$_->{synthetic} && !$_->{ignored} }
                                @parts;
            $repeats = grep { $_->{overflow} } @parts;
        }

        $mine ||= $info->{id} eq $turn;
        next unless $mine && $info->{role} eq 'assistant' && !$info->{summary}
                    && !$foreign{ $info->{parentID} // '' };

        push @texts, map { $_->{text} }
            grep { $_->{type} eq ($type // 'text')
                   && !$_->{synthetic} && !$_->{ignored} }
            @parts;
    }

    return join '', @texts;
}


# checks that text and thoughts, as the client shows them, are what OpenCode
# stored

sub check_text {
    my ($client, $messages, $name) = @_;

    local $Test::Builder::Level = $Test::Builder::Level + 1;

    my @got = (joined_text($client),
               joined_text($client, 'agent_thought_chunk'));
    my @want = map { stored_text($messages, turn_id($client), $_) }
               qw(text reasoning);

    return ok("@got" eq "@want", "$name: text as stored")
           || diag("got  @got\nwant @want");
}


sub turn_id {
    my ($client) = @_;
    my ($first) = $client->packets();

    return ($first->{id} // '') =~ /^(\w+):/ ? $1 : '';
}


# [name, turn, session number, packets] of every turn that has expectations

sub expected_turns {
    my @turns;

    for my $file (glob "$data/expected/*.jsonl") {
        my ($name) = $file =~ m{([^/]+)\.jsonl$};
        my $sessions = $json->decode(slurp("$data/captures/$name.json"))
                            ->{sessions};
        my %packets;

        for my $line (split /\n/, slurp($file)) {
            my $e = $json->decode($line);
            push @{ $packets{ $e->{session} }{ $e->{turn} } }, $e->{packet};
        }

        for my $i (0 .. $#$sessions) {
            my $of = $packets{ $sessions->[$i]{id} };
            push @turns, map { [$name, $_, $i + 1, $of->{$_}] }
                         sort { $a <=> $b } keys %$of;
        }
    }

    return @turns;
}


sub compare_expected {
    my ($expected, $client, $name) = @_;

    local $Test::Builder::Level = $Test::Builder::Level + 1;

    my @want = split /\n/, normal(@$expected);
    my @got = split /\n/, normal(map { my %p = %{ packet_json($_) };
                                       delete $p{timestamp}; \%p }
                                 $client->packets());

    my $i = first { ($want[$_] // '') ne ($got[$_] // '') }
            0 .. ($#want > $#got ? $#want : $#got);

    ok(!defined $i, "$name: packets as expected")
        or diag('packet ' . ($i + 1) . ' of ' . @want
                . "\nexpected " . short($want[$i], $got[$i])
                . "\n     got " . short($got[$i], $want[$i]));

    return !defined $i;
}


# one line per packet, ids replaced by the order of their first appearance;
# "*" in an expectation stands for the id of the turn

sub normal {
    my (@packets) = @_;
    my (%name, %count);

    my $text = join '', map { $json->encode($_) . "\n" } @packets;

    $text =~ s/"\*"/"msg_000000000000AAAAAAAAAAAAAA"/g;
    $text =~ s{\b((ses|msg|prt|que|per)_[0-9A-Za-z]{10,})\b}
              { $name{$1} //= "$2#" . ++$count{$2} }ge;

    return $text;
}


# the relevant part of a line: from shortly before the first difference

sub short {
    my ($line, $other) = @_;

    return 'nothing' unless defined $line;

    my $same = ($line ^ ($other // '')) =~ /^(\0+)/ ? length $1 : 0;
    my $from = $same > 60 ? $same - 60 : 0;

    return substr($line, 0, 60) . ' ... ' . substr($line, $from, 200);
}


# checks an error that occurs before the stream starts: its status, and the one
# packet with the same code

sub is_error_packet {
    my ($response, $status, $name) = @_;

    local $Test::Builder::Level = $Test::Builder::Level + 1;

    my $body = $response->{body} // '';
    my $sse = ($response->header('Content-Type') // '')
              =~ m{^text/event-stream};
    my $frame = qr/\Aevent: message\n(?:id: \S+\n)?data: (.*)\n\n\z/;
    my ($data) = $sse ? $body =~ $frame : $body;
    my $p = eval { $json->decode($data // '') } // {};
    my $code = $p->{code};

    ok(($response->{status} // 0) == $status && ($p->{type} // '') eq 'error'
       && length($p->{message} // '') && defined $code && $code == $status
       && exists $p->{details}, $name)
        or diag("status " . ($response->{status} // 'none') . ", body $body");

    return $p;
}


1;
