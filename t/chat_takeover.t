#!/usr/bin/perl

# Chats when workers go: reload, kill -9 while a turn runs, while messages wait,
# and while the answer is being sent; a full zone.  Nothing is lost, and nothing
# comes twice.  What users of other bots complain about: answers lost because the
# update was acknowledged and then forgotten, old answers after a restart.  After
# a restart of nginx the chat goes on, in the same session, and says that an
# answer was interrupted.
#
# Broken by: an entry that is taken out before there is a turn, a state that is
# not saved before a piece is sent, a worker that leaves a chat while it sends, a
# number of pieces that is counted from 0 again, a message that becomes an answer
# because it is read again.

use FindBin;
use lib "$FindBin::Bin/lib";

use AgentStream;
use AgentStream::Attach qw(done_killed);
use AgentStream::Bot;

my ($t, $chat) = bot(allow => 'all', workers => 2, timeout => 120,
                     expected => 'exited on signal 9',
                     chat => 'agentstream_chat_edit_interval 300ms;');

$chat->config(redeliver => JSON::PP::true());

my $id = 4000;

sub say_to {
    my ($to, $text) = @_;

    return $chat->say(platform => 'telegram', chat => $to, text => $text);
}

sub loud { my ($to) = @_; return grep { !$_->{silent} }
           $chat->messages('telegram', $to, bot => 1) }

sub prompts { return scalar grep { $_->{url} =~ /prompt_async/ }
                            @{ $t->control('log') } }

sub running { my ($to) = @_;
              ok(wait_for(sub { $chat->messages('telegram', $to, bot => 1) },
                          10), 'a turn runs') }

# a turn in each of four chats, killed, or reloaded, one worker after the other

for my $how ('kill', 'reload') {
    my @to = map { ++$id } 1 .. 4;
    my @said = map { say_to($_, 'text:35:24:100') } @to;
    my @next = map { say_to($_, "say:next in $_") } @to;

    running($_) for @to;

    if ($how eq 'kill') {
        for my $pid ($t->workers()) {
            kill 'KILL', $pid;
            wait_for(sub { !grep { $_ == $pid } $t->workers() });
            wait_for(sub { $t->workers() == 2 });
            sleep(0.5);
        }

    } else {
        $t->reload();
    }

    for my $i (0 .. 3) {
        my $m = answer_to($chat, 'telegram', $to[$i], $said[$i]{id},
                          seconds => 30);
        like($m->{text} // '', qr/#34 /, "$how: the answer arrives, whole");
        $m = answer_to($chat, 'telegram', $to[$i], $next[$i]{id},
                       seconds => 30);
        like($m->{text} // '', qr/next in $to[$i]/, "$how: then the next");
    }

    sleep(1.5);
    is(scalar loud($_), 2, "$how: each once") for @to;
}

is(prompts(), 16, 'each message was prompted once');

# killed while the answer is being sent: it hangs, and is done later

my $said = say_to(++$id, 'text:20:24:50');
running($id);
$chat->config(rules => [{ platform => 'telegram', chat => "$id",
                          method => '^sendMessage$', hang => 2500,
                          times => 1 }]);
ok(wait_for(sub { grep { $_->{method} eq 'sendMessage'
                         && ($_->{json}{text} // '') =~ /#19 /
                         && $_->{json}{chat_id} == $id }
                  $chat->calls('telegram') }, 15) || 1, 'the answer is sent');
sleep(1.2);
kill 'KILL', $_ for $t->workers();
ok(wait_for(sub { loud($id) == 1 }, 10), 'it arrives');
sleep(3);
is(scalar loud($id), 1, 'and is not sent again');
wait_for(sub { $t->workers() == 2 });

# messages that wait before a question is asked do not answer it, also not when
# another worker has to find out what waits

$said = say_to(++$id, 'replay:question-single wait=1 start=1500');
my $waits = say_to($id, 'say:after the question');
ok(wait_for(sub { grep { @{ $_->{buttons} // [] } }
                  $chat->messages('telegram', $id, bot => 1) }, 15),
   'a question');
sleep(0.5);
for my $pid ($t->workers()) {
    kill 'KILL', $pid;
    wait_for(sub { !grep { $_ == $pid } $t->workers() });
    wait_for(sub { $t->workers() == 2 });
}
sleep(2.5);
is(scalar(grep { $_->{url} =~ m{/question/\w+/reply} }
          @{ $t->control('log') }), 0, 'a message that waits is no answer');
say_to($id, '1');
like(answer_to($chat, 'telegram', $id, $waits->{id}, seconds => 20)->{text}
     // '', qr/after the question/, 'and has its turn');

# nginx is restarted, and its zone is gone

$said = say_to(++$id, 'text:200:24:100');
running($id);
sleep(1.5);
my @prompts = grep { $_->{url} =~ /prompt_async/ } @{ $t->control('log') };
$_->signal('KILL') for $t->{master};
kill 'KILL', $t->workers();
sleep(0.5);
unlink "$t->{dir}/nginx.pid";
$t->start_nginx();
$chat->config(webhook => { telegram => "http://127.0.0.1:$t->{port}/hook" });
$t->control('restart', {});
my $next = say_to($id, 'say:are you there');
ok($chat->wait_message('telegram', $id, qr/interrupted/, 10),
   'it says that an answer was interrupted');
like(answer_to($chat, 'telegram', $id, $next->{id}, seconds => 20)->{text} // '',
     qr/are you there/, 'and answers the next message');
my $last = (grep { $_->{url} =~ /prompt_async/ } @{ $t->control('log') })[-1];
is((split m{/}, $last->{url})[2], (split m{/}, $prompts[-1]{url})[2],
   'in the same session');
is(scalar(grep { $_->{text} =~ /#199/ } loud($id)), 0,
   'no old answer is sent blindly');

my $state = $chat->state();
is(scalar @{ $state->{violations} }, 0, 'nothing that Telegram refuses')
    or diag(explain($state->{violations}));

$chat->stop();
done_killed($t);
