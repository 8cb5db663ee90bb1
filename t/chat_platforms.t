#!/usr/bin/perl

# Slack and WhatsApp, from a message to its answer: what proves that a request is
# genuine, handshakes, threads, progress by edits or none, questions by buttons,
# pieces with a pause between them.
#
# Broken by: a signature that is not checked, a mention and its message that are
# answered both, an answer outside of its thread, progress on WhatsApp, messages
# on WhatsApp that follow each other too fast, ids of WhatsApp that are too long
# to be kept, buttons on Slack that stay, or take the question with them, the
# word that WhatsApp sends in the access log.

use FindBin;
use lib "$FindBin::Bin/lib";

use AgentStream;
use AgentStream::Bot;
use AgentStream::Process qw(slurp);

slack();
whatsapp();

done_testing();


sub slack {
    my ($t, $chat) = bot(platform => 'slack', allow => 'U0ANN C0TEAM',
                         timeout => 60,
                         chat => 'agentstream_chat_edit_interval 500ms;');

    is($t->request('POST', '/hook', body => '{"type":"event_callback"}',
                   headers => { 'X-Slack-Signature' => 'v0=' . '0' x 64,
                                'X-Slack-Request-Timestamp' => time() })
         ->status(), 401, 'slack: not genuine');

    my $said = $chat->say(platform => 'slack', chat => 'D0ANN',
                          text => 'text:30:24:80');
    is($said->{status}, 200, 'slack: taken');
    ok($chat->wait_message('slack', 'D0ANN', qr/#29 (?!.*Processing)/s, 15),
       'slack: an answer');
    ok(wait_for(sub { my @m = $chat->messages('slack', 'D0ANN', bot => 1);
                      @m == 2 && $m[0]{text} !~ /Processing/ }, 10),
       'slack: a progress message and an answer');

    # a mention in a channel: as mention and as message, one thread

    $said = $chat->say(platform => 'slack', chat => 'C0TEAM', as =>
                       'app_mention', text => '<@U0BOT> say:in a thread');
    $chat->again(platform => 'slack');
    ok($chat->wait_message('slack', 'C0TEAM', qr/in a thread/, 15),
       'slack: a channel');
    my ($m) = grep { $_->{text} =~ /in a thread/ }
              $chat->messages('slack', 'C0TEAM', bot => 1);
    is($m->{thread}, $said->{id}, 'slack: in its thread');
    sleep(1);
    is(scalar(grep { $_->{url} =~ /prompt_async/ } @{ $t->control('log') }), 2,
       'slack: each message was prompted once');

    # a question, and a button, which goes when it was pressed

    $chat->say(platform => 'slack', chat => 'D0BOB', from => 'U0ANN',
               text => 'replay:question-single wait=1');
    ok(wait_for(sub { ($m) = grep { @{ $_->{buttons} // [] } }
                             $chat->messages('slack', 'D0BOB', bot => 1) }, 10),
       'slack: a question');
    $chat->press(platform => 'slack', chat => 'D0BOB', message => $m->{id},
                 label => $m->{buttons}[0]{label});
    ok(wait_for(sub { !grep { @{ $_->{buttons} // [] } }
                      $chat->messages('slack', 'D0BOB') }, 10),
       'slack: its buttons go');
    my ($then) = grep { $_->{id} eq $m->{id} }
                 $chat->messages('slack', 'D0BOB');
    is($then->{text}, $m->{text}, 'slack: the question stays');

    my $state = $chat->state();
    is($state->{limited}, 0, 'slack: no 429');
    is(scalar @{ $state->{violations} }, 0, 'slack: nothing is refused')
        or diag(explain($state->{violations}));
    unlike($t->log_text(), qr/xoxb|\Q@{[ $chat->secret('slack') ]}\E/,
           'slack: no token in the log');

    $chat->stop();
    $t->finish();
}


sub whatsapp {
    my ($t, $chat) = bot(platform => 'whatsapp', allow => '15550001111',
                         timeout => 60,
                         http => 'log_format all "$request $request_uri $args";',
                         chat => 'access_log hooks.log all;',
                         server => 'location /unset {
                             agentstream /opencode/;
                             agentstream_chat whatsapp /whatsapp-api/
                                              secret=x verify=$arg_unset;
                             agentstream_chat_allow all;
                             access_log hooks.log all;
                         }');
    my $word = $chat->secret('verify');

    is($t->request('GET', '/hook?hub.mode=subscribe&hub.challenge=12345'
                   . "&hub.verify_token=$word")->body(), '12345',
       'whatsapp: the address is verified');
    is($t->request('GET', '/hook?hub.mode=subscribe&hub.challenge=12345'
                   . '&hub.verify_token=wrong')->status(), 403,
       'whatsapp: by the right word');
    is($t->request('GET', '/unset?hub.mode=subscribe&hub.challenge=12345'
                   . "&hub.verify_token=$word")->status(), 403,
       'whatsapp: not without one');
    is(scalar(grep { m!^GET (/\w+) \1 (?:-|)$! } split /\n/,
              slurp("$t->{dir}/hooks.log")), 3,
       'whatsapp: the word is not in the access log');
    is($t->request('POST', '/hook', body => '{"object":"x"}', headers =>
                   { 'X-Hub-Signature-256' => 'sha256=' . '0' x 64 })
         ->status(), 401, 'whatsapp: not genuine');

    my $said = $chat->say(platform => 'whatsapp', chat => '15550001111',
                          text => 'text:150:48:5');
    is($said->{status}, 200, 'whatsapp: taken');
    ok($chat->wait_message('whatsapp', '15550001111', qr/#149 /, 25),
       'whatsapp: an answer');
    my @m = $chat->messages('whatsapp', '15550001111', bot => 1);
    is($m[0]{reply}, $said->{id}, 'whatsapp: in reply to the message');
    ok(@{ $chat->state()->{typing}{'15550001111'} }, 'whatsapp: it is typing');
    cmp_ok(scalar @m, '>=', 2, 'whatsapp: in pieces, without progress');
    cmp_ok($m[1]{time} - $m[0]{time}, '>=', 5900, 'whatsapp: with a pause');

    my $state = $chat->state();
    is($state->{limited}, 0, 'whatsapp: no 429');
    is(scalar @{ $state->{violations} }, 0, 'whatsapp: nothing is refused')
        or diag(explain($state->{violations}));

    $chat->stop();
    $t->finish();
}
