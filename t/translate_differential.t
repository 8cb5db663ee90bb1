#!/usr/bin/perl

# The same prompts through the module and through OpenCode's own ACP agent
# ("opencode acp", JSON-RPC): same text, thoughts, plan, calls with their final
# states, and end.  Whatever differs is in the table below with its reason, and
# what is in the table does differ.
#
# Broken by: any translation that OpenCode's authors read differently; a new
# version of OpenCode whose bridge does.

use FindBin;
use lib "$FindBin::Bin/lib";

use AgentStream;
use AgentStream::Process qw(slurp);

my $json = JSON::PP->new->utf8->canonical->allow_nonref;
my $text = JSON::PP->new->canonical->allow_nonref;

# prompts, keys, what we say, what the bridge says, why

my @differences = (
    ['.', 'call \d+ input', '.', '"cwd":"DIR"',
     'the bridge adds a "cwd" to the input of bash, which the model did not'],
    ['^read$', 'call 1 content', '<content>\\\\n1: # Demo', '"# Demo',
     'the bridge shows the file and not what the model got of it'],
    ['^edit$', 'call 1 content', '"type":"diff"', '^(?!.*"diff")',
     'the bridge has a diff for edit only; docs/protocol.md also for write'],
    ['^todowrite$', 'call 1 kind', '^think$', '^other$',
     'ACP: "think" is for planning, which todowrite is for'],
    ['^todowrite$', 'plan', '^\["completed high a"', '^nothing$',
     'the bridge sends no plan; docs/protocol.md has todo.updated for it'],
    ['^invalid tool$', 'call 1 (input|output|content)', 'invalid, question, ',
     'invalid, read, ',
     'OpenCode offers no question tool to the bridge, which could not ask'],
    ['^length$', 'end', '^max_tokens$', '^end_turn$',
     'the bridge takes "length" for an ordinary end'],
    ['^key refused$', 'end', '^error: No key$', '^error: Internal error: No',
     'the bridge puts the name of its JSON-RPC code in front'],
);

my @prompts = (
    ['text', '!say "Harbor saffron 😀 brook."'],
    ['reasoning', '!think "Delta maple."', '!say "Ember."'],
    ['interleaved', '!say "First. "', call(1, 'glob', { pattern => 'none*' }),
     '!next', '!think "Hm. "', '!say "Second. "',
     call(2, 'glob', { pattern => 'nothing*' }), '!next', '!say "Third."'],
    ['bash', call(1, 'bash', { command => 'echo one; echo two >&2',
                               description => 'Says it' }),
     '!next', '!say "Done."'],
    ['bash exit', call(1, 'bash', { command => 'echo no; exit 3',
                                    description => 'x' }),
     '!next', '!say "Done."'],
    ['bash large', call(1, 'bash', { command => 'seq 12000',
                                     description => 'x' }),
     '!next', '!say "Done."'],
    ['read', call(1, 'read', { filePath => 'DIR/README.md' }), '!next',
     '!say "Done."'],
    ['read missing', call(1, 'read', { filePath => 'DIR/missing' }), '!next',
     '!say "Done."'],
    ['edit', call(1, 'write', { filePath => 'DIR/e.txt',
                                content => "one\ntwo\n" }), '!next',
     call(2, 'edit', { filePath => 'DIR/e.txt', oldString => 'two',
                       newString => '2' }), '!next', '!say "Done."'],
    ['edit failing', call(1, 'edit', { filePath => 'DIR/README.md',
         oldString => 'absent', newString => 'x' }), '!next',
     '!say "Done."'],
    ['glob and grep', call(1, 'glob', { pattern => 'README.md' }),
     call(2, 'grep', { pattern => 'Demo', include => 'README.md' }), '!next',
     '!say "Done."'],
    ['todowrite', call(1, 'todowrite', { todos => [
         { content => 'a', status => 'completed', priority => 'high' },
         { content => 'b', status => 'pending', priority => 'low' }] }),
     '!next', '!say "Done."'],
    ['apply_patch', call(1, 'apply_patch', { patchText => join "\n",
         '*** Begin Patch', '*** Add File: p.txt', '+three',
         '*** End Patch' }), '!next', '!say "Done."'],
    ['invalid tool', call(1, 'no_such_tool', { a => 1 }), '!next',
     '!say "Done."'],
    ['task', call(1, 'task', { description => 'x', prompt => '!say "In."',
                               subagent_type => 'general' }), '!next',
     '!say "Done."'],
    ['permission', call(1, 'bash', { command => 'true ask',
                                     description => 'x' }),
     '!next', '!say "Done."'],
    ['length', '!say "Cut"', '!finish length'],
    ['content filter', '!say "No"', '!finish content_filter'],
    ['key refused', '!http 401 {"body":{"error":{"message":"No key"}}}'],
);

my %model = (apply_patch => ['lab', 'gpt-5.1']);
my %config = (permission => { bash => { '*' => 'allow', 'true ask' => 'ask' }
                            });

my $t = AgentStream->new(opencode => 'real', timeout => 600,
    config => \%config, location => 'agentstream_tool_kinds acp;');

my $bridge = start_bridge();
my $ours = ours();
my $theirs = theirs($bridge);
my %used;

for my $name (map { $_->[0] } @prompts) {
    my ($we, $they) = ($ours->{$name}, $theirs->{$name});
    my %keys = map { $_ => 1 } keys %$we, keys %$they;
    my @unexplained;

    for my $key (sort keys %keys) {
        my @value = map { $_ // 'nothing' } $we->{$key}, $they->{$key};

        next if $value[0] eq $value[1];

        my ($n) = grep { my $d = $differences[$_];
            $name =~ $d->[0] && $key =~ /^(?:$d->[1])$/
            && $value[0] =~ $d->[2] && $value[1] =~ $d->[3] }
            0 .. $#differences;

        defined $n ? $used{$n}++
                   : push @unexplained, "$key\n    we   $value[0]\n"
                                        . "    they $value[1]";
    }

    ok(!@unexplained, "$name: nothing unexplained")
        or diag(join "\n", @unexplained);
}

for my $n (0 .. $#differences) {
    ok($used{$n}, "still a difference: $differences[$n][1] of "
                  . "$differences[$n][0]");
}

$t->done();


# ---- the two sides, each as {prompt => {key => value}}

sub ours {
    my %client;

    for my $prompt (@prompts) {
        my ($name, @orders) = @$prompt;
        my $content = inside(join("\n", $name, @orders), $t->{workspace});
        my ($provider, $model) = @{ $model{$name} // [] };

        $client{$name} = $t->send_message($t->create_session(), {
            content => $content, $model ? (model => {
                providerID => $provider, modelID => $model }) : () });
    }

    my %asked;

    ok($t->wait([values %client], timeout => 280, until => sub {
        for my $p (map { packet_json($_) } $_[0]->packets()) {
            allow($p->{permissionId}) if $p->{type} eq 'request_permission'
                                         && !$asked{ $p->{permissionId} }++;
        }
        0;
    }), 'all turns end');

    check_turn($client{$_}, $_, quiet => 1) for sort keys %client;

    return { map { $_ => reduced($t->{workspace},
        map { packet_json($_) } $client{$_}->packets()) } keys %client };
}


sub start_bridge {
    my $dir = "$t->{dir}/acp";
    my $workspace = "$dir/workspace";
    my ($url) = slurp("$t->{dir}/model.log") =~ /^model: (\S+)$/m;
    my $root = "$FindBin::Bin/..";

    mkdir $dir;
    CORE::open my $fh, '>', "$dir/prompts" or die "$dir/prompts: $!\n";

    for my $prompt (@prompts) {
        my ($name, @orders) = @$prompt;

        print $fh $json->encode({ name => $name,
            text => inside(join("\n", $name, @orders), $workspace),
            $model{$name} ? (model => join '/', @{ $model{$name} }) : () }),
            "\n";
    }

    close $fh;

    # Process gives no stdin

    return AgentStream::Process->start(
        out => "$dir/answers", err => "$dir/log",
        command => ['sh', '-c', 'file=$1; shift; exec "$@" <"$file"', 'sh',
            "$dir/prompts", 'node', "$root/util/acp-client.mjs", '--cwd',
            $workspace, "$root/util/opencode", '--command', 'acp',
            '--port', '0', '--home', "$dir/home", '--workspace', $workspace,
            '--model-url', $url, '--config', $json->encode(\%config)]);
}


sub theirs {
    my ($process) = @_;
    my $dir = "$t->{dir}/acp";

    ok(wait_for(sub { $process->exited() }, 280) && $process->{status} == 0,
       'the bridge answers') or diag(slurp("$dir/log"));

    return { map { my $answer = $json->decode($_);
        ($answer->{name} => reduced("$dir/workspace",
            @{ $answer->{updates} }, {
            type => 'end', stopReason => $answer->{stopReason},
            message => ($answer->{error} // {})->{message} })) }
        split /\n/, slurp("$dir/answers") };
}


# what a user would see in the end

sub reduced {
    my ($workspace, @packets) = @_;
    my (%all, %call, @order);

    for my $p (@packets) {
        my $what = $p->{sessionUpdate} // $p->{type};

        # the bridge is silent about subagents
        next if ($p->{_meta} // {})->{sessionId};

        if ($what =~ /^agent_(message|thought)_chunk$/) {
            $all{$1} .= $p->{content}{text};

        } elsif ($what =~ /^tool_call/) {
            my $id = $p->{toolCallId};

            push @order, $id unless $call{$id};
            $call{$id}{$_} = $p->{$_} for grep { defined $p->{$_} } keys %$p;

        } elsif ($what eq 'plan') {
            $all{plan} = $text->encode([map { "$_->{status} $_->{priority} "
                . $_->{content} } @{ $p->{entries} }]);

        } elsif (defined $p->{stopReason}) {
            $all{end} = $p->{stopReason};

        } elsif ($what =~ /^(error|end)$/) {
            $all{end} = "error: $p->{message}";
        }
    }

    for my $n (1 .. @order) {
        my $c = $call{ $order[$n - 1] };

        $all{"call $n"} = $order[$n - 1];
        $all{"call $n $_"} = $c->{$_} for qw(title kind status);
        $all{"call $n input"} = $text->encode($c->{rawInput});
        $all{"call $n output"} = $text->encode($c->{rawOutput});
        $all{"call $n content"} = $text->encode([map { plain($_) }
                                                 @{ $c->{content} // [] }]);
    }

    for my $value (values %all) {
        $value =~ s/\Q$workspace\E/DIR/g;
        $value =~ s{\Q$t->{dir}\E(?:/acp)?/home\b}{HOME}g;
        $value =~ s/\b(ses|msg|prt|tool)_[0-9a-f]{12}\w+/$1/g;
    }

    return \%all;
}


# a block without what is null

sub plain {
    my ($block) = @_;

    return ref $block eq 'HASH' ? { map { ($_ => plain($block->{$_})) }
                                    grep { defined $block->{$_} }
                                    keys %$block } : $block;
}


sub call {
    my ($n, $tool, $input) = @_;

    return "!callid call_$n", "!call $tool " . $text->encode($input);
}


sub inside {
    my ($prompt, $workspace) = @_;

    return $prompt =~ s/\bDIR\b/$workspace/gr;
}


sub allow {
    my ($id) = @_;

    $t->request('POST', "/permission/$id/reply?directory=$t->{workspace}",
                port => $t->{port_opencode}, body => { reply => 'once' });
}
