#!/usr/bin/perl

# What docs/chats.md promises and no other test shows in a chat: progress soon
# after the message, thoughts in a quote that can be unfolded, "Still working..."
# after a silence, a progress message that keeps its newest lines, a long answer
# in several messages, a sentence after a timeout, a question that nobody
# answers, agentstream_chat_progress off and delete.
#
# Broken by: a quote that is not "expandable" (markdown_quoted()), a heartbeat that
# is not sent because nothing is new (send_progress()), lines that are cut at the
# end (view_progress()), an answer that is cut (markdown), an end without its
# sentence (view_final()), buttons that stay when the question is over
# (delivery_ask()), a progress message that is not deleted (send_tidy()).

use FindBin;
use lib "$FindBin::Bin/lib";

use AgentStream;
use AgentStream::Bot;

my $secret = AgentStream::Chat->secret('telegram');
my $hook = sub {
    my ($name, $directives) = @_;

    return "location = /$name {
        agentstream /opencode/;
        agentstream_chat telegram /telegram-api/ secret=$secret;
        agentstream_chat_allow all; $directives }\n";
};

my ($t, $chat) = bot(allow => 'all', timeout => 120,
    chat => 'agentstream_chat_heartbeat 2s;',
    server => $hook->('delete', 'agentstream_chat_progress delete;')
        . $hook->('off', 'agentstream_chat_progress off;')
        . $hook->('short', 'agentstream_idle_timeout 2s;')
        . $hook->('patient', 'agentstream_question_timeout 2s;'));
my $id = 8000;

# says something in a new chat of this location

sub say_at {
    my ($name, $text) = @_;

    $id++;
    $chat->config(webhook => { telegram => "http://127.0.0.1:$t->{port}/$name" });

    return $chat->say(platform => 'telegram', chat => $id, text => $text);
}

sub answer {
    my ($said, %args) = @_;

    return (answer_to($chat, 'telegram', $id, $said->{id}, seconds => 30, %args)
            // {})->{text} // '';
}

# the texts that the progress message has had, and the message

sub shown {
    my ($m) = grep { $_->{silent} } $chat->messages('telegram', $id, bot => 1);

    return ($m, map { $_->{text} } @{ $m ? $m->{edits} : [] });
}

# progress soon, typing sooner; the machine may be busy

my $said = say_at('hook', 'text:60:24:50');
my $start = ($chat->messages('telegram', $id))[0]{time};
ok(answer($said), 'an answer');
my ($m) = shown();
cmp_ok($m->{time} - $start, '<', 4000, 'progress while the agent works');
cmp_ok($chat->state()->{typing}{$id}[0] - $start, '<', 2000, 'typing at once');

# thoughts

$said = say_at('hook', 'replay:text-reasoning delay=100');
my $answer = answer_to($chat, 'telegram', $id, $said->{id}, seconds => 30);
is(($answer->{entities}[0] // {})->{type}, 'expandable_blockquote',
   'thoughts can be unfolded, above the answer') or diag(explain($answer));
like(join("\n", grep { !ref } shown()), qr/Thinking/,
     'and are shown while it thinks');

# silence

$said = say_at('hook', 'text:2:24:6000');
ok($chat->wait_message('telegram', $id, qr/Still working\.\.\./, 15),
   'a heartbeat');
like(answer($said), qr/#1 /, 'then the answer');

# longer than a message

$said = say_at('hook', 'text:300:40:10');
like(answer($said), qr/^\w+#0 /, 'the answer begins');
ok($chat->wait_message('telegram', $id, qr/#299 (?!.*Processing)/s, 15),
   'and ends');
my @answer = grep { !$_->{silent} } $chat->messages('telegram', $id, bot => 1);
cmp_ok(scalar @answer, '>=', 3, 'in several messages');
my $all = join ' ', map { $_->{text} } @answer;
is(scalar(grep { $all !~ /#$_ / } 0 .. 298), 0, 'nothing is missing');
is($answer[1]{reply} // '', '', 'only the first is a reply');
my @shown = shown();
ok(grep({ !ref && /^\[\.\.\.earlier output truncated\.\.\.\]/ } @shown),
   'the progress keeps its newest lines');
is(scalar(grep { !ref && length > 4096 } @shown), 0, 'and fits');

# the agent says nothing any more; nobody answers its question

$said = say_at('short', 'text:2:24:20000');
like(answer($said), qr/timed out.*took too long/, 'a timeout');

$said = say_at('patient', 'replay:question-reject wait=1');
ok(wait_for(sub { grep { @{ $_->{buttons} // [] } }
                  $chat->messages('telegram', $id, bot => 1) }, 15), 'asked');
ok(wait_for(sub { grep { $_->{url} =~ m{/question/\w+/reject} }
                  @{ $t->control('log') } }, 15), 'rejected after a while');
ok(wait_for(sub { !grep { @{ $_->{buttons} // [] } }
                  $chat->messages('telegram', $id, bot => 1) }, 15),
   'its buttons go');

# progress as configured

$said = say_at('delete', 'text:40:24:50');
ok(wait_for(sub { shown() && (shown())[0] }, 10), 'progress is shown');
ok(answer($said), 'then the answer');
ok(wait_for(sub { !(shown())[0] }, 10), 'and the progress goes');

$said = say_at('off', 'text:40:24:50');
ok(answer($said), 'an answer without progress');
is((shown())[0], undef, 'there was none');
cmp_ok(scalar @{ $chat->state()->{typing}{$id} }, '>=', 1, 'but typing');

my $state = $chat->state();
is($state->{limited}, 0, 'no 429');
is(scalar @{ $state->{violations} }, 0, 'nothing that Telegram refuses')
    or diag(explain($state->{violations}));

$chat->stop();
$t->done();
