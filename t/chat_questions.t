#!/usr/bin/perl

# Questions and permission requests in a chat: answered by a button, by words, or
# in a page, and by whoever comes first; buttons that are stale say so and go;
# nobody else in a group can press them.  The commands: cancel ends in silence,
# new begins another session, messages wait their turn.
#
# Broken by: a press that is not checked against the list, buttons that stay when
# somebody has answered in a page, a message that answers a question which the
# chat has not seen, or whose turn was cancelled, a number of the session that is
# not kept in OpenCode, or that an older note overwrites, a message that cannot be
# cancelled as long as it has no turn (take_back()).

use FindBin;
use lib "$FindBin::Bin/lib";

use AgentStream;
use AgentStream::Bot;

my ($t, $chat) = bot(workers => 2, allow => '1001 1002 1003 1004 1005 1006 -700',
                     timeout => 100,
                     chat => 'agentstream_chat_progress off;
                              agentstream_chat_thoughts off;');

sub say_to {
    my ($id, $text, @more) = @_;

    return $chat->say(platform => 'telegram', chat => $id, text => $text,
                      @more);
}

sub press {
    my ($id, $message, $label, @more) = @_;

    return $chat->press(platform => 'telegram', chat => $id,
                        message => $message->{id}, label => $label, @more);
}

sub asked {
    my ($id) = @_;

    return wait_for(sub {
        my ($m) = grep { @{ $_->{buttons} // [] } }
                  $chat->messages('telegram', $id, bot => 1);
        $m;
    }, 10);
}

sub button { my ($b) = map { ref eq 'ARRAY' ? @$_ : $_ } @{ $_[0]{buttons} };
             return $b }

sub answers { return grep { $_->{url} =~ m{/(question|permission)/\w+/reply} }
                     @{ $t->control('log') } }

# a question, by a button

my $said = say_to(1001, 'replay:question-single wait=1');
my $m = asked(1001);
ok($m, 'a question with buttons');
like($m->{text}, qr/\?/, 'its text');
cmp_ok(length $_->{token} // '', '<=', 64, 'a short token')
    for map { @$_ } map { ref $_ eq 'ARRAY' ? $_ : [$_] } @{ $m->{buttons} };

my $label = button($m)->{label};

is(press(1001, $m, $label)->{status}, 200, 'pressed');
ok(wait_for(sub { answers() == 1 }, 5), 'OpenCode has the answer');
like((answers())[0]{body}, qr/\Q$label\E/, 'which is the label');
ok(answer_to($chat, 'telegram', 1001, $said->{id}, not => $m->{id}),
   'the turn goes on');
ok(wait_for(sub { !grep { @{ $_->{buttons} // [] } }
                  $chat->messages('telegram', 1001) }, 10), 'no buttons left');

# once more, by hand: it is over

$t->control('config', {});
$chat->press(platform => 'telegram', chat => 1001, message => $m->{id},
             token => button($m)->{token});
ok(wait_for(sub { grep { ($_->{json}{text} // '') =~ /no longer/ }
                  $chat->calls('telegram', 'answerCallbackQuery') }, 5),
   'a stale button says so');
is(scalar answers(), 1, 'and does nothing');

# a question, by words

$said = say_to(1002, 'replay:question-single wait=1');
$m = asked(1002);
ok($m, 'asked');
say_to(1002, '1');
ok(wait_for(sub { answers() == 2 }, 5), 'a number is an answer');
ok(answer_to($chat, 'telegram', 1002, $said->{id}, not => $m->{id}),
   'and the turn ends');

# a permission, in a page, while the chat looks at it

$said = say_to(1003, 'replay:permission-always wait=1');
$m = asked(1003);
ok($m, 'a permission with buttons');
my $sid = (split m{/}, (grep { $_->{url} =~ /prompt_async/ }
                        @{ $t->control('log') })[-1]{url})[2];
my ($id) = $t->request('GET', "/sessions/$sid/turn")->body() =~ /"(per_\w+)"/;
is($t->request('POST', "/sessions/$sid/permissions/$id/reply",
               body => { reply => 'once' })->status(), 200, 'by a page');
ok(wait_for(sub { !grep { @{ $_->{buttons} // [] } }
                  $chat->messages('telegram', 1003) }, 10), 'the buttons go');
ok(answer_to($chat, 'telegram', 1003, $said->{id}, not => $m->{id}),
   'and the turn ends');
is(scalar answers(), 3, 'one answer');

# a stranger in the group cannot press

$said = say_to(-700, '@agent_bot replay:permission-always wait=1',
               from => 1001);
$m = asked(-700);
press(-700, $m, button($m)->{label}, from => 6666);
sleep(1);
is(scalar answers(), 3, 'a stranger presses in vain');
press(-700, $m, button($m)->{label}, from => 1001);
ok(wait_for(sub { answers() == 4 }, 5), 'one of us does not');
ok(answer_to($chat, 'telegram', -700, $said->{id}, not => $m->{id}),
   'and the turn ends');

# messages wait their turn; cancel ends the turn and says nothing more of it

$said = say_to(1004, 'text:200:24:100');
my $next = say_to(1004, 'say:the next one');
ok(wait_for(sub { grep { $_->{url} =~ /prompt_async/
                         && $_->{body} =~ /text:200/ }
                  @{ $t->control('log') } }, 10), 'the first is prompted');
sleep(0.5);
my $status = say_to(1004, '/status');
like(answer_to($chat, 'telegram', 1004, $status->{id})->{text} // '',
     qr/Working.*1 more/, 'its status');
my $cancel = say_to(1004, '/cancel');
like(answer_to($chat, 'telegram', 1004, $cancel->{id})->{text}, qr/Cancelled/,
     'cancelled');
like(answer_to($chat, 'telegram', 1004, $next->{id})->{text} // '',
     qr/the next one/, 'the next message has its turn');
is(scalar(grep { ($_->{reply} // '') eq $said->{id} }
          $chat->messages('telegram', 1004, bot => 1)), 0,
   'the cancelled turn ends in silence');
$cancel = say_to(1004, '/cancel');
like(answer_to($chat, 'telegram', 1004, $cancel->{id})->{text}, qr/nothing/,
     'nothing to cancel');

# cancelled before there is a turn: while OpenCode is asked for the session, and
# behind a command that takes its time

sub slow { $t->control('config', { rules => [{ method => $_[0],
                                       url => '^/session/', delay => 2000,
                                       times => 1 }] }) }

slow('GET');
say_to(1006, 'say:never');
$cancel = say_to(1006, '/cancel');
is(answer_to($chat, 'telegram', 1006, $cancel->{id})->{text}, 'Cancelled.',
   'a message without a turn is cancelled');

slow('PATCH');
my $renew = say_to(1006, '/new');
say_to(1006, 'say:neither');
$next = say_to(1006, 'say:this one');
$cancel = say_to(1006, '/cancel');
is(answer_to($chat, 'telegram', 1006, $cancel->{id})->{text}, 'Cancelled.',
   'one that waits, too');
like(answer_to($chat, 'telegram', 1006, $renew->{id})->{text}, qr/new conv/i,
     'the command before it is not');
is((answer_to($chat, 'telegram', 1006, $next->{id}) // {})->{text}, 'this one',
   'nor the message after it');
is(scalar(grep { $_->{url} =~ /prompt_async/
                 && $_->{body} =~ /say:(never|neither)/ }
          @{ $t->control('log') }), 0, 'what was cancelled is not prompted');

# what a cancelled turn has asked is not answered by the next message, though
# OpenCode takes its time

$t->control('config', { rules => [{ url => '/abort', delay => 1500,
                                    times => 1 }] });
say_to(1002, 'replay:question-single wait=1');
ok(asked(1002), 'asked again');
$cancel = say_to(1002, '/cancel');
$next = say_to(1002, 'say:not an answer');
like(answer_to($chat, 'telegram', 1002, $next->{id})->{text} // '',
     qr/not an answer/, 'a message after cancel has its own turn');

# another session

sub prompted { return map { (split m{/}, $_->{url})[2] }
    grep { $_->{url} =~ /prompt_async/ && $_->{body} =~ /$_[0]/ }
    @{ $t->control('log') } }

$said = say_to(1005, 'say:first');
ok(answer_to($chat, 'telegram', 1005, $said->{id}), 'first');
$said = say_to(1005, '/new');
like(answer_to($chat, 'telegram', 1005, $said->{id})->{text}, qr/new conv/i,
     'new');
$said = say_to(1005, 'say:second');
ok(answer_to($chat, 'telegram', 1005, $said->{id}), 'second');
isnt((prompted('say:first'))[0], (prompted('say:second'))[0],
     'in another session');
my ($one) = prompted('say:first');
ok((grep { $_->{method} eq 'PATCH' && $_->{body} =~ /"number":1/
           && (split m{/}, $_->{url})[2] eq $one } @{ $t->control('log') }),
   'its number is kept in the first one');

# OpenCode is slow to note that an answer is awaited: neither the note that it
# has arrived nor a new session overtakes it

$t->control('config', { rules => [{ method => 'PATCH', url => '.',
                                    delay => 3000, times => 1 }] });
$said = say_to(1002, 'text:20:24:50');
my $new = say_to(1002, '/new');
ok(answer_to($chat, 'telegram', 1002, $new->{id}), 'another new session');
my $first = (prompted('text:20:'))[0];
my @patches;
ok(wait_for(sub {
    @patches = grep { $_->{method} eq 'PATCH' && $_->{url} =~ /\Q$first\E/ }
               @{ $t->control('log') };
    @patches && !grep { !$_->{done} } @patches;
}, 10), 'all notes were answered');
@patches = sort { $a->{done} <=> $b->{done} } @patches;
like($patches[-1]{body} // '', qr/"number":1,"awaited":false/,
     'its number is the last that is noted');
is(scalar(grep { $patches[$_]{time} < $patches[$_ - 1]{done} } 1 .. $#patches),
   0, 'one note at a time');

my $state = $chat->state();
is($state->{limited}, 0, 'no 429');
is(scalar @{ $state->{violations} }, 0, 'nothing that Telegram refuses')
    or diag(explain($state->{violations}));

$chat->stop();
$t->done();
