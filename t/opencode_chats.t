#!/usr/bin/perl

# Slack and WhatsApp on OpenCode itself, side by side: a picture that the model
# gets, thoughts, a tool, a subagent, a question, a permission, an interrupt and
# an error.  t/opencode_chat.t does the same on Telegram.
#
# Broken by: a prompt without the pictures (delivery_content()), an error without
# the provider's words (view_final()), a press that is not passed on.

use FindBin;
use lib "$FindBin::Bin/lib";

use AgentStream;
use AgentStream::Bot;
use AgentStream::Process qw(slurp);

my %to = (slack => 'D0ANN', whatsapp => '15550001111');
my @platforms = sort keys %to;
my $gif = 'R0lGODlhAQABAIAAAP///wAAACwAAAAAAQABAAACAkQBADs=';

my ($t, $chat) = bot(platform => 'slack', opencode => 'real', timeout => 240,
    allow => 'U0ANN', model_log => 1,
    config => {
        permission => { bash => { '*' => 'allow', 'rm *' => 'ask' } },
        provider => { lab => { models => { scripted => {
            attachment => JSON::PP::true(), modalities => {
                input => ['text', 'image'], output => ['text'] } } } } } },
    chat => 'agentstream_chat_tool_interval 500ms;',
    server => 'location = /whatsapp {
        agentstream /opencode/;
        agentstream_chat whatsapp /whatsapp-api/ secret=whatsapp-app-secret;
        agentstream_chat_allow 15550001111;
    }');

$chat->config(webhook => { slack => "http://127.0.0.1:$t->{port}/hook",
    whatsapp => "http://127.0.0.1:$t->{port}/whatsapp" });

# says the same on both; each answer must match, before the next step

sub step {
    my ($name, $lines, $regex, %more) = @_;

    for my $platform (@platforms) {
        my $said = $chat->say(platform => $platform, chat => $to{$platform},
            text => join("\n", map { s/PLATFORM/$platform/r } @$lines), %more);
        is($said->{status}, 200, "$platform: $name: taken");
    }

    answered($name, $regex);
}

sub answered {
    my ($name, $regex) = @_;

    for my $platform (@platforms) {
        my $text = $regex =~ s/PLATFORM/$platform/r;

        ok($chat->wait_message($platform, $to{$platform}, qr/$text/, 45),
           "$platform: $name")
            or diag(explain([texts($chat, $platform, $to{$platform})]));
    }
}

# presses the button with this label below the last message that has buttons

sub press {
    my ($name, $regex, $label) = @_;

    for my $platform (@platforms) {
        my $m;

        ok(wait_for(sub { ($m) = grep { @{ $_->{buttons} // [] }
                                        && $_->{text} =~ $regex }
                          $chat->messages($platform, $to{$platform}, bot => 1);
                          $m }, 45), "$platform: $name: asked") or next;

        my ($button) = grep { $_->{label} =~ $label } @{ $m->{buttons} };
        ok($button, "$platform: $name: a button") or next;
        $chat->press(platform => $platform, chat => $to{$platform},
                     message => $m->{id}, token => $button->{token});
    }
}

# a picture

step('a picture', ['!say "Seen on PLATFORM."'], 'Seen on PLATFORM\.',
     file => { name => 'dot.gif', mime => 'image/gif', base64 => $gif,
               photo => JSON::PP::true() });

my @asked = map { JSON::PP->new->utf8->decode($_) }
            split /\n/, slurp("$t->{dir}/model.requests");

for my $platform (@platforms) {
    my ($content) = grep { ref && grep { ($_->{text} // '')
                                         =~ /Seen on $platform/ } @$_ }
                    map { $_->{content} } map { @{ $_->{body}{messages} } }
                    @asked;
    is_deeply([map { $_->{image_url}{url} // () } @{ $content // [] }],
              ["data:image/gif;base64,$gif"], "$platform: the model has it");
}

# thoughts, a tool, a subagent, a question

step('a question', ['!think "Let me think."',
    '!call bash {"command":"echo one","description":"List"}', '!next',
    '!call task {"description":"x","prompt":"!say \"Inside.\"",'
        . '"subagent_type":"general"}', '!next',
    '!call question {"questions":[{"question":"Which colour on PLATFORM?",'
        . '"header":"Colour","options":[{"label":"Blue","description":"B"},'
        . '{"label":"Red","description":"R"}]}]}', '!next',
    '!say "It is done on PLATFORM."'], 'Which colour on PLATFORM');
press('a question', qr/Which colour/, qr/Red/);
answered('thoughts, tools and a question', 'It is done on PLATFORM');
unlike(join("\n", map { texts($chat, $_, $to{$_}) } @platforms), qr/Inside\./,
       "a subagent's words are not the answer");

my ($progress) = grep { /🔧/ } map { $_->{text}, map { $_->{text} }
                                     @{ $_->{edits} } }
                 $chat->messages('slack', $to{slack}, bot => 1);
like($progress // '', qr/🔧/, 'slack: the tools were shown');
is(scalar(grep { /🔧|Processing/ } texts($chat, 'whatsapp', $to{whatsapp})), 0,
   'whatsapp: no progress messages');

# a permission

step('a permission', ['!call bash {"command":"rm -f PLATFORM","description":'
    . '"x"}', '!next', '!say "Removed on PLATFORM."'], 'rm -f PLATFORM');
press('a permission', qr/rm -f/, qr/once/i);
answered('a permission', 'Removed on PLATFORM');

# an interrupt, and an error, in the words of the provider

for my $platform (@platforms) {
    $chat->say(platform => $platform, chat => $to{$platform}, text =>
        "!call bash {\"command\":\"sleep 60\",\"description\":\"$platform\"}\n"
        . "!next\n!say \"Never.\"");
}

ok(wait_for(sub { 2 == grep { $_->{type} eq 'busy' } values %{ busy() } }, 20),
   'both work');
step('an interrupt', ['/cancel'], '^Cancelled\.$');
step('an error', ['!http 401 {"body":{"error":{"message":"No key, PLATFORM",'
     . '"org":"SECRET"}}}'], 'No key, PLATFORM');

for my $platform (@platforms) {
    unlike(join("\n", texts($chat, $platform, $to{$platform})),
           qr/Never|SECRET/, "$platform: nothing that must not be said");
}

# what OpenCode says of its sessions

sub busy {
    return JSON::PP->new->utf8->decode($t->request('GET', '/session/status',
        port => $t->{port_opencode})->body());
}

my $state = $chat->state();
is($state->{limited}, 0, 'no 429');
is(scalar @{ $state->{violations} }, 0, 'nothing that is refused')
    or diag(explain($state->{violations}));

$chat->stop();
$t->done();
