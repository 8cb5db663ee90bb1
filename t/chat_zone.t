#!/usr/bin/perl

# A zone that is really full: messages for which there is no room are answered
# 503, the platform sends them again, and nothing is lost and nothing comes twice.
# In the meantime the workers are reloaded, and killed one after the other.
#
# Broken by: an update that is acknowledged although there was no room for it, a
# name that is remembered although its entry was not kept, a chat with work that
# makes room for others.

use FindBin;
use lib "$FindBin::Bin/lib";

use AgentStream;
use AgentStream::Attach qw(done_killed);
use AgentStream::Bot;

my ($t, $chat) = bot(allow => 'all', workers => 2, timeout => 150,
                     expected => 'exited on signal 9',
                     http => 'agentstream_zone 512k retain=1s;',
                     chat => 'agentstream_chat_progress off;');
my @chats = 5001 .. 5040;
my $pad = 'x' x 6000;

$chat->config(redeliver => JSON::PP::true());

# each has a turn of a second, and a message that waits for it

my (%status, %said);

for my $id (@chats) {
    for my $n (1, 2) {
        my $s = $chat->say(platform => 'telegram', chat => $id,
            text => $n == 1 ? 'text:20:24:50' : "say:in $id $pad");

        $status{ $s->{status} }++;
        $said{$id}[$n - 1] = $s->{id};
    }
}

cmp_ok($status{503} // 0, '>', 5, 'the zone is full');
like($t->log_text(), qr/no room for an update/, 'and the log says so');

$t->reload();

for my $pid ($t->workers()) {
    kill 'KILL', $pid;
    wait_for(sub { !grep { $_ == $pid } $t->workers() });
    wait_for(sub { $t->workers() >= 2 });
}

my ($first, $second) = (0, 0);

for my $id (@chats) {
    my $m = answer_to($chat, 'telegram', $id, $said{$id}[0], seconds => 60);
    $first += ($m && $m->{text} =~ /#19 /)
        or diag($m ? substr($m->{text}, 0, 200) : "none in $id");

    $m = answer_to($chat, 'telegram', $id, $said{$id}[1], seconds => 60);
    $second += ($m && $m->{text} =~ /in $id/);
}

is($first, @chats, 'all first messages are answered');
is($second, @chats, 'all second ones, too');

sleep(2);
my $n = 0;
$n += grep { ($_->{reply} // '') ne '' } $chat->messages('telegram', $_, bot => 1)
    for @chats;
is($n, 2 * @chats, 'each once');

my %prompts;
$prompts{ $_->{body} =~ /(say:in \d+)/ ? $1 : (split m{/}, $_->{url})[2] }++
    for grep { $_->{url} =~ /prompt_async/ } @{ $t->control('log') };
is(scalar(grep { $_ != 1 } values %prompts), 0, 'each was prompted once');

$chat->stop();
done_killed($t);
