#!/usr/bin/perl

# Where ACP has a shape for a packet, the packet is of that shape: all replayed
# captures and some real turns against ACP's own JSON schema.  The deviations
# are those of t/data/acp-deviations.json, all of them and no others, and
# docs/protocol.md lists the same.
#
# Broken by: a member renamed, added or of another type in acp.c; a `status`,
# `kind`, `stopReason` or block type that ACP does not know; a deviation that
# was mended, or added, without a word in the list and in the document.

use FindBin;
use lib "$FindBin::Bin/lib";

use AgentStream;
use AgentStream::Process qw(slurp);
use AgentStream::Replay;
use AgentStream::Schema;

my $SECTION = 'Deviations';

my $known = known_deviations();
my @packets;

# replayed, with each set of kinds

for my $kinds (qw(seed acp)) {
    my $t = AgentStream->new(timeout => 90, location => "
        agentstream_tool_throttle 0;
        agentstream_tool_kinds $kinds;");

    push @packets, map { $_->{data} }
                   map { $_->{client}->packets() } replay_all($t, '');
    $t->finish();
}

my $report = check_schema('replays', @packets);

is(join("\n", sort keys %{ $report->{deviations} }),
   join("\n", sort keys %{ $known->{deviations} }),
   'every known deviation is still one');

# real turns

my $t = AgentStream->new(opencode => 'real', timeout => 120,
                         config => { permission => { bash => {
                             '*' => 'allow', 'echo hi' => 'ask' } } });
my $dir = $t->{workspace};

my %turns = (
    text => ['!think "Delta maple."', '!say "Harbor 😀."'],
    files => [qq(!call read {"filePath":"$dir/README.md"}), '!next',
              qq(!call write {"filePath":"$dir/new","content":"a\\n"}),
              qq(!call read {"filePath":"$dir/none"}),
              qq(!call glob {"pattern":"*.md"}), '!next', '!say "Done."'],
    plan => ['!call todowrite {"todos":[{"content":"a","status":"pending",'
             . '"priority":"high"}]}', '!next', '!say "Planned."'],
    permission => ['!call bash {"command":"echo hi","description":"x"}',
                   '!next', '!say "Ran."'],
    task => ['!call task {"description":"x","prompt":"!say \"Inside.\"",'
             . '"subagent_type":"general"}', '!next', '!say "Back."'],
    length => ['!say "Cut"', '!finish length'],
    image => [qq(!call read {"filePath":"$dir/dot.png"}), '!next',
              '!say "Seen."'],
);

open my $png, '>:raw', "$dir/dot.png" or die "dot.png: $!\n";
print $png pack 'H*', '89504e470d0a1a0a0000000d4948445200000001000000010802000'
    . '000907753de0000000c49444154789c63f8cfc0000003010100c9fe92ef0000000049'
    . '454e44ae426082';
close $png;

my %client = map { $_ => $t->send_message($t->create_session(),
                                          join "\n", $_, @{ $turns{$_} }) }
             sort keys %turns;

allow($client{permission});
$t->wait([values %client], timeout => 60);
check_turn($client{$_}, $_) for sort keys %client;

my @real = map { $_->{data} } map { $_->packets() } values %client;
$report = check_schema('real turns', @real);

for my $type (qw(agent_message_chunk agent_thought_chunk tool_call_start
                 tool_call_progress agent_plan_update request_permission
                 prompt_response))
{
    ok($report->{seen}{$type}, "real turns: $type is among them");
}

for my $block (qw("type":"image" "type":"diff" "type":"content")) {
    ok(scalar(grep { /"tool_call_update".*\Q$block\E/ } @real),
       "real turns: a tool's $block is among them");
}

# the document: rows of "| `packet` | `path` | …" in its section

my $protocol = slurp("$FindBin::Bin/../docs/protocol.md");
my ($section) = $protocol =~ /^#+ [^\n]*$SECTION[^\n]*\n(.*?)(?=^# |^## |\z)/ms;

is(join("\n", sort map { "$_->[0] $_->[1]" } rows($section // '')),
   join("\n", sort map { /^(\S+ \S+)/ } keys %{ $known->{deviations} }),
   "docs/protocol.md, $SECTION: the same list");

$t->done();


sub rows {
    my ($text) = @_;
    my @rows;

    push @rows, [$1, $2]
        while $text =~ /^\| *`(\w+)` *\| *`([\w.\[\]]+)`/mg;

    return @rows;
}


# says yes to OpenCode, behind the module's back

sub allow {
    my ($c) = @_;
    my $asked;

    $t->wait([$c], timeout => 20, until => sub {
        ($asked) = grep { $_->{type} eq 'request_permission' }
                   map { packet_json($_) } $c->packets();
    });

    $t->request('POST', "/permission/$asked->{permissionId}/reply?directory="
        . $dir, port => $t->{port_opencode}, body => { reply => 'once' });
}
