#!/usr/bin/perl

# Chats are busy on three machines while Redis has a fault: it has no memory left,
# is stopped for longer than a lease, is killed and comes back with its data, is
# emptied.  People go on writing, to any machine; what is refused comes again, as
# the platforms do it.  No message is lost, none is answered twice, and each chat
# is answered in the order in which it was taken.
#
# Broken by: an update that is answered with 200 although Redis has not stored it
# (post_done()); a name that is forgotten with the connection, so that what comes
# again is taken twice; a state that is lost when Redis does not answer
# (push_chat_done()); a chat that is not stored again (mend_chat()); scripts of
# an owner that need memory.

use FindBin;
use lib "$FindBin::Bin/lib";

use AgentStream;
use AgentStream::Attach;
use AgentStream::Bot qw(:machines);
use AgentStream::Machines;

my $m = AgentStream::Machines->new(3, redis => { appendonly => 'yes' },
    timeout => 400,
    bot => { allow => 'all', chat => 'agentstream_chat_edit_interval 1s;' });
my @machines = $m->machines();
my $chat = $m->{chat};
my $id = 8000;

my %fault = (full => \&full, stopped => \&stopped, restarted => \&restarted,
             emptied => \&emptied);

# the others take longer, and run with "make test-machines" only
my @names = $ENV{CHAT_FAULT} ? split ' ', $ENV{CHAT_FAULT}
            : $ENV{AGENTSTREAM_MACHINES} ? sort keys %fault : 'full';

$chat->config(redeliver => JSON::PP::true());

for my $name (@names) {
    during($name, $fault{$name});
    ok(wait_for(sub { $m->leases() == 3 }, 15), "$name: all are back");
}

is(scalar @{ $chat->state()->{violations} }, 0, 'nothing that is refused')
    or diag(explain($chat->state()->{violations}));

$m->done();


sub at {
    my ($i, $to, $text) = @_;

    return say_at($chat, $machines[$i % 3], $to, $text);
}


# six chats, each with a turn that runs, a message that waits, one that comes
# while the fault lasts, and one after it, all on different machines

sub during {
    my ($name, $fault) = @_;
    my @chats = map { ++$id } 1 .. 6;
    my %said;

    for my $i (0 .. 5) {
        my $to = $chats[$i];
        push @{ $said{$to} }, at($i, $to, 'text:40:24:100'),
                              at($i + 1, $to, "say:$to two");
    }

    turn_runs($chat, $_) for @chats;

    my $refused = 0;

    $fault->(sub {
        for my $i (0 .. 5) {
            push @{ $said{$chats[$i]} },
                 at($i + 2, $chats[$i], "say:$chats[$i] three");
            $refused++ if $said{$chats[$i]}[-1]{status} != 200;
        }
    });

    diag("$name: $refused of 6 updates came again") if $ENV{VERBOSE};

    for my $to (@chats) {
        reply_of($chat, $to, $said{$to}[$_], 60) for 0 .. 2;
    }

    push @{ $said{$chats[$_]} }, at($_, $chats[$_], "say:$chats[$_] four")
        for 0 .. 5;
    reply_of($chat, $_, $said{$_}[3], 30) for @chats;
    sleep(1);

    for my $to (@chats) {
        my @texts = map { $_->{text} } loud($chat, $to);

        like(shift(@texts) // '', qr/#39 /, "$name, $to: the answer");
        is("@texts", "$to two $to three $to four",
           "$name, $to: all the others, in order, once");
        is(prompts_of("$to $_"), 1, "$name, $to: one prompt ($_)")
            for qw(two three four);
    }
}


sub prompts_of {
    my ($text) = @_;

    return scalar grep { $_->{url} =~ /prompt_async/
                         && $_->{body} =~ /\Q$text\E/ }
                  @{ $machines[0]->control('log') };
}


sub full {
    my ($meanwhile) = @_;

    $m->redis('CONFIG', 'SET', 'maxmemory', '1');
    $meanwhile->();
    sleep(3);
    $m->redis('CONFIG', 'SET', 'maxmemory', '0');
}


sub stopped {
    my ($meanwhile) = @_;

    $m->{redis}->signal('STOP');
    $meanwhile->();
    sleep(10);
    $m->{redis}->signal('CONT');
}


sub restarted {
    my ($meanwhile) = @_;

    $m->{redis}->stop('KILL', 5);
    $meanwhile->();
    sleep(2);
    $m->start_redis(appendonly => 'yes');
}


sub emptied {
    my ($meanwhile) = @_;

    $m->redis('FLUSHALL');
    $meanwhile->();
}
