#!/usr/bin/perl

# Chats of several machines.  An update that reaches two machines is answered
# once; whatever reaches another machine than the one that serves the chat, a
# message, a command, the press of a button, arrives there.  A machine is lost
# while the agent works, and while the pieces of an answer are being sent, and a
# worker is stopped for longer than its lease: another machine goes on, nothing
# is lost, nothing comes twice, and the one that was stopped sends nothing more.
# While Redis is away updates are refused, so that they come again.
#
# Broken by: names of updates that only one machine remembers, an entry whose
# owner is not told, a state that is not stored before a piece is sent, an owner
# without a fence, a webhook that is answered before the update is stored.

use FindBin;
use lib "$FindBin::Bin/lib";

use AgentStream;
use AgentStream::Attach;
use AgentStream::Bot qw(:machines);
use AgentStream::Machines;

my $m = AgentStream::Machines->new(3, redis => { appendonly => 'yes' },
    bot => { allow => 'all', chat => 'agentstream_chat_edit_interval 300ms;' });
my ($x, $y, $z) = $m->machines();
my $chat = $m->{chat};
my $id = 5000;

once();
elsewhere();
away();
lost();

my $state = $chat->state();
is(scalar @{ $state->{violations} }, 0, 'nothing that Telegram refuses')
    or diag(explain($state->{violations}));
is($m->redis('KEYS', 'as1:o:*'), "\n", 'no chat is left with an owner');

$m->done();


sub prompts_of {
    my ($text) = @_;

    return scalar grep { $_->{url} =~ /prompt_async/
                         && $_->{body} =~ /\Q$text\E/ } @{ $x->control('log') };
}


# the calls of the bot for this chat

sub calls_of {
    my ($to) = @_;

    return scalar grep { ($_->{json}{chat_id} // 0) == $to }
                  $chat->calls('telegram');
}


# the same update at two machines, at once and later

sub once {
    my $to = ++$id;
    my $said = say_at($chat, $x, $to, 'say:only once');

    hook_at($chat, $y);
    is($chat->again(platform => 'telegram')->{status}, 200,
       'once: the second machine takes it, too');
    like(reply_of($chat, $to, $said), qr/only once/, 'once: answered');
    hook_at($chat, $z);
    is($chat->again(platform => 'telegram')->{status}, 200,
       'once: and so does the third, later');

    # chats are in order: a second answer would come before this one

    my $next = say_at($chat, $y, $to, 'say:the next');
    like(reply_of($chat, $to, $next), qr/the next/, 'once: the next one');
    is(scalar loud($chat, $to), 2, 'once: one answer each');
    is(prompts_of('only once'), 1, 'once: one prompt');
}


# the chat is served by one machine, and what is said reaches the others

sub elsewhere {
    my $to = ++$id;
    my $said = say_at($chat, $x, $to, 'text:15:24:100');

    turn_runs($chat, $to);

    my $next = say_at($chat, $y, $to, 'say:the next one');
    my $status = say_at($chat, $z, $to, '/status');
    like(reply_of($chat, $to, $status), qr/^Working .* 1 more/,
         'elsewhere: a command is answered while it runs');
    like(reply_of($chat, $to, $said), qr/#14 /, 'elsewhere: the answer');
    like(reply_of($chat, $to, $next), qr/the next one/, 'elsewhere: then the next');
    is(scalar loud($chat, $to), 3, 'elsewhere: each once');

    $said = say_at($chat, $x, $to, 'text:200:24:100');
    ok(wait_for(sub { $chat->wait_message('telegram', $to, qr/#3 /, 1) }, 10),
       'elsewhere: a turn runs again');
    my $cancel = say_at($chat, $y, $to, '/cancel');
    like(reply_of($chat, $to, $cancel), qr/^Cancelled/, 'elsewhere: cancelled');
}


# Redis is killed, and started again with its data

sub away {
    my $to = ++$id;
    my $said = say_at($chat, $x, $to, 'text:20:24:100');

    turn_runs($chat, $to);
    $m->{redis}->stop('KILL', 5);
    $chat->config(redeliver => JSON::PP::true());
    my $next = say_at($chat, $y, $to, 'say:came again');
    is($next->{status}, 503, 'away: an update is refused');
    sleep(2.5);
    is(scalar loud($chat, $to), 0, 'away: nothing is sent that nobody would know of');
    $m->start_redis(appendonly => 'yes');
    like(reply_of($chat, $to, $said), qr/#19 /, 'away: the answer arrives');
    like(reply_of($chat, $to, $next), qr/came again/, 'away: the update comes again');
    $chat->config(redeliver => JSON::PP::false());
    sleep(0.5);
    is(scalar loud($chat, $to), 2, 'away: each once');
}


# one machine is lost, another one is stopped; the third one goes on

sub lost {
    # nobody is taken for dead before a lease has passed
    sleep(6.5);

    my ($a, $b, $c) = map { ++$id } 1 .. 3;
    my $long = say_at($chat, $x, $b, 'text:700:24:1');
    my $first = say_at($chat, $x, $a, 'text:105:24:100');
    my $next = say_at($chat, $z, $a, 'say:after the loss');
    my $other = say_at($chat, $y, $c, 'text:105:24:100');

    ok(wait_for(sub { loud($chat, $b) >= 2 }, 15), 'lost: pieces are being sent');
    turn_runs($chat, $_) for $a, $c;

    my ($worker) = $y->workers();
    kill 'STOP', $worker;
    $m->lose($x);
    my $lost = time();

    ok(wait_for(sub { loud($chat, $b) >= 4 }, 12), 'lost: the pieces go on');
    cmp_ok(time() - $lost, '<', 11, 'lost: within seconds');
    like(reply_of($chat, $a, $first, 20), qr/#104 /, 'lost: the answer, whole');
    like(reply_of($chat, $a, $next), qr/after the loss/, 'lost: then the next message');
    like(reply_of($chat, $c, $other, 20), qr/#104 /, 'stopped: the answer, whole');

    # who goes on with the chat may still have to end its progress message
    my ($calls, $since) = (0, time());
    wait_for(sub { my $n = calls_of($c);
                   ($calls, $since) = ($n, time()) if $n != $calls;
                   time() - $since > 1.5 }, 10);
    kill 'CONT', $worker;
    ok(wait_for(sub { $y->log_text() =~ /a chat was taken over/ }, 10),
       'stopped: it learns that it has lost the chat');
    sleep(0.5);
    is(calls_of($c), $calls, 'stopped: and sends nothing');

    my $text = join ' ', map { $_->{text} } loud($chat, $b);
    my %n;
    $n{$1}++ while $text =~ /#(\d+) /g;
    is(scalar(grep { ($n{$_} // 0) != 1 } 0 .. 699), 0,
       'lost: every piece once') or diag(scalar keys %n);
    is(scalar loud($chat, $a), 2, 'lost: each answer once');
    is(scalar loud($chat, $c), 1, 'stopped: one answer');
    is(prompts_of($_), 1, "one prompt: $_") for 'text:700:24:1',
                                                'after the loss';
}
