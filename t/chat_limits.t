#!/usr/bin/perl

# What the platforms count, and answer 429: messages of a bot in a second, edits
# in a workspace of Slack, messages in a channel whatever the thread, messages in
# a group.  Many chats at once, and several workers, stay below it, and answers
# come before progress.
#
# Broken by: a bucket for each chat where the platform counts a workspace or a
# channel, a burst on top of the rate, a bucket for each worker.

use FindBin;
use lib "$FindBin::Bin/lib";

use AgentStream;
use AgentStream::Bot;

slack();
telegram();

done_testing();


sub ok_so_far {
    my ($chat, $name) = @_;

    my $state = $chat->state();
    ok($name eq 'telegram' ? no_429($chat) : !$state->{limited},
       "$name: no 429");
    is(scalar @{ $state->{violations} }, 0, "$name: nothing is refused")
        or diag(explain($state->{violations}));
}


# 9 turns of 10 s, with edits every 500 ms if they were alone

sub slack {
    my ($t, $chat) = bot(platform => 'slack', allow => 'all', timeout => 60,
                         workers => 2,
                         chat => 'agentstream_chat_edit_interval 500ms;');
    my @chats = map { "D0ANN$_" } 1 .. 6;

    $chat->say(platform => 'slack', chat => $_, text => 'text:100:24:100')
        for @chats;

    # three threads of a channel

    my @said = map { $chat->say(platform => 'slack', chat => 'C0TEAM',
                                as => 'app_mention',
                                text => "<\@U0BOT> text:100:24:100") } 1 .. 3;

    for my $id (@chats) {
        ok(wait_for(sub { grep { $_->{text} =~ /#99 / }
                          $chat->messages('slack', $id, bot => 1) }, 30),
           'slack: an answer');
    }

    for my $said (@said) {
        ok(wait_for(sub { grep { $_->{text} =~ /#99 /
                                 && $_->{thread} eq $said->{id} }
                          $chat->messages('slack', 'C0TEAM', bot => 1) }, 30),
           'slack: in each thread');
    }

    ok_so_far($chat, 'slack');
    cmp_ok(scalar $chat->calls('slack', 'chat.update'), '>', 18,
           'slack: what is allowed is used');

    $chat->stop();
    $t->finish();
}


sub telegram {
    my ($t, $chat) = bot(allow => 'all', timeout => 60, workers => 2,
                         chat => 'agentstream_chat_edit_interval 300ms;');
    my @chats = 3001 .. 3060;
    my %said = map { $_ => $chat->say(platform => 'telegram', chat => $_,
                                      text => "say:to $_") } @chats;

    $chat->say(platform => 'telegram', chat => -500, from => 3001,
               text => '@agent_bot text:100:24:100');

    for my $id (@chats) {
        my $m = answer_to($chat, 'telegram', $id, $said{$id}{id});
        is($m->{text}, "to $id", 'telegram: an answer');
    }

    ok(wait_for(sub { grep { $_->{text} =~ /#99 / }
                      $chat->messages('telegram', -500, bot => 1) }, 30),
       'telegram: in a group');
    ok_so_far($chat, 'telegram');

    $chat->stop();
    $t->finish();
}
