#!/usr/bin/perl

# A platform that fails for long: what must arrive is tried for
# agentstream_chat_timeout and then given up, with a line in the log, and the chat
# goes on.  A send that is answered after a long time, with rubbish, or with a long
# pause.  Progress messages that go when the answer is there; WhatsApp, where a
# sign of life is a message, now and then.
#
# Broken by: a timeout that is not looked at, an answer that is sent again after
# rubbish, a progress message that is not deleted, heartbeats that come too often
# or while nobody waits.
#
# CHAT_LONG=1: an answer after 30 s, a pause of 60 s.

use FindBin;
use lib "$FindBin::Bin/lib";

use AgentStream;
use AgentStream::Bot;

my $long = $ENV{CHAT_LONG};
my $hang = $long ? 30 : 3;
my $pause = $long ? 60 : 4;
my $true = JSON::PP::true();

telegram();
whatsapp();

done_testing();


sub telegram {
    my ($t, $chat) = bot(allow => 'all', timeout => $long ? 500 : 120,
        chat => 'agentstream_chat_timeout ' . ($long ? '80s' : '8s') . ';
                 agentstream_chat_edit_interval 300ms;
                 agentstream_chat_progress delete;',
        api => 'proxy_read_timeout 60s;');
    my $send = '^sendMessage$';
    my $say = sub { my ($id, $text) = @_;
                    $chat->say(platform => 'telegram', chat => $id,
                               text => $text)->{id} };
    my $loud = sub { my ($id) = @_; grep { !$_->{silent} }
                     $chat->messages('telegram', $id, bot => 1) };
    my %rules = (
        4001 => { method => $send, status => 500, json => { ok => \0,
                  error_code => 500, description => 'Internal Server Error' } },
        4002 => { method => $send, hang => $hang * 1000, times => 1 },
        4003 => { method => $send, retry => $pause, times => 1 },
        4004 => { method => $send, rubbish => 'no JSON', times => 2 });
    my $set = sub { $chat->config(rules => [map { {
        platform => 'telegram', chat => "$_", %{ $rules{$_} } } }
        sort keys %rules]) };

    $set->();

    my %said = map { $_ => $say->($_, "say:to $_") } 4001 .. 4004;

    $said{4005} = $say->(4005, 'text:20:24:80');
    ok(wait_for(sub { $chat->messages('telegram', 4005, bot => 1) }, 10),
       'a progress message');

    ok(answer_to($chat, 'telegram', 4005, $said{4005}), 'an answer');
    ok(wait_for(sub { $chat->messages('telegram', 4005, bot => 1) == 1 }, 10),
       'and no progress message any more');
    is(scalar $chat->calls('telegram', 'deleteMessage'), 1, 'which was deleted');

    is(answer_to($chat, 'telegram', $_->[0], $said{ $_->[0] },
                 seconds => $_->[1] + 20)->{text} // '', "to $_->[0]",
       "after $_->[1] s") for [4002, $hang], [4003, $pause];

    # it had only been said to be done

    ok(wait_for(sub { $t->log_text() =~ /answer to a message was lost/ }, 10),
       'rubbish counts as lost');
    is(scalar $loud->(4004), 0, 'and is not repeated');

    ok(wait_for(sub { $t->log_text() =~ /answer could not be delivered for/ },
                $long ? 180 : 40), 'an answer is given up');

    delete $rules{4001};
    $set->();
    my $next = $say->(4001, 'say:better now');
    ok(answer_to($chat, 'telegram', 4001, $next, seconds => 70),
       'and the chat goes on');
    is(scalar $loud->(4001), 1, 'without the old one');
    is(scalar $loud->($_), 1, 'once') for 4002, 4003;

    # a sentence of our own

    $rules{4001} = { method => $send, status => 500, json => {} };
    $set->();
    $say->(4001, '/status');
    ok(wait_for(sub { $t->log_text() =~ /a message is given up/ },
                $long ? 180 : 40), 'a sentence is given up, too');

    is(scalar(grep { $_->{url} =~ /prompt_async/ } @{ $t->control('log') }), 6,
       'each message was prompted once');

    $chat->stop();
    $t->finish();
}


sub whatsapp {
    my ($t, $chat) = bot(platform => 'whatsapp', allow => 'all', timeout => 60,
                         chat => 'agentstream_chat_heartbeat 2s;');

    $chat->say(platform => 'whatsapp', chat => '15550001111',
               text => 'text:130:24:100');
    $chat->say(platform => 'whatsapp', chat => '15550002222',
               text => 'replay:question-single wait=1');
    ok($chat->wait_message('whatsapp', '15550001111', qr/#129 /, 40),
       'whatsapp: an answer');

    my @m = $chat->messages('whatsapp', '15550001111', bot => 1);
    like($m[0]{text}, qr/^Still working/, 'whatsapp: before it, a sign of life');
    my @beats = grep { $_->{text} =~ /Still working/ } @m;
    cmp_ok(scalar @beats, '<=', 3, 'whatsapp: not too often');
    is(scalar(grep { $_->{text} =~ /Still working/ }
              $chat->messages('whatsapp', '15550002222', bot => 1)), 0,
       'whatsapp: and none while the agent waits for an answer');

    $chat->say(platform => 'whatsapp', chat => '15550002222', text => '1');
    ok(wait_for(sub { grep { $_->{url} =~ m{/question/\w+/reply} }
                      @{ $t->control('log') } }, 10), 'whatsapp: an answer');

    my $state = $chat->state();
    is($state->{limited}, 0, 'whatsapp: no 429');
    is(scalar @{ $state->{violations} }, 0, 'whatsapp: nothing is refused')
        or diag(explain($state->{violations}));

    $chat->stop();
    $t->finish();
}
