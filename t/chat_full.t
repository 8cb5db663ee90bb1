#!/usr/bin/perl

# A chat in which more is written than can be dealt with: what does not fit is
# refused in words, buttons and /cancel still work, and all other chats go on,
# also when the bot is polled for.  A message that is far too long is refused,
# once.  What users of other bots complain about: one chat that is stuck stops
# the whole bot.
#
# Broken by: an inbox that is full of messages and refuses a press or a command,
# a refused update that is asked for again and again, one that is answered 503.

use FindBin;
use lib "$FindBin::Bin/lib";

use AgentStream;
use AgentStream::Bot;

my ($true, $false) = (JSON::PP::true(), JSON::PP::false());

webhook();
poll();
long();

done_testing();


sub prompts { my ($t, $text) = @_;
              return scalar grep { $_->{url} =~ /prompt_async/
                                   && $_->{body} =~ /$text/ }
                            @{ $t->control('log') } }


sub webhook {
    my ($t, $chat) = bot(allow => 'all', timeout => 60,
                         chat => 'agentstream_chat_progress off;');
    my $say = sub { $chat->say(platform => 'telegram', chat => 1001,
                               text => $_[0]) };

    my $first = $say->('text:600:24:100');
    ok(wait_for(sub { prompts($t, 'text:600') }, 10), 'a turn runs');

    my %status;
    my @said = map { $say->("say:message $_") } 1 .. 36;
    $status{ $_->{status} }++ for @said;
    is_deeply(\%status, { 200 => 36 }, 'all messages are taken');

    ok(wait_for(sub { grep { /Too many/ } texts($chat, 'telegram', 1001) }, 10),
       'but some of them refused, in words');

    my $status = $say->('/status');
    like(answer_to($chat, 'telegram', 1001, $status->{id})->{text} // '',
         qr/32 more/, 'there is room for 32');

    $chat->press(platform => 'telegram', chat => 1001, message => $said[0]{id},
                 token => '00000001:0');
    ok(wait_for(sub { $chat->calls('telegram', 'answerCallbackQuery') }, 10),
       'a button works');

    my $cancel = $say->('/cancel');
    like(answer_to($chat, 'telegram', 1001, $cancel->{id})->{text} // '',
         qr/Cancelled/, '/cancel works');
    ok(wait_for(sub { prompts($t, 'say:message 1"') }, 10), 'the next one begins');
    is(prompts($t, 'say:message 3[3-6]'), 0, 'what was refused does not');

    $chat->stop();
    $t->finish();
}


# nothing can be said in one chat, and its inbox overflows

sub poll {
    my ($t, $chat) = bot(poll => 1, allow => 'all', timeout => 60,
                         chat => 'agentstream_chat_progress off;');

    $chat->config(rules => [{ platform => 'telegram', chat => '2001',
                              method => '^sendMessage$', retry => 600 }]);

    $chat->say(platform => 'telegram', chat => 2001, text => '/status')
        for 1 .. 75;
    my $said = $chat->say(platform => 'telegram', chat => 2002,
                          text => 'say:all is well');

    ok(answer_to($chat, 'telegram', 2002, $said->{id}), 'other chats go on');
    like($t->log_text(), qr/dropped, because too many of its chat wait/,
         'and the log says it');

    my @polls = grep { $_->{method} eq 'getUpdates' } $chat->calls('telegram');
    cmp_ok(scalar @polls, '<', 80, 'nothing is asked for again and again');

    $chat->stop();
    $t->finish();
}


sub long {
    my ($t, $chat) = bot(platform => 'slack', allow => 'all', timeout => 60);

    is($chat->say(platform => 'slack', chat => 'D0ANN',
                  text => 'x' x 300_000)->{status}, 200, 'too long: taken');
    ok($chat->wait_message('slack', 'D0ANN', qr/too long/, 10), 'and refused');
    is(prompts($t, 'xxx'), 0, 'not prompted');
    is($chat->say(platform => 'slack', chat => 'D0ANN',
                  text => 'say:' . 'y' x 100_000)->{status}, 200,
       'a long one is taken');
    ok(wait_for(sub { prompts($t, 'yyy') }, 10), 'and prompted');

    $chat->stop();
    $t->finish();
}
