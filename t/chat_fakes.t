#!/usr/bin/perl

# The chat platforms that the tests of chats use (t/lib/chat.mjs) are as strict
# as the real ones: they refuse what those refuse, with the same words, and
# remember it.
#
# Broken by: a rate, a length or a tag in t/lib/chat/*.mjs that is not checked, a
# signature over something else, a fault that is not made.

use strict;
use warnings;
use utf8;

use Digest::SHA qw(hmac_sha256_hex);
use File::Temp qw(tempdir);
use FindBin;
use IO::Socket::INET;
use Test::More;

use lib "$FindBin::Bin/lib";
use AgentStream::Chat;

binmode Test::More->builder->$_, ':utf8'
    for qw(output failure_output todo_output);

my $chat = AgentStream::Chat->start(dir => tempdir(CLEANUP => 1));
my $bot = 'telegram/bot42:AAtest-token';


sub tg {
    my ($method, %body) = @_;

    return $chat->api("$bot/$method", \%body);
}


sub text { tg('sendMessage', chat_id => 1001, parse_mode => 'HTML', @_) }


subtest 'Telegram: a conversation' => sub {
    my ($status, $answer) = text(text => 'hello');
    is($status, 400, 'a chat that nobody has begun');
    like($answer->{description}, qr/chat not found/, 'its reason');

    my $said = $chat->say(platform => 'telegram', chat => 1001, text => 'hi 🙂');
    is($said->{update}{message}{text}, 'hi 🙂', 'somebody says something');

    ($status, $answer) = text(text => '<b>one</b> &lt; two');
    is($status, 200, 'sent');
    my $id = $answer->{result}{message_id};
    my ($m) = $chat->messages('telegram', 1001, bot => 1);
    is($m->{text}, 'one < two', 'what people see');
    is($m->{entities}[0]{type}, 'bold', 'its markup');

    ($status, $answer) = tg('editMessageText', chat_id => 1001,
        message_id => $id, text => '<b>one</b> &lt; two',
        parse_mode => 'HTML');
    like($answer->{description}, qr/not modified/, 'nothing to edit');

    ($status, $answer) = tg('deleteMessage', chat_id => 1001,
                            message_id => $id);
    is($status, 200, 'deleted');
    ($status, $answer) = tg('editMessageText', chat_id => 1001,
                            message_id => $id, text => 'x');
    like($answer->{description}, qr/to edit not found/, 'then it is gone');
};


subtest 'Telegram: what is refused' => sub {
    $chat->config(rates => { telegram => { size => 1000 } });

    for ([ '<b>x', qr/parse entities: Can't find end tag/ ],
         [ '<x>x</x>', qr/parse entities: Unsupported start tag "x"/ ],
         [ '<b>x</i>', qr/parse entities: Unmatched end tag/ ],
         [ 'a < b', qr/parse entities: Unsupported start tag ""/ ],
         [ '</b>', qr/parse entities: Unexpected end tag/ ],
         [ ' <b> </b> ', qr/text is empty/ ],
         [ 'x' x 4097, qr/too long/ ],
         [ '🙂' x 2049, qr/too long/ ],
         [ '&amp;' x 6554, qr/too long/ ])
    {
        my ($text, $reason) = @$_;
        my ($status, $answer) = text(text => $text);
        is($status, 400, 'refused: ' . substr($text, 0, 20));
        like($answer->{description}, $reason, 'why');
    }

    is((text(text => '&lt;' x 4096))[0], 200, '4096 characters');
    is((text(text => '🙂' x 2048))[0], 200, '4096 units');
    is((text(text => '<blockquote expandable>q</blockquote><pre><code class='
             . '"language-c">x</code></pre><a href="https://x.org">l</a>'))[0],
       200, 'all sorts of tags');

    is((text(text => 'x', no_such => 1))[0], 400, 'an unknown parameter');
    is((text(text => 'x', reply_markup => { inline_keyboard => [[
        { text => 'b', callback_data => 'x' x 65 } ]] }))[0], 400,
       'a button with 65 bytes');

    my $before = @{ $chat->state()->{violations} };
    text(text => 'hello @admin');
    is(@{ $chat->state()->{violations} }, $before + 1, 'a mention is noticed');
    text(text => '<code>@admin</code> me@example.org');
    is(@{ $chat->state()->{violations} }, $before + 1, 'code is no mention');
    is(($chat->api('telegram/bot1:x/getMe', {}))[0], 401, 'a wrong token');
};


subtest 'rates' => sub {
    $chat->control('reset', {});
    $chat->say(platform => 'telegram', chat => $_, text => 'x')
        for 1001, -1002;
    $chat->say(platform => 'whatsapp', chat => '491', text => 'x');
    $chat->say(platform => 'slack', chat => 'C1', text => 'x');

    my @status = map { (text(text => "x$_"))[0] } 1 .. 4;
    is_deeply(\@status, [200, 200, 200, 429], 'Telegram, a private chat');

    @status = map { (tg('sendMessage', chat_id => -1002, text => "x$_"))[0] }
                  1 .. 21;
    is_deeply(\@status, [(200) x 20, 429], 'Telegram, a group');

    my ($status, $answer) = text(text => 'x5');
    is($answer->{parameters}{retry_after}, 1, 'when to try again');

    $chat->config(rates => { telegram => { size => 1000, all => 2 } });
    @status = map { (text(text => "y$_"))[0] } 1 .. 3;
    is_deeply(\@status, [200, 200, 429], 'Telegram, a bot');

    my %body = (messaging_product => 'whatsapp', to => '491', type => 'text',
                text => { body => 'x' });
    my @codes = map { ($chat->api('whatsapp/v23.0/106540352242922/messages',
                                  \%body))[1]{error}{code} // 0 } 1, 2;
    is_deeply(\@codes, [0, 131056], 'WhatsApp');

    @codes = map { ($chat->api('slack/api/chat.postMessage',
        { channel => 'C1', markdown_text => 'x' }))[1]{error} // '' } 1 .. 4;
    is_deeply(\@codes, ['', '', '', 'ratelimited'], 'Slack');
    is($chat->state()->{limited}, 6, 'they are counted');
};


subtest 'Slack and WhatsApp: what is refused' => sub {
    $chat->config(rates => { slack => { size => 1000 },
                             whatsapp => { size => 1000 } });

    my $slack = sub {
        ($chat->api('slack/api/chat.postMessage',
                    { channel => 'C1', @_ }))[1]{error} // '';
    };

    is($slack->(markdown_text => 'x' x 12000), '', '12,000 characters');
    is($slack->(markdown_text => 'x' x 12001), 'msg_too_long', 'one more');
    is($slack->(blocks => [{ type => 'markdown', text => 'x' x 13000 }]),
       'msg_blocks_too_long', 'blocks');
    is($slack->(blocks => [{ type => 'nonsense' }]), 'invalid_arguments',
       'an unknown block');
    is($slack->(markdown_text => 'x', thread_ts => '1.1'), 'thread_not_found',
       'an unknown thread');

    my $before = @{ $chat->state()->{violations} };
    $slack->(markdown_text => 'hi <!channel> <!-- -->');
    is(@{ $chat->state()->{violations} }, $before + 1, 'a mention is noticed');

    my $whatsapp = sub {
        ($chat->api('whatsapp/v23.0/106540352242922/messages',
            { messaging_product => 'whatsapp', to => '491', @_ }))[1]{error}
            {code} // 0;
    };
    my @buttons = map { { type => 'reply', reply => { id => "b$_",
                          title => "B$_" } } } 1 .. 4;
    my $ask = sub {
        $whatsapp->(type => 'interactive', interactive => { type => 'button',
            body => { text => 'x' }, action => { buttons => [@_] } });
    };

    is($whatsapp->(type => 'text', text => { body => 'x' x 4096 }), 0, 'a long one');
    is($whatsapp->(type => 'text', text => { body => 'x' x 4097 }), 100,
       'too long');
    is($ask->(@buttons[0 .. 2]), 0, '3 buttons');
    is($ask->(@buttons), 100, '4 buttons');
    is($whatsapp->(to => '492', type => 'text', text => { body => 'x' }),
       131047, 'somebody who has not written');
};


subtest 'webhooks are signed' => sub {
    my $server = IO::Socket::INET->new(LocalAddr => '127.0.0.1', Listen => 9);
    my $url = 'http://127.0.0.1:' . $server->sockport();

    for my $platform (qw(telegram slack whatsapp)) {
        $chat->config(webhook => { $platform => "$url/$platform" });

        my $pid = fork() // die;

        if ($pid == 0) {
            require POSIX;
            $chat->say(platform => $platform, chat => '491', text => 'ä🙂');
            POSIX::_exit(0);
        }

        my $c = $server->accept();
        my ($head, $body) = ('', '');

        $head .= <$c> until $head =~ /\r\n\r\n$/;
        my ($len) = $head =~ /Content-Length: (\d+)/i;
        read $c, $body, $len;
        print $c "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n"
                 . "Connection: close\r\n\r\n";
        close $c;
        waitpid $pid, 0;

        my $secret = $chat->secret($platform);
        my ($time) = $head =~ /x-slack-request-timestamp: (\d+)/i;
        my $proof = $platform eq 'telegram' ? $secret
            : $platform eq 'slack'
            ? 'v0=' . hmac_sha256_hex("v0:$time:$body", $secret)
            : 'sha256=' . hmac_sha256_hex($body, $secret);

        like($head, qr/: \Q$proof\E\r/, $platform);
        like($body, qr/\\u00e4\\ud83d\\ude42/, 'its body is ASCII')
            if $platform eq 'whatsapp';
    }

    $chat->config(webhook => {});
};


subtest 'faults' => sub {
    $chat->control('reset', {});
    $chat->config(rates => { telegram => { size => 1000 } });
    $chat->say(platform => 'telegram', chat => 1001, text => 'x');

    my $with = sub {
        my (%rule) = @_;

        $chat->config(rules => [{ method => '^sendMessage$', times => 1,
                                  %rule }]);
        my ($status, $answer) = text(text => 'm');
        is((text(text => 'after'))[0], 200, 'only once');

        return wantarray ? ($status, $answer) : $status;
    };
    my $sent = sub {
        scalar grep { $_->{text} eq 'm' }
                    $chat->messages('telegram', 1001, bot => 1);
    };

    is($with->(drop => 1), 599, 'dropped');
    is($sent->(), 0, 'and not done');
    is($with->(lose => 1), 599, 'lost');
    is($sent->(), 1, 'but done');
    is($with->(cut => 1), 599, 'cut');
    is($sent->(), 2, 'but done');
    is(($with->(rubbish => '<html>'))[1], '<html>', 'rubbish');
    is($sent->(), 2, 'and not done');
    is($with->(status => 500), 500, 'a status');
    is(($with->(retry => 7))[1]{parameters}{retry_after}, 7, 'a pause');
    is($sent->(), 2, 'and not done');

    $chat->control('down', { down => JSON::PP::true });
    is((text(text => 'm'))[0], 599, 'down');
    $chat->control('down', { down => JSON::PP::false });
    is((text(text => 'm'))[0], 200, 'up again');
};


subtest 'polling' => sub {
    $chat->control('reset', {});
    $chat->say(platform => 'telegram', chat => 1001, text => $_)
        for qw(one two);

    my ($status, $answer) = tg('getUpdates', offset => 0, timeout => 0);
    is(@{ $answer->{result} }, 2, 'two updates');
    ($status, $answer) = tg('getUpdates', timeout => 0,
        offset => $answer->{result}[0]{update_id} + 1);
    is(@{ $answer->{result} }, 1, 'one of them is confirmed');
    is($answer->{result}[0]{message}{text}, 'two', 'the other is left');
};

$chat->stop();

done_testing();
