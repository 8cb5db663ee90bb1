#!/usr/bin/perl

# The Redis user that docs/machines.md documents, with exactly that line: turns
# that are read and interrupted on another machine, queues, chats by webhook and
# by polling, a machine that is lost.  Redis has refused nothing.
#
# Broken by: a command, key or channel of the module that the documented user may
# not use.

use FindBin;
use lib "$FindBin::Bin/lib";

use AgentStream;
use AgentStream::Attach;
use AgentStream::Bot qw(:machines);
use AgentStream::Machines;
use AgentStream::Process qw(slurp);

my ($line) = slurp("$FindBin::Bin/../docs/machines.md")
    =~ /^ +(ACL SETUSER agentstream .*?)^ +```/ms;
ok($line, 'the documentation has a user');
my @line = split ' ', $line;

turns_and_chats();
polls();

done_testing();


sub machines {
    my ($n, %bot) = @_;

    return AgentStream::Machines->new($n, bot => { allow => 'all', %bot },
        server => 'location /queue { agentstream /opencode/;
                                     agentstream_busy queue; }',
        store => sub {
            my ($m) = @_;

            like($m->redis(@line), qr/^OK/, 'Redis takes the line');

            return "redis://agentstream:password\@127.0.0.1:$m->{port}/0";
        });
}


sub end {
    my ($m, $name) = @_;

    like($m->redis('CLIENT', 'LIST'), qr/user=agentstream/,
         "$name: this user is used");
    is($m->redis('ACL', 'LOG'), "\n", "$name: Redis has refused nothing");
    unlike($_->log_text(), qr/NOPERM|no permissions/i, "$name: no complaint")
        for $m->machines();
    $m->finish();
}


sub turns_and_chats {
    my $m = machines(2);
    my ($x, $y) = $m->machines();
    my $chat = $m->{chat};
    my $s = $x->session();

    my $sender = $x->send_message($s, 'text:40:24:50');
    hear($x, $sender, 4);
    my $reader = $y->open(events_of($s));
    hear($y, $reader, 6);
    like($y->request('POST', "/sessions/$s/interrupt")->body(), qr/true/,
         'turns: interrupted elsewhere');
    ok($x->wait([$sender, $reader], timeout => 15), 'turns: both end');
    check_turn($x->turn($s, 'text:2:24:0'), 'turns: the next one');

    my $said = say_at($chat, $x, 9301, 'text:60:24:100');
    turn_runs($chat, 9301);
    my $next = say_at($chat, $y, 9301, 'say:the next');
    sleep(3);
    $m->lose($x);
    like(reply_of($chat, 9301, $said, 25), qr/#59 /, 'chats: taken over');
    is(reply_of($chat, 9301, $next), 'the next', 'chats: and the next message');
    end($m, 'turns and chats');
}


sub polls {
    my $m = machines(1, poll => 1);
    my $chat = $m->{chat};

    is(reply_of($chat, 9302, $chat->say(platform => 'telegram', chat => 9302,
                                        text => 'say:polled')), 'polled',
       'polls: answered');
    end($m, 'polls');
}
