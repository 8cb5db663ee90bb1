#!/usr/bin/perl

# One bot of three machines that are all busy at once, out of idleness: Telegram
# counts what all of them send, and never answers 429.  Together they use what is
# allowed: most of it, as one machine would.
#
# Broken by: rates that are not divided by the number of machines
# (store_chat_spend()); a machine that learns only later that others have begun,
# too (no count in the script that claims a chat); rates that are divided by more
# machines than have chats.

use FindBin;
use lib "$FindBin::Bin/lib";

use AgentStream;
use AgentStream::Attach;
use AgentStream::Bot qw(:machines);
use AgentStream::Machines;

my $m = AgentStream::Machines->new(3, timeout => 90,
    bot => { allow => 'all', chat => 'agentstream_chat_edit_interval 300ms;' });
my @machines = $m->machines();
my $chat = $m->{chat};

at_once();
alone();

is(scalar @{ $chat->state()->{violations} }, 0, 'nothing that is refused')
    or diag(explain($chat->state()->{violations}));

$m->done();


# sends and edits of the bot since then, in ms

sub sent {
    my ($since) = @_;

    return sort { $a <=> $b } grep { $_ > $since } map { $_->{time} }
           grep { $_->{method} =~ /^(sendMessage|editMessage)/ }
           $chat->calls('telegram');
}


# all chats get an answer -> the sends in each second, until the last one, and
# how many there must be: more than 12, or most of what this test has said in a
# second, if a busy machine did not let it say more

sub busy {
    my ($name, $first, @where) = @_;
    my $began = (sent(0))[-1] // 0;
    my $since = time();
    my %said;

    for my $i (0 .. 89) {
        my $to = $first + $i;
        $said{$to} = say_at($chat, $where[$i % @where], $to, "say:to $to");
    }

    my $offered = 90 / (time() - $since);
    my @missing = grep { reply_of($chat, $_, $said{$_}, 30) ne "to $_" }
                  sort keys %said;
    is("@missing", '', "$name: all are answered");
    ok(no_429($chat), "$name: no 429");

    my @sent = sent($began);

    my $rate = (@sent - 1) / (($sent[-1] - $sent[0]) / 1000);

    note(sprintf '%s: %.1f said in a second, %.1f answered', $name, $offered,
         $rate);

    return ($rate, $offered * 0.7 < 12 ? $offered * 0.7 : 12);
}


# Telegram allows 30 in a second; a bot uses 20, so that what arrives together is
# not too much

sub at_once {
    my ($rate, $least) = busy('three', 1, @machines);

    cmp_ok($rate, '>', $least, 'three: together they use what is allowed');
    cmp_ok($rate, '<', 25, 'three: but not more');
}


# the other two have nothing to do any more

sub alone {
    sleep(2.5);
    my ($rate, $least) = busy('one', 201, $machines[0]);

    cmp_ok($rate, '>', $least, 'one: it has all of it');
}
