#!/usr/bin/perl

# Every captured turn, live and then from what is stored: the history tells the
# same packets, but for timestamps, states on the way, how text was cut, and
# what OpenCode does not store.
#
# Broken by: a packet that only an event can make; a turn that begins or ends
# elsewhere in the history; a subagent that is forgotten.

use FindBin;
use lib "$FindBin::Bin/lib";

use AgentStream;

my $json = JSON::PP->new->utf8->canonical->allow_nonref;

# Not stored: what was asked, retries, errors that no message has; the name of
# a tool that became "invalid"; that two prompts had one answer.

my $LOST = qr/^(question|permission|request_permission|session_status
                |chunks_discarded|heartbeat|user_message)/x;
my %DIFFERENT = map { $_ => 1 } qw(unknown-agent unknown-model
                                   invalid-args invalid-tool busy-prompt);

my $t = AgentStream->new(timeout => 300,
                         location => 'agentstream_tool_throttle 0;');
my %done;

for (expected_turns()) {
    my ($name, $turn, $session) = @$_;

    next if $done{"$name:$turn:$session"}++ || $DIFFERENT{$name};

    my $s = $t->session();
    my $c = $t->turn($s, "replay:$name:$turn:$session");
    my $r = $t->request('GET', "/sessions/$s/messages", timeout => 20);
    my $list = eval { $json->decode($r->body()) } // [];

    my $live = summary(map { packet_json($_) } $c->packets());
    my $stored = summary(@$list);

    is($stored, $live, "$name:$turn:$session: as it was live");
}

$t->done();


# subagents and plans are told after their call, so the order is not compared

sub summary {
    my (@packets) = @_;
    my (@out, %chunk);

    for my $p (@packets) {
        my %p = %$p;

        delete $p{timestamp};
        next if $p{type} =~ $LOST
                || $p{type} eq 'tool_call_progress'
                   && $p{status} !~ /^(completed|failed)$/;

        if ($p{type} =~ /_chunk$/) {
            my $key = "$p{type} $p{messageId}";

            if ($chunk{$key}) {
                $chunk{$key}{content}{text} .= $p{content}{text};
                next;
            }

            $p{content} = { %{ $p{content} } };
            $chunk{$key} = \%p;
        }

        push @out, \%p;
    }

    return join "\n", sort map { $json->encode($_) } @out;
}
