#!/usr/bin/perl

# A Telegram chat, from a message to its answer: typing at once and again, a
# silent progress message that is edited, then the answer as a new message in
# reply to the question; what users of other bots complain about: the bell rings
# for the progress and not for the answer, typing dies after five seconds, one
# update is answered twice, one bad character drops the message.
#
# Broken by: a webhook that is answered after OpenCode was asked, an answer that
# is an edit, a progress message without disable_notification, typing that is
# shown once, names of updates that are not remembered, "not modified" taken for
# a failure, a file that nobody mentions, a turn whose end is remembered when the
# next message waits (delivery_finish()).

use FindBin;
use lib "$FindBin::Bin/lib";

use AgentStream;
use AgentStream::Bot;

my ($t, $chat) = bot(workers => 2, allow => '1001 1002 1003', timeout => 90,
                     chat => 'agentstream_chat_tool_interval 1s;
                              agentstream_chat_heartbeat 60s;');

sub say_to { $chat->say(platform => 'telegram', chat => $_[0], text => $_[1]) }

# OpenCode takes its time, the platform does not wait for it

$t->control('config', { rules => [{ method => 'POST', url => 'prompt_async',
                                    delay => 2000, times => 1 }] });

my $said = say_to(1001, 'text:50:24:60');
is($said->{status}, 200, 'taken');
cmp_ok($said->{ms}, '<', 1500, 'before OpenCode has taken it');

my $answer = answer_to($chat, 'telegram', 1001, $said->{id});
ok($answer, 'an answer to the question');
ok(wait_for(sub { my @m = $chat->messages('telegram', 1001, bot => 1);
                  @{ $m[0]{edits} } && $m[0]{text} !~ /Processing/ }, 5),
   'the progress message ends');

my @m = $chat->messages('telegram', 1001, bot => 1);
is(scalar @m, 2, 'a progress message and an answer');
ok($m[0]{silent}, 'the bell does not ring for the progress');
ok(!$m[1]{silent}, 'the bell rings for the answer');
cmp_ok(scalar @{ $m[0]{edits} }, '>=', 3, 'the progress is edited');
like($m[0]{edits}[0]{text}, qr/#0 .*Processing/s, 'text so far, and the time');
like($m[1]{text}, qr/#49 /, 'the answer is whole');
is(scalar @{ $m[1]{edits} }, 0, 'and not an edit');

my $typing = $chat->state()->{typing}{1001};
cmp_ok($typing->[0] - $m[0]{time}, '<', 0, 'typing comes first');
cmp_ok(scalar @$typing, '>=', 2, 'and again, while it works');

# an update that comes again, to any worker, is not answered again

$chat->again(platform => 'telegram') for 1 .. 6;
sleep(1.5);
is(scalar(texts($chat, 'telegram', 1001)), 2, 'the answer does not come twice');

# tools and thoughts, and characters that mean something in HTML

$said = say_to(1002, 'replay:tools-sequence');
ok(answer_to($chat, 'telegram', 1002, $said->{id}), 'tools');
ok(wait_for(sub { (texts($chat, 'telegram', 1002, silent => 1))[0] =~ /🔧/ },
            10), 'each tool has a line');

$said = say_to(1003, 'say:a < b & c > d "q" <b>not bold</b> <tg-spoiler>x');
$answer = answer_to($chat, 'telegram', 1003, $said->{id});
like($answer->{text} // '', qr/a < b & c > d "q"/, 'no bad character');

# files are named to the sender as not read, also if there is nothing else

my %file = (mime => 'text/plain', base64 => 'eA==');

$said = $chat->say(platform => 'telegram', chat => 1003,
                   file => { name => 'notes.txt', %file });
like(answer_to($chat, 'telegram', 1003, $said->{id})->{text} // '',
     qr/not read here: notes\.txt\./, 'a file alone');

$said = $chat->say(platform => 'telegram', chat => 1003, text => 'say:seen',
                   file => { name => 'a.txt', %file });
ok(wait_for(sub { my @texts = texts($chat, 'telegram', 1003);
                  $texts[-2] =~ /not read here: a\.txt/
                      && $texts[-1] eq 'seen' }, 15),
   'a file and a text, which is answered')
    or diag(explain([texts($chat, 'telegram', 1003)]));

# an answer without text says so; an error is a sentence

$said = say_to(1003, 'replay:text-empty');
like(answer_to($chat, 'telegram', 1003, $said->{id})->{text}, qr/\w/,
     'an empty answer says something');
$said = say_to(1003, 'replay:error-401');
like(answer_to($chat, 'telegram', 1003, $said->{id})->{text}, qr/\w/,
     'an error is told');

# somebody prompts the session in a page: the next message of the chat waits, and
# what was answered before is not sent again

my ($session) = map { $_->{url} =~ m{/session/(ses_\w+)/prompt_async} ? $1 : () }
                @{ $t->control('log') };
my $before = texts($chat, 'telegram', 1001, silent => 0);
my $page = $t->send_message($session, 'text:30:24:100');

$t->wait([$page], until => sub { $_[0]->packets() > 2 });
$said = say_to(1001, 'say:behind the page');
is(answer_to($chat, 'telegram', 1001, $said->{id})->{text}, 'behind the page',
   'a message that waits for a turn of a page');
ok($t->wait([$page]), 'the turn of the page ends');
check_turn($page, 'the turn of the page');
sleep(1.5);
is(scalar(texts($chat, 'telegram', 1001, silent => 0)), $before + 1,
   'nothing else is sent');

my $state = $chat->state();
is($state->{limited}, 0, 'no 429');
is(scalar @{ $state->{violations} }, 0, 'nothing that Telegram refuses')
    or diag(explain($state->{violations}));

my $status = $t->status();
is($status->{chats}{received}, 8, 'received');
is($status->{chats}{answers}, 7, 'answers');
is($status->{chats}{known}, 3, 'chats');
is($status->{chats}{failed}, 0, 'no failures');

$chat->stop();
$t->done();
