#!/usr/bin/perl

# A chat on OpenCode itself: text, tools, thoughts, a question, a permission, an
# interrupt, an error, a new session; and a restart of nginx, after which the
# metadata of OpenCode's session says that an answer was awaited.
#
# Broken by: a PATCH of the metadata that OpenCode does not take, a body of an
# answer that is not OpenCode's, a session that is made twice, an error without
# the provider's words.

use FindBin;
use lib "$FindBin::Bin/lib";

use AgentStream;
use AgentStream::Bot;
use AgentStream::Attach qw(restart_nginx);

my ($t, $chat) = bot(opencode => 'real', allow => '1001', timeout => 200,
    config => { permission => { bash => { '*' => 'allow',
                                          'rm *' => 'ask' } } },
    chat => 'agentstream_chat_tool_interval 500ms;');

sub say_it { return $chat->say(platform => 'telegram', chat => 1001,
                               text => join "\n", @_) }

sub answer { my ($said, %args) = @_;
             return (answer_to($chat, 'telegram', 1001, $said->{id},
                               seconds => 40, %args) // {})->{text} // '' }

sub progress {
    return join "\n", map { $_->{text}, map { $_->{text} } @{ $_->{edits} } }
                      grep { $_->{silent} }
                      $chat->messages('telegram', 1001, bot => 1);
}

sub asked {
    return wait_for(sub {
        my ($m) = grep { @{ $_->{buttons} // [] } }
                  $chat->messages('telegram', 1001, bot => 1);
        $m;
    }, 30);
}

sub opencode { return JSON::PP->new->utf8->decode(
    $t->request('GET', $_[0], port => $t->{port_opencode})->body()) }

sub awaited { return grep { $_->{metadata}{agentstream}{awaited} }
                     @{ opencode('/session') } }

sub is_busy { return grep { $_->{type} eq 'busy' }
                     values %{ opencode('/session/status') } }

sub press { my ($m, $label) = @_;
            return $chat->press(platform => 'telegram', chat => 1001,
                                message => $m->{id}, label => $label) }

my $bash = '!call bash {"command":"echo one; sleep 2","description":"List"}';

is(answer(say_it('!say "Hello from **OpenCode**."')), 'Hello from OpenCode.',
   'text, and its markup');

my $said = say_it('!think "Let me think about it."', $bash, '!next',
                  '!say "After the tool."');
like(answer($said), qr/After the tool\./, 'after a tool');
like(progress(), qr/🔧 \w+/, 'the tool was shown');

# code that is longer than a message stays code in each part

$said = say_it('!say "Look:\n```js\n"', '!repeat 400 "let a = 1; // line\n"',
               '!say "```\nDone."');
like(answer($said), qr/^Look:/, 'long code');
ok($chat->wait_message('telegram', 1001, qr/Done\.$/, 15), 'to its end');
my ($first, @parts) = grep { !$_->{silent} && $_->{text} =~ /let a/ }
                      $chat->messages('telegram', 1001, bot => 1);
cmp_ok(scalar @parts, '>=', 1, 'in several messages');
is(scalar(grep { !grep { $_->{type} eq 'pre' } @{ $_->{entities} } } $first,
          @parts), 0, 'each of them is code');
is(scalar(() = join('', map { $_->{text} } $first, @parts) =~ /let a = 1;/g),
   400, 'and no line is missing');

# a question, by a button; the same by words

my $ask = '!call question {"questions":[{"question":"Which colour?","header":'
    . '"Colour","options":[{"label":"Blue","description":"B"},{"label":"Red",'
    . '"description":"R"}]}]}';

$said = say_it($ask, '!next', '!say "Thank you."');
my $m = asked();
like($m->{text} // '', qr/Which colour\?/, 'a question');
press($m, 'Blue');
like(answer($said, not => $m->{id}), qr/Thank you/, 'answered by a button');

$said = say_it($ask, '!next', '!say "Thanks again."');
$m = asked();
say_it('Green');
like(answer($said, not => $m->{id}), qr/Thanks again/, 'answered by words');

# a permission

$said = say_it('!call bash {"command":"rm -f nothing","description":"x"}',
               '!next', '!say "Removed."');
$m = asked();
ok($m, 'a permission request');
my ($once) = grep { /once|allow/i } map { $_->{label} }
             map { ref eq 'ARRAY' ? @$_ : $_ } @{ $m->{buttons} };
press($m, $once);
like(answer($said, not => $m->{id}), qr/Removed/, 'granted by a button');

# an interrupt, an error

my $before = texts($chat, 'telegram', 1001, silent => 1);
$said = say_it('!call bash {"command":"sleep 60","description":"x"}', '!next',
               '!say "Never."');
ok(wait_for(sub { my @shown = texts($chat, 'telegram', 1001, silent => 1);
                  @shown > $before && $shown[-1] =~ /🔧/ }, 20), 'it works');
like(answer(say_it('/cancel')), qr/Cancelled/, 'cancelled');
like(answer(say_it('!say "And on."')), qr/And on/, 'the chat goes on');
like(answer(say_it('!http 401 {"body":{"error":{"message":"No key here","org":'
                   . '"SECRET"}}}')), qr/^(?!.*SECRET).*No key here/s,
     'an error is told, in the words of the provider');

# another session, whose number OpenCode keeps, and a restart in mid-turn

like(answer(say_it('/new')), qr/new conversation/, 'a new session');
like(answer(say_it('!say "Fresh."')), qr/Fresh/, 'answers');

say_it('!call bash {"command":"sleep 5","description":"x"}', '!next',
       '!say "Too late."');

# the session knows that an answer is awaited, and the tool runs

ok(wait_for(sub { awaited() && is_busy() }, 30), 'a turn runs');
restart_nginx($t);
$chat->config(webhook => { telegram => "http://127.0.0.1:$t->{port}/hook" });
$said = say_it('!say "Back."');
like(answer($said), qr/Back/, 'after a restart');
is(scalar(grep { /interrupted/ } texts($chat, 'telegram', 1001)), 1,
   'it says that an answer was interrupted');

my @sessions = @{ JSON::PP->new->utf8->decode(
    $t->request('GET', '/sessions')->body()) };
is(scalar @sessions, 2, 'two sessions in all');
is(scalar(grep { ($_->{metadata}{agentstream}{number} // 0) == 1 } @sessions),
   1, 'and the first knows the number');

my $state = $chat->state();
is($state->{limited}, 0, 'no 429');
is(scalar @{ $state->{violations} }, 0, 'nothing that Telegram refuses')
    or diag(explain($state->{violations}));

$chat->stop();
$t->done();
