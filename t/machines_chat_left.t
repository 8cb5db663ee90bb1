#!/usr/bin/perl

# Chats with a store, when something of them is missing: their location is not
# configured any more, Redis has lost that somebody serves them, a new
# conversation was begun while Redis was away, a bot was polled before there was
# a store.
#
# Broken by: a chat that is claimed again as soon as it was left with work
# (left_chat_done()); an entry that is put behind itself when Redis lost who has
# it (the script "mend"); a session that is known from before an outage
# (delivery_claimed()); an inbox for a poller, which is never free
# (remote_open_inbox()).

use FindBin;
use lib "$FindBin::Bin/lib";

use AgentStream;
use AgentStream::Attach;
use AgentStream::Bot qw(:DEFAULT :machines);
use AgentStream::Machines;
use Time::HiRes qw(sleep);

gone();
lost();
anew();
polled();

done_testing();


# the worker dies in a turn, and the next one has no location for the chat

sub gone {
    my $m = AgentStream::Machines->new(1, workers => 1, killed => 1,
        timeout => 60, bot => { allow => 'all' });
    my ($x) = $m->machines();
    my $chat = $m->{chat};

    say_at($chat, $x, 1, 'text:300:24:100');
    turn_runs($chat, 1);

    my ($worker) = $x->workers();

    $x->{server} =~ s{location = /hook}{location = /hook2};
    $x->write_conf();
    $x->reload();
    kill 'KILL', $worker;

    ok(wait_for(sub { $x->log_text() =~ /a chat waits whose location is not/ },
                15), 'gone: told');

    my $before = $m->scripts();
    sleep(3);
    cmp_ok($m->scripts() - $before, '<', 300,
           'gone: it is tried again with pauses');
    $m->finish();
}


# as a replica has it that got the message, but not that it was claimed

sub lost {
    my $m = AgentStream::Machines->new(1, workers => 1, tunnels => 1,
        timeout => 60, bot => { allow => 'all' });
    my ($x) = $m->machines();
    my $chat = $m->{chat};

    $m->tunnel('hold', 'opencode1');

    my $said = say_at($chat, $x, 1, 'say:one');
    my $key;

    ok(wait_for(sub {
        ($key) = grep { /:h$/ } split /\n/, $m->redis('KEYS', 'as1:*chat*:h');
        return $key && $m->redis('HGET', $key, 'epoch') =~ /1/;
    }, 5), 'lost: it was claimed');

    # its owner notices when it stores something
    $m->redis('HMSET', $key, 'epoch', 0, 'owner', '-');
    $m->tunnel('up', 'opencode1');

    ok(reply_of($chat, 1, $said, 10), 'lost: it is answered');
    sleep(3);
    is(scalar(loud($chat, 1)), 1, 'lost: once');
    $m->finish();
}


# "/new" while Redis is away, and afterwards, and in the next outage

sub anew {
    my $m = AgentStream::Machines->new(1, workers => 1, failure => 'local',
        redis => { appendonly => 'yes' }, bot => { allow => 'all' });
    my ($x) = $m->machines();

    answered($m, 'say:one');
    away($m);
    answered($m, '/new');
    answered($m, 'say:two');
    back($m);
    answered($m, 'say:three');

    my @s = sessions($x);

    isnt($s[1], $s[0], 'anew: a conversation of the outage');
    is($s[2], $s[1], 'anew: which goes on after it');

    answered($m, '/new');
    answered($m, 'say:four');
    isnt((sessions($x))[3], $s[1], 'anew: another one');

    away($m);
    answered($m, 'say:five');
    @s = sessions($x);
    is($s[4], $s[3], 'anew: which goes on in the next outage');
    back($m);
    $m->finish();
}


sub answered {
    my ($m, $text) = @_;
    my ($x) = $m->machines();
    my $said = say_at($m->{chat}, $x, 1, $text);

    ok(reply_of($m->{chat}, 1, $said, 10), "anew: $text");
    sleep(1.5);
}


sub away {
    my ($m) = @_;
    my ($x) = $m->machines();

    $m->{redis}->stop('KILL', 5);
    ok(wait_for(sub { !$x->status()->{store}{connected} }, 10), 'anew: away');
}


sub back {
    my ($m) = @_;

    $m->start_redis(appendonly => 'yes');
    ok(wait_for(sub { $m->leases() == 1 }, 10), 'anew: back');
    sleep(1);
}


# the sessions of the prompts, in order

sub sessions {
    my ($x) = @_;

    return map { (split m{/}, $_->{url})[2] }
           grep { $_->{url} =~ /prompt_async/ } @{ $x->control('log') };
}


# a store is added by a reload, so that the zone has the poller still

sub polled {
    my ($t, $chat) = bot(poll => 1, allow => 'all', workers => 1,
                         timeout => 60);
    my $m = AgentStream::Machines->server($t->{dir});

    my $said = $chat->say(platform => 'telegram', chat => 1, text => 'say:one');

    like(reply_of($chat, 1, $said, 10), qr/one/, 'polled: answered');

    $t->{http} = "agentstream_store redis://127.0.0.1:$m->{port}/0;
                  agentstream_store_failure local;\n";
    $t->write_conf();
    $t->reload();

    # the old worker polls no more
    sleep(3);
    $said = $chat->say(platform => 'telegram', chat => 1, text => 'say:two');
    like(reply_of($chat, 1, $said, 15) // '', qr/two/,
         'polled: and with a store');
    $t->finish();
    $m->{redis}->stop('TERM', 5);
}
