#!/usr/bin/perl

# docs/protocol.md is true: each of its examples is a packet as the module sends
# it, with the same members in the same order; every type of packet has a row
# and an example; every event that the module knows has a row.
#
# Broken by: a member added, renamed, moved or of another type, in acp.c or in
# the document alone; a packet or an event nobody wrote about.

use FindBin;
use lib "$FindBin::Bin/lib";

use AgentStream;
use AgentStream::Process qw(slurp);
use AgentStream::Replay;

# docs/protocol.md, "Packets"

my @types = qw(turn_started agent_message_chunk agent_thought_chunk
    tool_call_start tool_call_progress agent_plan_update question_asked
    question_resolved request_permission permission_resolved subagent_started
    session_status chunks_discarded context_usage compaction heartbeat
    prompt_response error stream_reset);

# members whose value is OpenCode's, or the model's, whatever it is

my %foreign = map { $_ => 1 } qw(rawInput metadata questions answers details);

my $protocol = slurp("$FindBin::Bin/../docs/protocol.md");
my $t = AgentStream->new(timeout => 120, location => '
    agentstream_tool_throttle 0;
    agentstream_heartbeat 300ms;');

my (%sent, %shapes);

note_packets(map { $_->{client} } replay_all($t, ''));
note_packets(others());

# ---- the examples

my %example;

while ($protocol =~ /^<!-- packet: (\w+) -->\n```json\n(.*?)^```$/msg) {
    my ($type, $text) = ($1, $2);
    my $n = ++$example{$type};
    my $p = eval { JSON::PP->new->utf8->decode($text) };

    ok($p, "$type, example $n: JSON") or diag($@);
    is($p->{type}, $type, "$type, example $n: its type");

    ok($shapes{$type}{ shape($text) }, "$type, example $n: as it is sent")
        or diag(shape($text), "\nnot among\n",
                join "\n", sort keys %{ $shapes{$type} // {} });
}

my @blocks = $protocol =~ /^```json$/mg;
my $examples = 0;
$examples += $_ for values %example;

is(scalar @blocks, $examples, 'every JSON block is an example of a packet');

# ---- the tables

my %row = map { $_ => 1 } section('Packets') =~ /^\| *\[?`(\w+)`/mg;

for my $type (@types) {
    ok($example{$type}, "$type: an example");
    ok($row{$type}, "$type: a row");
    ok($sent{$type}, "$type: was sent");
}

my %known = map { $_ => 1 } @types;

is(join(' ', grep { !$known{$_} } sort keys %sent, keys %example), '',
   'no packet that docs/protocol.md does not know');

my $events = join "\n", section("From OpenCode's events to packets")
                        =~ /^\| *(.*?) *\|/mg;

for my $event (slurp("$FindBin::Bin/../src/pure/ngx_http_agentstream_opencode.c")
               =~ /_match\("([\w.]+)"\)/g)
{
    like($events, qr/`\Q$event\E`/, "$event: a row");
}

$t->done();


# ---- what no capture shows

sub others {
    my @clients = (
        $t->turn($t->session(), 'text:3:16:2 fault=wrongfinal'),
        $t->turn($t->session(), 'text:3:16:2 start=900'));

    # an error of the module's own

    $t->control('config', { rules => [
        { method => 'GET', url => '^/session/ses_\w+$', status => 500,
          body => '{}', times => 1 }] });
    push @clients, $t->turn($t->session(), 'text:3:16:2');

    # a turn that is not kept: another nginx knows nothing of it

    my $session = $t->session();
    my $done = $t->turn($session, 'text:3:16:2');
    my $other = AgentStream->new(opencode => $t->{port_opencode});

    push @clients, $other->request('GET', "/sessions/$session/events",
        headers => { 'Last-Event-ID' => ($done->packets())[1]{id},
                     Accept => 'text/event-stream' });
    $other->finish();

    return @clients;
}


sub note_packets {
    for my $packet (map { $_->packets() } @_) {
        my $type = packet_json($packet)->{type};

        $sent{$type} = 1;
        $shapes{$type}{ shape($packet->{data}) } = 1;
    }
}


sub section {
    my ($title) = @_;

    return $protocol =~ /^## \Q$title\E\n(.*?)(?=^## |\z)/ms ? $1 : '';
}


# JSON text with its order of members, without its values

sub shape {
    my ($text) = @_;

    pos($text) = 0;

    return value(\$text);
}


sub value {
    my ($text) = @_;

    return object($text) if $$text =~ /\G\s*\{/gc;
    return list($text) if $$text =~ /\G\s*\[/gc;
    return 'string' if $$text =~ /\G\s*"(?:[^"\\]++|\\.)*+"/gc;
    return 'number' if $$text =~ /\G\s*-?\d[-+.\deE]*/gc;
    return $1 if $$text =~ /\G\s*(true|false|null)/gc;

    die 'not JSON: ' . substr($$text, pos($$text) // 0, 40) . "\n";
}


sub object {
    my ($text) = @_;
    my @members;

    until ($$text =~ /\G\s*\}/gc) {
        $$text =~ /\G\s*,?\s*"((?:[^"\\]++|\\.)*+)"\s*:/gc
            or die "no member\n";

        my $name = $1;
        my $value = value($text);

        push @members, $foreign{$name} ? $name : "$name: $value";
    }

    return '{' . join(', ', @members) . '}';
}


sub list {
    my ($text) = @_;
    my %kinds;

    until ($$text =~ /\G\s*\]/gc) {
        $$text =~ /\G\s*,/gc;
        $kinds{ value($text) } = 1;
    }

    return '[' . join(' ', sort keys %kinds) . ']';
}
