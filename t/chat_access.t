#!/usr/bin/perl

# Who may talk to the agent: what is not genuine is 401, and neither OpenCode nor
# the platform hears of it; strangers are refused once, and do not reach the
# agent; in a group both person and group count, and the bot must be meant.
#
# Broken by: a secret that is compared only as far as it was sent, a list that is
# empty and means everybody, a group that lets everybody in, a refusal for each
# message, a body that is parsed before it is genuine, a list that is not asked
# again when a message has waited (delivery_dispatch()), an empty body whose bytes
# are copied (only the sanitizers see it).

use FindBin;
use lib "$FindBin::Bin/lib";

use AgentStream;
use AgentStream::Bot;

my ($t, $chat) = bot(allow => '1001 -500', timeout => 60);
my $secret = $chat->secret('telegram');

sub hook {
    my ($token, $body) = @_;

    return $t->request('POST', '/hook', body => $body,
        headers => { 'Content-Type' => 'application/json',
                     'X-Telegram-Bot-Api-Secret-Token' => $token })->status();
}

sub say_in {
    my ($id, $from, $text, @more) = @_;

    return $chat->say(platform => 'telegram', chat => $id, from => $from,
                      text => $text, @more)->{status};
}

my $update = '{"update_id":1,"message":{"message_id":1,"date":1,"chat":{"id":'
    . '1001,"type":"private"},"from":{"id":1001,"is_bot":false,"first_name":'
    . '"A"},"text":"hello"}}';

is(hook($_->[1], $update), 401, "not genuine: $_->[0]")
    for ['none'], ['empty', ''], ['another', 'x' x length $secret],
        ['a part', substr $secret, 0, -1], ['more', "${secret}x"],
        ['case', uc $secret];
is(hook('no', '{' x 100000), 401, 'rubbish that is not genuine');
is(hook($secret, '{"update_id":'), 400, 'genuine, but no JSON');
is(hook($secret, '[]'), 400, 'nor an object');
is(hook($secret, ''), 400, 'nor anything');
is(hook($secret, '{"update_id":5,"poll":{}}'), 200, 'nothing of interest');
is($t->request('GET', '/hook')->status(), 405, 'GET');
is(hook($secret, 'x' x (1024 * 1024 + 1)), 413, 'too large');

is(scalar @{ $t->control('log') }, 0, 'OpenCode heard of none');
is(scalar(grep { $_->{method} ne 'getMe' } $chat->calls('telegram')), 0,
   'nor did Telegram');

# strangers

is(say_in(2002, 2002, 'let me in'), 200, 'a stranger') for 1 .. 3;
ok($chat->wait_message('telegram', 2002, qr/not allowed/), 'is told so');
is(say_in(-500, 2002, '/help@agent_bot'), 200, 'a stranger in our group');
is(say_in(-600, 1001, '/help@agent_bot'), 200, 'one of us in their group');
sleep(1);
is(scalar(texts($chat, 'telegram', 2002)), 1, 'once');
is(scalar @{ $t->control('log') }, 0, 'and OpenCode does not know');
unlike(join("\n", map { texts($chat, 'telegram', $_) } -500, -600),
       qr/Write to me/, 'in a group both must be allowed');
like($t->log_text(), qr/does not allow "2002 in 2002"/, 'it is logged');

# a group: only when the bot is meant

is(say_in(-500, 1001, 'just talking'), 200, 'others talk');
is(say_in(-500, 1001, '@agent_bot say:hello group'), 200, 'mentioned');
ok($chat->wait_message('telegram', -500, qr/hello group/), 'answers');
is(say_in(-500, 1001, '/status@agent_bot'), 200, 'commanded');
ok($chat->wait_message('telegram', -500, qr/Ready/), 'answers');
is(scalar(grep { $_->{url} =~ /prompt_async/ } @{ $t->control('log') }), 1,
   'one prompt');

# a message waits, and meanwhile its sender is taken from the list

sub prompts { my ($text) = @_;
              return scalar grep { $_->{url} =~ /prompt_async/
                                   && $_->{body} =~ /$text/ }
                            @{ $t->control('log') } }

is(say_in(1001, 1001, 'text:40:24:50'), 200, 'a turn of two seconds');
ok(wait_for(sub { prompts('text:40:24:50') }, 10), 'runs');
is(say_in(1001, 1001, 'say:too late'), 200, 'another message waits');

my $conf = "$t->{dir}/nginx.conf";
my $text = AgentStream::Process::slurp($conf);
ok($text =~ s/agentstream_chat_allow 1001 /agentstream_chat_allow 1003 /,
   'the list changes');
open my $fh, '>', $conf or die "$conf: $!\n";
print $fh $text;
close $fh;
$t->reload();

ok($chat->wait_message('telegram', 1001, qr/#39 /, 20),
   'what runs comes to its end');
sleep(1.5);
is(prompts('say:too late'), 0, 'what has waited is not prompted');

unlike($t->log_text(), qr/\Q$secret\E|hello group|let me in/,
       'no secret and no message in the log');

$chat->stop();
$t->done();
