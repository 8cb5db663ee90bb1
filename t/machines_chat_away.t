#!/usr/bin/perl

# Chats of two machines with two workers each, and "local": Redis is away while
# they are busy.  What comes meanwhile reaches the worker that serves the chat,
# whichever worker of its machine gets it: the press of a button, an answer in
# words, a command, a message that waits for its turn.  The worker is killed when
# Redis is back: another one goes on with what has come.  What was taken without
# Redis is recognised when it comes again.
#
# Broken by: an inbox in the zone that the owner of a chat in Redis does not read
# (store_chat_next() without the inbox), or that another worker takes for a chat
# without an owner (remote_open_inbox() that does nothing); entries that are
# forgotten or taken out twice (store_chat_save() without the inbox); entries
# that nobody puts into Redis when it is back (remote_chat_forward()), or in
# another order; names that only the zone knows (zone_seen_locked() in
# store_chat_post()).

use FindBin;
use lib "$FindBin::Bin/lib";

use AgentStream;
use AgentStream::Attach;
use AgentStream::Bot qw(:machines);
use AgentStream::Machines;

my $m = AgentStream::Machines->new(2, workers => 2, failure => 'local',
    killed => 1, redis => { appendonly => 'yes' },
    bot => { allow => 'all', chat => 'agentstream_chat_edit_interval 5s;' });
my ($x, $y) = $m->machines();
my $chat = $m->{chat};

busy();
killed();

$m->done();


sub asked {
    my ($to) = @_;

    return wait_for(sub { my ($a) = grep { @{ $_->{buttons} // [] } }
                              $chat->messages('telegram', $to, bot => 1);
                          $a }, 10);
}


sub redis_away {
    $m->{redis}->stop('KILL', 5);
    ok(wait_for(sub { !grep { $_->status()->{store}{connected} } $x, $y }, 10),
       'away: they know it');
}


sub redis_back {
    $m->start_redis(appendonly => 'yes');
    ok(wait_for(sub { $m->leases() == 4 }, 10), 'back');
}


# four chats of each kind, so that both workers get something for the other one

sub busy {
    my @pressed = 7001 .. 7004;
    my @told = 7011 .. 7014;
    my @cancelled = 7021 .. 7024;
    my @next = 7031 .. 7034;
    my (%said, %asked, %then);

    $said{$_} = say_at($chat, $x, $_, 'replay:question-single wait=1')
        for @pressed, @told;
    $said{$_} = say_at($chat, $x, $_, 'text:300:24:100') for @cancelled;
    $said{$_} = say_at($chat, $x, $_, 'text:40:24:100') for @next;

    $asked{$_} = asked($_) for @pressed, @told;
    is(scalar(grep { $_ } values %asked), 8, 'all questions are asked');
    turn_runs($chat, $_) for @cancelled, @next;

    redis_away();

    for (@pressed) {
        $chat->press(platform => 'telegram', chat => $_,
                     message => $asked{$_}{id},
                     label => $asked{$_}{buttons}[0]{label});
    }

    $then{$_} = say_at($chat, $x, $_, '1') for @told;
    $then{$_} = say_at($chat, $x, $_, '/cancel') for @cancelled;
    $then{$_} = say_at($chat, $x, $_, "say:after $_") for @next;

    for my $to (@pressed, @told) {
        ok(answer_to($chat, 'telegram', $to, $said{$to}{id},
                     not => $asked{$to}{id}, seconds => 10),
           "$to: what was asked is answered");
    }

    like(reply_of($chat, $_, $then{$_}, 10), qr/^Cancelled/, "$_: cancelled")
        for @cancelled;
    like(reply_of($chat, $_, $said{$_}), qr/#39 /, "$_: the answer") for @next;
    is(reply_of($chat, $_, $then{$_}), "after $_", "$_: then the next one")
        for @next;

    my $again = say_at($chat, $x, 7041, 'say:without it');
    is(reply_of($chat, 7041, $again), 'without it', 'a new chat is answered');

    redis_back();

    is($chat->again(platform => 'telegram')->{status}, 200,
       'back: it comes again');
    my $last = say_at($chat, $x, 7041, 'say:with it');
    is(reply_of($chat, 7041, $last), 'with it', 'back: the next one');
    $last = say_at($chat, $y, 7031, 'say:elsewhere');
    is(reply_of($chat, 7031, $last), 'elsewhere', 'back: on the other machine');
    sleep(1);

    is(scalar loud($chat, 7041), 2, 'a new chat: each once');
    is(join(' ', map { scalar loud($chat, $_) } @told), '2 2 2 2',
       'told: question and answer, each once');
    is(join(' ', map { scalar loud($chat, $_) } @next), '3 2 2 2',
       'next: each once');
}


# both workers die; what they had not begun with is in the zone, and Redis has
# the rest of the chat

sub killed {
    my $to = 7101;
    my $first = say_at($chat, $x, $to, 'text:120:24:100');
    turn_runs($chat, $to);
    redis_away();
    my @then = map { say_at($chat, $x, $to, "say:number $_") } 1 .. 3;
    sleep(0.5);
    redis_back();
    kill 'KILL', $x->workers();

    like(reply_of($chat, $to, $first, 30), qr/#119 /,
         'killed: the answer arrives, whole');
    is(reply_of($chat, $to, $then[$_ - 1]), "number $_",
       "killed: then number $_") for 1 .. 3;
    my $last = say_at($chat, $y, $to, 'say:last');
    is(reply_of($chat, $to, $last), 'last', 'killed: the other machine');
    my @texts = map { $_->{text} } loud($chat, $to);
    is(join(', ', @texts[1 .. $#texts]),
       'number 1, number 2, number 3, last', 'killed: each once, in order');
}
