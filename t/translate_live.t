#!/usr/bin/perl

# Turns on real OpenCode: every built-in tool, and the paths that no capture
# shows.  What the client saw equals what OpenCode stored (AgentStream::Live).
#
# Broken by: a retry whose first half stays in the text; a call id used twice
# that goes on with the first call; a subagent's packet without its _meta, or
# its idle taken for the turn's; an abort, an error without busy, a deletion
# or a disposal that leaves the turn open; a throttle that lets every snapshot
# of a tool's output through.

use FindBin;
use lib "$FindBin::Bin/lib";

use AgentStream;
use AgentStream::Live;
use AgentStream::Schema;
use File::Path qw(make_path);
use MIME::Base64 qw(encode_base64);

my $t = AgentStream->new(opencode => 'real', timeout => 600,
    config => {
        subagent_depth => 3,
        permission => { bash => { '*' => 'allow', map { ("$_ ask*" => 'ask') }
                                  qw(echo printf test true) } },
        agent => { nest => { mode => 'subagent', description => 'Nests',
                             permission => { task => 'allow' } } },
    },
    server => '
        location /core {
            agentstream /opencode/;
            agentstream_packets core;
        }

        location /kinds {
            agentstream /opencode/;
            agentstream_tool_kinds acp;
        }');

my $dir = $t->{workspace};
my $json = JSON::PP->new->canonical->allow_nonref;
my ($model) = AgentStream::Process::slurp("$t->{dir}/model.log")
              =~ m{model: (http://[^/]+)};
my @all;

write_file("$dir/.opencode/skills/tidy/SKILL.md",
           "---\nname: tidy\ndescription: Tidies.\n---\nKeep it tidy.\n");
write_file("$dir/$_.txt", "one\ntwo\n") for qw(a b c);

my $png = pack 'H*', '89504e470d0a1a0a0000000d494844520000000100000001080200000'
    . '0907753de0000000c49444154789c63f8cfc0000003010100c9fe92ef0000000049454e'
    . '44ae426082';
write_file("$dir/dot.png", $png);


# the first prompt in a directory is slow

play($t, { name => 'warm', orders => ['!say "Warm."'], ends => 'end_turn' });

# ---- every built-in tool

wave('tools',
    tool('bash', { command => 'echo one; echo two >&2; exit 3',
                   description => 'x' }),
    tool('read', { filePath => "$dir/a.txt" }),
    tool('write', { filePath => "$dir/new.txt", content => "é\n" }),
    { name => 'edit', orders => [
        call('read', { filePath => "$dir/b.txt" }), '!next',
        call('edit', { filePath => "$dir/b.txt", oldString => 'two',
                       newString => '2' }), '!next', '!say "Edited."'] },
    tool('glob', { pattern => '*.txt' }),
    tool('grep', { pattern => 'one', path => $dir }),
    tool('list', { path => $dir }),
    tool('webfetch', { url => "$model/page/harbor", format => 'text' }),
    tool('todowrite', { todos => [{ content => 'a', status => 'cancelled',
                                    priority => 'low' }] },
         has => ['agent_plan_update']),
    tool('skill', { name => 'tidy' }),
    tool('task', { description => 'x', subagent_type => 'general',
                   prompt => "!think \"Hm.\"\n!say \"In. \"\n"
                             . call('glob', { pattern => '*.txt' })
                             . "\n!next\n!say \"Out.\"" },
         has => ['subagent_started']),
    { %{ tool('apply_patch', { patchText => join "\n", '*** Begin Patch',
              '*** Add File: patched.txt', '+three', '*** End Patch' }) },
      model => { providerID => 'lab', modelID => 'gpt-5.1' } },
    tool('no_such_tool', { a => 1 }),
    { name => 'bad arguments',
      orders => ['!badcall read "{\"filePath\": 5"', '!next', '!say "Oh."'] },
    { name => 'image', orders => [call('read', { filePath => "$dir/dot.png" }),
                                  '!next', '!say "Seen."'] },
);

# ---- text

# what was said must have gone through before the connection is cut

my @cut = ('!sleep 700', '!cut 1');
my $emoji = '😀👩‍👩‍👧é✓\"\\\\\n';

wave('text',
    { name => 'retry after partial text', has => ['chunks_discarded'],
      orders => ['!say "One two three "', @cut, '!say "four."'] },
    { name => 'retry after partial thoughts', has => ['chunks_discarded'],
      orders => ['!think "One two."', '!say "Three "', @cut,
                 '!say "four."'] },
    { name => 'retry in the second step', has => ['chunks_discarded'],
      orders => ['!say "First. "', call('glob', { pattern => '*.md' }),
                 '!next', '!say "One two "', @cut, '!say "three."'] },
    { name => 'retry after a call', orders => ['!say "Calling. "',
          call('glob', { pattern => '*.md' }), @cut, '!next',
          '!say "Done."'], ends => '\w' },
    { name => 'error in the stream, then none', has => ['session_status'],
      orders => ['!http 503 {"times":1}', '!say "At last."'] },
    { name => 'emoji in halves', orders => ['!split 1', qq(!say "$emoji"),
                                            qq(!think "$emoji")] },
    { name => '200 kB',
      orders => ['!split 333', '!repeat 20000 "é✓😀 word\n"'] },
    { name => 'a call id used twice', orders => [
          '!callid call_same', call('glob', { pattern => '*.txt' }), '!next',
          '!callid call_same', call('glob', { pattern => '*.md' }), '!next',
          '!callid call_same', call('read', { filePath => "$dir/a.txt" }),
          '!next', '!say "Thrice."'] },
    { name => 'length', ends => 'max_tokens',
      orders => ['!say "Cut"', '!finish length'] },
    { name => 'content filter', ends => 'refusal',
      orders => ['!say "No"', '!finish content_filter'] },
    { name => 'key refused', ends => 'No key', body => {
          content => "!http 401 {\"body\":{\"error\":{\"message\":\"No key\"}}}"
      } },
);

is(join(' ', map { $_->{toolCallId} } grep { $_->{type} eq 'tool_call_start' }
             packets_of('a call id used twice')),
   'call_same call_same#2 call_same#3', 'a call id used twice: ids');

is(survivors($_), '', "$_: nothing is left when it begins again")
    for grep { /^retry (after partial|in)/ } map { $_->{name} } @all;

# ---- questions and permissions, answered behind the module's back

my $question = call('question', { questions => [{ question => 'Which?',
    header => 'Colour', options => [map { { label => $_, description => $_ } }
                                    qw(Blue Red)] }] });

wave('asked',
    { name => 'question', has => ['question_resolved'],
      orders => [$question, '!next', '!say "So it is."'],
      on => { question_asked => sub { reply('question',
          $_[0]{questionId}, 'reply', { answers => [['Red']] }) } } },
    { name => 'question rejected', has => ['question_resolved'],
      orders => [$question, '!next', '!say "Well."'],
      on => { question_asked => sub { reply('question',
          $_[0]{questionId}, 'reject', {}) } } },
    permission('once', 'echo'), permission('always', 'printf'),
    permission('reject', 'true'),
    { name => 'permission of a subagent', has => ['permission_resolved'],
      orders => [call('task', { description => 'x', subagent_type => 'general',
          prompt => call('bash', { command => 'test ask',
                                   description => 'x' })
                    . "\n!next\n!say \"Ran.\"" }), '!next', '!say "Back."'],
      on => { request_permission => \&allow } },
);

my %resolved = map { my $name = $_; ($name => (grep {
    $_->{type} =~ /_resolved$/ } packets_of($name))[0] // {}) }
    map { $_->{name} } @all;

is($json->encode([@{ $resolved{question} }{qw(outcome answers)}]),
   '["answered",[["Red"]]]', 'question: the answer');
is($json->encode([@{ $resolved{'question rejected'} }{qw(outcome answers)}]),
   '["rejected",null]', 'question rejected: the answer');
is($resolved{"permission $_"}{reply}, $_, "permission $_: the reply")
    for qw(once always reject);
ok($resolved{'permission of a subagent'}{_meta}{sessionId},
   'permission of a subagent: _meta');

# ---- subagents

my $inner = sub { my ($n, @more) = @_;
    return call('task', { description => "task $n", subagent_type => 'nest',
                          prompt => join "\n", "!say \"Begin $n. \"", @more,
                                               "!say \"End $n.\"" }) };

wave('subagents',
    { name => 'nested', orders => ['!say "Top. "',
          $inner->(1, $inner->(2, call('glob', { pattern => '*.md' }),
                               '!next'), '!next'), '!next', '!say "Done."'],
      has => ['subagent_started'] },
    { name => 'parallel', orders => [$inner->(1), $inner->(2), $inner->(3),
                                     '!next', '!say "All done."'] },
);

is(scalar(grep { $_->{type} eq 'subagent_started' } packets_of('nested')), 2,
   'nested: two of them');
is(scalar(grep { $_->{type} eq 'subagent_started' } packets_of('parallel')), 3,
   'parallel: three of them');

# ---- other ends

my $other = "$t->{dir}/other";
make_path($other);

wave('ends',
    { name => 'abort in text', ends => 'cancelled', after => 8,
      orders => ['!pace 30', '!say "' . 'word ' x 300 . '"'],
      on => { agent_message_chunk => \&abort } },
    { name => 'abort in a tool', ends => 'cancelled', after => 20,
      orders => [call('bash', { command => 'echo go; sleep 30',
                                description => 'x' })],
      on => { tool_call_progress => sub {
          abort(@_) if $_[0]{status} eq 'in_progress' } } },
    { name => 'abort while waiting for a retry', after => 20,
      ends => 'cancelled|end_turn',
      orders => ['!http 503 {"headers":{"retry-after":"30"}}'],
      on => { session_status => \&abort } },
    { name => 'abort in a subagent', ends => 'cancelled', after => 8,
      orders => [call('task', { description => 'x', prompt => '!hang',
                                subagent_type => 'general' })],
      on => { subagent_started => \&abort } },
    { name => 'unknown agent', ends => 'Agent', seconds => 20,
      body => { content => 'hi', agent => 'nobody' } },
    { name => 'unknown model', ends => 'Model', seconds => 20,
      body => { content => 'hi', model => { providerID => 'lab',
                                            modelID => 'none' } } },
    { name => 'disposed', ends => 'cancelled', after => 8,
      session => ask_opencode($t, 'POST', "/session?directory=$other", {})
                     ->{id},
      orders => ['!pace 30', '!say "' . 'word ' x 300 . '"'],
      on => { agent_message_chunk => sub { once(@_, sub {
          ask_opencode($t, 'POST', "/instance/dispose?directory=$other", {})
      }) } } },
    { name => 'compaction', has => ['compaction'],
      orders => ['!say "Full. "', '!usage {"prompt_tokens":190000}',
                 call('glob', { pattern => '*.md' }), '!next',
                 '!say "Empty."'] },
);

# the same sessions again: nothing of their first turn is left

my $scripted = { providerID => 'lab', modelID => 'scripted' };

wave('again', map { { name => "$_->{name}, again", session => $_->{session},
                      orders => ['!say "Again."'], model => $scripted } }
              grep { $_->{name} =~ /^(abort|unknown|disposed)/ } @all);

is(said(case($_)->{client}), 'Again.', "$_: that and no more")
    for grep { /again$/ } map { $_->{name} } @all;

# what was said is taken back, which OpenCode allows for a part only

wave('removed',
    { name => 'part removed', has => ['chunks_discarded'], orders => [
          '!say "First. "', call('glob', { pattern => '*.md' }), '!next',
          '!say "Second. "', '!sleep 5000', '!say "Third."'],
      on => { agent_message_chunk => \&remove } },
);

# alone, so that the request is served before the answer is over

wave('deleted',
    { name => 'deleted', ends => '(?i).*(deleted|not found)',
      after => 9, unstored => 1,
      orders => ['!say "Some words. "', '!sleep 6000', '!say "More."'],
      on => { agent_message_chunk => sub { once(@_, sub {
          ask_opencode($t, 'DELETE', "/session/$_[1]{session}") }) } } },
);

# ---- settings

my @core = qw(agent_message_chunk tool_call_start
              tool_call_progress prompt_response error);
my $both = [@{ tool('task', { description => 'x', subagent_type => 'general',
                              prompt => '!say "In."' })->{orders} }];

wave('settings',
    { name => 'core', location => '/core', core => 1,
      orders => ['!think "Hm."', '!say "A. "', @$both] },
    { name => 'core blocks', location => '/core', core => 1, orders => [
          call('write', { filePath => "$dir/core.txt", content => 'x' }),
          call('read', { filePath => "$dir/dot.png" }), '!next',
          '!say "Done."'] },
    { name => 'kinds', location => '/kinds', orders => [
          call('bash', { command => 'true', description => 'x' }),
          call('glob', { pattern => '*.md' }),
          call('grep', { pattern => 'x', path => $dir }),
          call('read', { filePath => "$dir/c.txt" }), '!next',
          call('edit', { filePath => "$dir/c.txt", oldString => 'one',
                         newString => '1' }),
          call('write', { filePath => "$dir/k.txt", content => 'x' }),
          call('webfetch', { url => "$model/page/x", format => 'text' }),
          '!next', '!say "Done."'] },
    { name => '40 kB of output', orders => [
          call('bash', { description => 'x', command =>
              'for i in $(seq 400); do printf "%0100d\n" $i; sleep 0.005; '
              . 'done' }), '!next', '!say "Long."'] },
    { name => 'blocks', body => { content => [
          { type => 'text', text => '!say "Got it."' },
          { type => 'image', mimeType => 'image/png',
            data => encode_base64($png, '') },
          { type => 'resource_link', uri => "file://$dir/a.txt",
            name => 'a.txt' },
          { type => 'resource', resource => { uri => 'file:///x',
                                              text => 'Embedded.' } }] } },
    { name => 'passed on', body => { content => '!say "Yes."',
          agent => 'plan', system => 'Be brief.', variant => 'high',
          tools => { bash => JSON::PP::false } } },
);

my @seen = packets_of('core');
my %core = map { $_ => 1 } @core;

is(join(' ', grep { !$core{$_} } map { $_->{type} } @seen), '',
   'core: only its five types');
is(scalar(grep { exists $_->{messageId} || exists $_->{usage}
                 || %{ $_->{_meta} // {} } } @seen), 0,
   'core: no fields but its own');
is(join('', map { $_->{content}{text} } grep {
        $_->{type} eq 'agent_message_chunk' } @seen), 'A. Done.',
   'core: nothing of the subagent');

my @blocks = map { @{ $_->{content} // [] } } grep {
                 $_->{type} eq 'tool_call_progress' } packets_of('core blocks');

ok(@blocks >= 2, 'core: what tools have said');
is(join(' ', grep { $_ ne 'text' } map { $_->{content}{type} // $_->{type} }
        @blocks), '', 'core: no diffs and no images');

my %kind = map { ($_->{_meta}{toolName} => $_->{kind}) }
           grep { $_->{type} eq 'tool_call_start' } packets_of('kinds');

is_deeply(\%kind, { bash => 'execute', glob => 'search', grep => 'search',
    read => 'read', edit => 'edit', write => 'edit', webfetch => 'fetch' },
    'kinds');

my $long = case('40 kB of output');
my $bytes = 0;
$bytes += length $_->{raw} for $long->{client}->packets();
my ($bash) = calls_of($long->{client});

cmp_ok(length $bash->{output}, '>=', 40_000, '40 kB of output: all of it');
cmp_ok($bytes, '<=', 5 * length $bash->{output},
       '40 kB of output: journal ' . int($bytes / 1000) . ' kB');

my ($user) = @{ $t->messages(case('blocks')->{session}) };

is(join(' ', map { $_->{type} } grep { !$_->{synthetic} } @{ $user->{parts} }),
   'text file file text', 'blocks: as OpenCode stored them');

($user) = @{ $t->messages(case('passed on')->{session}) };

is($json->encode([@{ $user->{info} }{qw(agent system)},
                  $user->{info}{tools} // $user->{info}{model}{variant}]),
   '["plan","Be brief.",{"bash":false}]', 'passed on: as OpenCode stored it');

check_schema('all turns', map { $_->{data} } map { $_->{client}->packets() }
                          @all);

$t->done();


# ---- cases

sub wave {
    my ($name, @cases) = @_;
    my $start = time();

    for my $case (@cases) {
        $case->{ends} //= 'end_turn';
        $case->{body} = { content => join("\n", $case->{name},
                                          @{ $case->{orders} }),
                          model => delete $case->{model} } if $case->{model};
    }

    play($t, @cases);
    push @all, @cases;

    note(sprintf '%s: %d turns in %.1f s', $name, scalar @cases,
         time() - $start);
}


sub call {
    my ($tool, $input) = @_;

    return "!call $tool " . $json->encode($input);
}


sub tool {
    my ($tool, $input, %more) = @_;

    return { name => $tool, %more,
             orders => [call($tool, $input), '!next', '!say "Done."'] };
}


# "always" is for the program, whatever its arguments

sub permission {
    my ($reply, $program) = @_;

    return { name => "permission $reply", has => ['permission_resolved'],
        orders => [call('bash', { command => "$program ask",
                                  description => 'x' }),
                   '!next', '!say "Asked."'],
        on => { request_permission => sub { reply('permission',
            $_[0]{permissionId}, 'reply', { reply => $reply }) } } };
}


sub allow {
    my ($packet) = @_;

    reply('permission', $packet->{permissionId}, 'reply',
          { reply => 'once' });
}


sub reply {
    my ($noun, $id, $verb, $body) = @_;

    ask_opencode($t, 'POST', "/$noun/$id/$verb?directory=$dir", $body);
}


sub once {
    my ($packet, $case, $do) = @_;

    return if $case->{acted};

    $case->{acted} = time();
    $do->($packet, $case);
}


sub abort {
    my ($packet, $case) = @_;

    once($packet, $case, sub {
        ask_opencode($t, 'POST', "/session/$case->{session}/abort", {}) });
}


# the first text that was said, once there is another

sub remove {
    my ($packet, $case) = @_;

    return unless $packet->{content}{text} eq 'Second. ';

    my ($first) = grep { $_->{type} eq 'agent_message_chunk' }
                  map { packet_json($_) } $case->{client}->packets();
    my ($message) = grep { $_->{info}{id} eq $first->{messageId} }
                    @{ $t->messages($case->{session}) };
    my ($text) = grep { $_->{type} eq 'text' } @{ $message->{parts} };

    ask_opencode($t, 'DELETE', "/session/$case->{session}/message/"
                 . "$first->{messageId}/part/$text->{id}");
}


# what is left of a text where it is first taken back, up to the next chunk;
# thoughts that were complete stay

sub survivors {
    my ($name) = @_;
    my (@chunks, $message);

    for my $p (packets_of($name)) {
        if ($p->{type} eq 'chunks_discarded') {
            $message = $p->{messageId};
            @chunks[$p->{from} - 1 .. $p->{to} - 1] = ();

        } elsif ($p->{type} =~ /_chunk$/ && $message) {
            last;
        }

        push @chunks, $p->{type} eq 'agent_message_chunk' ? $p : undef;
    }

    return 'never taken back' unless $message;
    return join '', map { $_->{content}{text} }
                    grep { $_ && $_->{messageId} eq $message } @chunks;
}


sub case {
    my ($name) = @_;

    return (grep { $_->{name} eq $name } @all)[0];
}


sub packets_of {
    my ($name) = @_;

    return map { packet_json($_) } case($name)->{client}->packets();
}


sub write_file {
    my ($file, $bytes) = @_;

    make_path($file =~ s{/[^/]+$}{}r);
    open my $fh, '>:raw', $file or die "$file: $!\n";
    print $fh $bytes;
    close $fh;
}
