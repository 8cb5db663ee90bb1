#!/usr/bin/perl

# A platform that fails: the turn is untouched, the answer comes when it can, and
# it comes once.  What users of other bots complain about: the answer twice,
# because its first one was taken for lost or "not modified" for a failure; 429
# floods; one bad character drops the message.  The token is in no log.
#
# Broken by: a message that is sent again after a lost answer, an edit that is
# not, calls while the platform has asked for a pause, markup that is refused and
# given up, edits that fail for good and keep the answer back, an upstream's URI
# in a log line.

use FindBin;
use lib "$FindBin::Bin/lib";

use AgentStream;
use AgentStream::Bot;

my ($t, $chat) = bot(allow => 'all', timeout => 90,
    chat => 'agentstream_chat_edit_interval 300ms;',
    api => 'proxy_read_timeout 1s; proxy_connect_timeout 1s;');

my ($true, $false) = (JSON::PP::true(), JSON::PP::false());

sub refuse {
    my ($method, $code, $description, %more) = @_;

    return { method => $method, status => $code, json => { ok => $false,
             error_code => $code, description => $description }, %more };
}

# name, text, fault: each in its own chat, all at the same time

my $send = '^sendMessage$';
my @cases = (
    ['lost', 'text:20:24:50', { method => $send, lose => $true, times => 2 }],
    ['cut', 'text:20:24:50', { method => $send, cut => $true, times => 2 }],
    ['late', 'text:20:24:50', { method => $send, hang => 1500, times => 2 }],
    ['500', 'say:after errors', refuse($send, 500, 'Internal Server Error',
                                       times => 2)],
    ['429', 'say:after a pause', { method => $send, retry => 3, times => 1 }],
    ['markup', 'say:**bold** text', refuse($send, 400, "Bad Request: can't "
        . 'parse entities: Unsupported start tag', times => 1)],
    ['no edits', 'text:30:24:50', refuse('editMessageText', 400,
                                "Bad Request: message can't be edited")],
    ['not modified', 'text:30:24:50', refuse('editMessageText', 400,
        'Bad Request: message is not modified: specified new message content '
        . 'and reply markup are exactly the same as a current content and '
        . 'reply markup of the message')],
    ['slow', 'say:slow', { method => '.', hang => 700 }],
    ['no typing', 'say:no typing', refuse('sendChatAction', 400, 'Bad Request',
                                          times => 9)],
    ['rubbish', 'text:20:24:50', { method => 'editMessageText',
                                   rubbish => $true, times => 2 }]);

my $id = 3000;
my %case = map { $_->[0] => { id => ++$id, text => $_->[1], rule => $_->[2] } }
           @cases;

$chat->config(rules => [map { { platform => 'telegram', chat => "$_->{id}",
                                %{ $_->{rule} } } } values %case]);

$_->{said} = $chat->say(platform => 'telegram', chat => $_->{id},
                        text => $_->{text}) for values %case;

sub loud {
    return grep { !$_->{silent} } $chat->messages('telegram', $_[0], bot => 1);
}

for my $name (map { $_->[0] } @cases) {
    my $c = $case{$name};

    $c->{answer} = answer_to($chat, 'telegram', $c->{id}, $c->{said}{id},
                             seconds => 25);
    ok($c->{answer}, "$name: the answer arrives");
}

sleep(1.5);
is(scalar loud($case{$_}{id}), 1, "$_: once") for map { $_->[0] } @cases;

my @sends = grep { $_->{method} eq 'sendMessage'
                   && $_->{json}{chat_id} == $case{429}{id} }
            $chat->calls('telegram');
is(scalar @sends, 2, '429: no call in between');
cmp_ok($sends[1]{time} - $sends[0]{time}, '>=', 2900, '429: the pause is kept');
like($case{markup}{answer}{text}, qr/bold.* text/, 'markup: as plain text');
like($case{'no edits'}{answer}{text}, qr/#29 /, 'no edits: whole');

# it was not even read: put into the progress message, not lost, not repeated

my $said = $chat->say(platform => 'telegram', chat => ++$id,
                      text => 'text:20:24:80');
ok(wait_for(sub { $chat->messages('telegram', $id, bot => 1) == 1 }, 5),
   'dropped: progress');
$chat->config(rules => [{ platform => 'telegram', chat => "$id",
                          method => $send, drop => $true, times => 1 }]);
ok(wait_for(sub { my ($m) = $chat->messages('telegram', $id, bot => 1);
                  $m->{text} =~ /#19 / && $m->{text} !~ /Processing/ }, 15),
   'dropped: the answer is in the progress message');

# down, and back

$said = $chat->say(platform => 'telegram', chat => ++$id,
                   text => 'say:after the night');
$chat->control('down', { down => $true });
sleep(1.5);
$chat->control('down', { down => $false });
ok(answer_to($chat, 'telegram', $id, $said->{id}), 'down: the answer arrives');
is(scalar loud($id), 1, 'down: once');

is(scalar(grep { $_->{url} =~ /prompt_async/ } @{ $t->control('log') }),
   @cases + 2, 'each message was prompted once');

my $log = $t->log_text();
like($log, qr/ while .*upstream/, 'nginx has logged upstream errors');
unlike($log, qr/AAtest-token/, 'without the token');
unlike($log, qr/\Q@{[ $chat->secret('telegram') ]}\E/, 'nor the secret');
unlike($log, qr/after the night/, 'nor what was said');

my $status = $t->status();
is($status->{chats}{limited}, 1, 'one 429 was counted');
cmp_ok($status->{chats}{failed}, '>=', 6, 'and the failures');

$chat->stop();
$t->done();
