#!/usr/bin/perl

# Servers that others have written play Telegram (telegram-test-api, polled) and
# Slack (emulate): a message, its progress and its answer, a question and a press,
# a command, a thread.  They show whether the module talks to something that was
# not made for it; how strict the platforms are, t/lib/chat.mjs knows.
#
# Broken by: a method, a body or an offset that such a server does not take
# (chat_telegram_call.c, chat_slack_call.c), an answer of theirs that is not
# understood (telegram_read(), slack_read()).

use FindBin;
use lib "$FindBin::Bin/lib";

use Digest::SHA qw(hmac_sha256_hex);

use AgentStream;
use AgentStream::Chat;
use AgentStream::Process qw(free_ports slurp wait_for);

my $root = "$FindBin::Bin/..";
my $packages = ($ENV{AGENTSTREAM_BUILD} // "$root/build") . '/npm-chat';

plan(skip_all => "no emulate in $packages (make deps-oracles)")
    unless -d "$packages/node_modules/emulate";

my ($telegram, $slack, $emulate) = free_ports(3);
my $json = JSON::PP->new->utf8->canonical;

my $t = AgentStream->new(timeout => 90, nginx => 0, server => qq{
    location = /telegram {
        agentstream /opencode/;
        agentstream_chat telegram /telegram-api/ poll;
        agentstream_chat_allow 1001;
    }

    location /telegram-api/ {
        internal;
        proxy_pass http://127.0.0.1:$telegram/bot42:AAtest-token/;
        proxy_http_version 1.1;
    }

    location = /slack {
        agentstream /opencode/;
        agentstream_chat slack /slack-api/ secret=s1gning;
        agentstream_chat_allow all;
        agentstream_chat_edit_interval 500ms;
    }

    location /slack-api/ {
        internal;
        proxy_pass http://127.0.0.1:$slack/api/;
        proxy_http_version 1.1;
        proxy_set_header Authorization "Bearer xoxb-test-token";
    }
});

my $judges = AgentStream::Process->start(out => "$t->{dir}/judges.log",
    command => ['node', "$FindBin::Bin/lib/chat/judges.mjs", $packages,
                $telegram, $slack, $emulate]);
my $control;

ok(wait_for(sub { slurp("$t->{dir}/judges.log") =~ /^listening (\d+)$/m
                  && ($control = $1) }, 30), 'the servers run')
    or die(slurp("$t->{dir}/judges.log"));

$t->start_nginx();

sub judge {
    my ($path, $body) = @_;
    my $res = AgentStream::Chat::http(defined $body ? 'POST' : 'GET',
                                      "http://127.0.0.1:$control/$path", $body);

    return $res->{success} ? $json->decode($res->{content})
                           : diag("$path: $res->{content}");
}

# Telegram

my $sent = sub {
    my ($regex) = @_;

    return wait_for(sub { my ($m) = grep { ($_->{message}{text} // '') =~ $regex }
                          @{ judge('telegram') }; $m }, 20);
};

judge('telegram', { text => 'text:40:24:80' });
my $answer = $sent->(qr/#39 /);
ok($answer, 'telegram: an answer');
my @progress;
ok(wait_for(sub { @progress = grep { $_->{message}{disable_notification} }
                              @{ judge('telegram') };
                  @progress && $progress[0]{message}{text} =~ /#39 /
                      && $progress[0]{message}{text} !~ /Processing/ }, 10),
   'telegram: and progress before, which was edited to its end');
is(scalar @progress, 1, 'telegram: in one message');
is($answer->{message}{parse_mode}, 'HTML', 'telegram: with markup');
ok($answer->{message}{reply_parameters}{message_id}, 'telegram: as a reply');

judge('telegram', { text => 'replay:question-single wait=1' });
my $question = wait_for(sub {
    my ($m) = grep { @{ $_->{message}{reply_markup}{inline_keyboard} // [] } }
              @{ judge('telegram') };
    $m;
}, 20);
ok($question, 'telegram: a question with buttons');
judge('press', { message => $question->{messageId}, data =>
    $question->{message}{reply_markup}{inline_keyboard}[0][0]{callback_data} });
ok(wait_for(sub { grep { $_->{url} =~ m{/question/\w+/reply} }
                  @{ $t->control('log') } }, 15), 'telegram: answered by a press');

judge('telegram', { text => '/status' });
ok($sent->(qr/Ready|Working|Waiting/), 'telegram: a command');

# Slack

my $said = judge('slack', { text => '<@U0BOT> text:40:24:80' });
ok($said->{ok}, 'slack: somebody has written');

my $event = $json->encode({ type => 'event_callback', team_id => 'T000000001',
    event_id => 'Ev1', event_time => int(time()), authorizations => [{ user_id =>
    'U0BOT', team_id => 'T000000001', is_bot => JSON::PP::true() }],
    event => { type => 'app_mention', user => $said->{message}{user},
               text => $said->{message}{text}, ts => $said->{ts},
               event_ts => $said->{ts}, channel => $said->{channel} } });
my $now = int(time());

is($t->request('POST', '/slack', body => $event, headers => {
    'X-Slack-Request-Timestamp' => $now, 'X-Slack-Signature' =>
    'v0=' . hmac_sha256_hex("v0:$now:$event", 's1gning') })->status(), 200,
   'slack: taken');

my @thread;
my $seen = sub { @thread = @{ judge('thread', { ts => $said->{ts} })->{messages}
                              // [] };
                 return @thread >= 3 && $thread[-1]{text} =~ /#39 /
                        && $thread[1]{text} !~ /Processing/ };

ok(wait_for($seen, 25), 'slack: an answer, in its thread')
    or diag(explain(\@thread));
is(scalar @thread, 3, 'slack: what was asked, the progress, the answer');
ok($thread[1]{edited}, 'slack: the progress was edited');
ok(!$thread[2]{edited}, 'slack: the answer was not');
is($thread[2]{thread_ts}, $said->{ts}, 'slack: which thread it is');

unlike($t->log_text(), qr/platform says/, 'nothing is refused')
    or diag($t->log_text());

$judges->stop();
$t->done();
