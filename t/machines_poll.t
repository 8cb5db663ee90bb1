#!/usr/bin/perl

# A bot without a webhook, on two machines: one of them polls.  Messages reach
# chats that the other one serves.  When the machine that polls is lost, the
# other one goes on where it was: no message is lost, none comes twice.
#
# Broken by: a poller on each machine, a poller that nobody misses, an offset
# that is lost with its machine and makes old messages come again.

use FindBin;
use lib "$FindBin::Bin/lib";

use AgentStream;
use AgentStream::Attach;
use AgentStream::Bot qw(:machines);
use AgentStream::Machines;
use AgentStream::Process qw(slurp);

my $m = AgentStream::Machines->new(2, bot => { allow => 'all', poll => 1 });
my ($x, $y) = $m->machines();
my $chat = $m->{chat};

ok(wait_for(sub { polls() }, 10), 'somebody polls');
my $first = say_it(1, 'say:number one');
like(reply_of($chat, 1, $first), qr/number one/, 'answered');

my $offset = (polls())[-1]{json}{offset};
my $lost;

# there is none for a moment, between two polls
wait_for(sub { ($lost) = grep { polling($_) } $x, $y })
    or die "nobody polls\n";

my $other = $lost == $x ? $y : $x;
$m->lose($lost);
my $second = say_it(2, 'say:number two');
like(reply_of($chat, 2, $second, 15), qr/number two/,
     'after the machine was lost that polled');

my @after = grep { ($_->{json}{offset} // 0) > 0 } polls();
cmp_ok($after[-1]{json}{offset}, '>', $offset // 0, 'the offset goes on');
sleep(0.5);

for (1, 2) {
    is(scalar(grep { !$_->{silent} }
              $chat->messages('telegram', $_, bot => 1)), 1,
       "chat $_: answered once");
}

is(scalar(grep { $_->{url} =~ /prompt_async/ } @{ $other->control('log') }), 2,
   'each message was prompted once');
is(scalar(grep { ($_->{status} // 0) == 409 } polls()), 0,
   'one poller at a time');

$m->done();


sub polls {
    return grep { $_->{method} eq 'getUpdates' } $chat->calls('telegram');
}


sub say_it {
    my ($to, $text) = @_;

    return $chat->say(platform => 'telegram', chat => $to, text => $text);
}


# whether the machine waits for updates: a worker is connected to the platform

sub polling {
    my ($t) = @_;
    my $port = sprintf '%04X', $chat->{api};
    my %inode = map { (split)[9] => 1 } grep { (split)[2] =~ /:$port$/ }
                split /^/, slurp('/proc/net/tcp');

    for my $fd (map { glob "/proc/$_/fd/*" } $t->workers()) {
        return 1 if (readlink($fd) // '') =~ /^socket:\[(\d+)\]/ && $inode{$1};
    }

    return 0;
}
