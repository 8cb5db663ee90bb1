#!/usr/bin/perl

# Chats of two machines with two workers each, when something goes wrong: Redis
# is emptied while a turn runs and a message waits, and another message comes
# before the owner knows it; a button is pressed on another machine; a worker is
# killed, and the others of its machine notice it at once; Redis is away, and
# "local" says that chats go on without it.
#
# Broken by: a chat that is not stored again, or without what has come since; an
# entry whose owner is not told; a chat of a dead worker that nobody takes
# over; updates that are refused with "local".

use FindBin;
use lib "$FindBin::Bin/lib";

use AgentStream;
use AgentStream::Attach;
use AgentStream::Bot qw(:machines);
use AgentStream::Machines;

my $m = AgentStream::Machines->new(2, workers => 2, failure => 'local',
    killed => 1,
    bot => { allow => 'all', chat => 'agentstream_chat_edit_interval 20s;' });
my ($x, $y) = $m->machines();
my $chat = $m->{chat};
my $id = 6000;

# the progress is edited rarely, so that owners have no other reason to ask Redis

emptied();
pressed();
killed();
away();

$m->done();


sub emptied {
    my $to = ++$id;
    # the turn is to run when Redis is emptied
    my $said = say_at($chat, $x, $to, 'text:60:24:100');
    turn_runs($chat, $to);
    my $next = say_at($chat, $y, $to, 'say:before');
    sleep(0.3);
    $m->redis('FLUSHALL');
    ok(wait_for(sub { $x->log_text() =~ /has lost turn/ }, 5),
       'emptied: the turn is stored again');
    my $last = say_at($chat, $y, $to, 'say:after it');

    like(reply_of($chat, $to, $said), qr/#59 /, 'emptied: the answer arrives');
    like(reply_of($chat, $to, $next, 20), qr/before/, 'emptied: then what was waiting');
    like(reply_of($chat, $to, $last, 20), qr/after it/, 'emptied: then what came since');
    sleep(0.5);
    is(scalar loud($chat, $to), 3, 'emptied: each once');
}


sub pressed {
    my $to = ++$id;
    my $said = say_at($chat, $x, $to, 'replay:question-single wait=1');
    my $asked = wait_for(sub { my ($a) = grep { @{ $_->{buttons} // [] } }
                                   $chat->messages('telegram', $to, bot => 1);
                               $a }, 10);
    ok($asked, 'pressed: the chat is asked');
    hook_at($chat, $y);
    is($chat->press(platform => 'telegram', chat => $to,
                    message => $asked->{id},
                    label => $asked->{buttons}[0]{label})->{status}, 200,
       'pressed: on the other machine');
    ok(wait_for(sub { my ($a) = grep { !$_->{silent} && $_->{id} ne $asked->{id} }
                          $chat->messages('telegram', $to, bot => 1);
                      $a }, 6), 'pressed: the turn goes on and is answered');
}


# the other workers know at once that it is dead, and need not wait for its
# lease to end

sub killed {
    my @to = map { ++$id } 1 .. 4;
    my @said = map { say_at($chat, $x, $_, 'text:35:24:100') } @to;
    turn_runs($chat, $_) for @to;
    kill 'KILL', ($x->workers())[0];
    my $killed = time();
    like(reply_of($chat, $to[$_], $said[$_], 20), qr/#34 /,
         "killed: the answer of chat $_, whole") for 0 .. 3;
    cmp_ok(time() - $killed, '<', 9, 'killed: soon');
    sleep(0.7);
    is(scalar loud($chat, $_), 1, 'killed: each once') for @to;
}


sub away {
    my $to = ++$id;

    $m->{redis}->stop('KILL', 5);
    ok(wait_for(sub { !$x->status()->{store}{connected}
                      && !$y->status()->{store}{connected} }, 10),
       'away: they know it');
    my $said = say_at($chat, $x, $to, 'say:without it');
    is($said->{status}, 200, 'away: taken');
    like(reply_of($chat, $to, $said), qr/without it/, 'away: and answered');
    $m->start_redis();
    ok(wait_for(sub { $m->leases() == 4 }, 10), 'back');
    $said = say_at($chat, $y, $to, 'say:with it again');
    like(reply_of($chat, $to, $said), qr/with it again/, 'back: answered');
    sleep(0.5);
    is(scalar loud($chat, $to), 2, 'back: each once');
}
