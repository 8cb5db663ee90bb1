package AgentStream::Bot;

# A bot on a platform of Chat.pm, which an nginx with the module serves.

use strict;
use warnings;

use AgentStream;
use AgentStream::Chat;
use AgentStream::Process qw(wait_for);
use Test::More ();

use Exporter;

our @ISA = qw(Exporter);
our @EXPORT = qw(bot texts answer_to no_429);
our %EXPORT_TAGS = (machines => [qw(answer_to no_429 hook_at say_at reply_of
                                    loud turn_runs)]);
our @EXPORT_OK = ('bot_conf', @{ $EXPORT_TAGS{machines} });


# platform: telegram if not given; poll: without a webhook; allow; chat: directives of the location;
# api: directives of the locations that lead to the platforms; the others are
# those of AgentStream->new() -> the environment, the platforms

sub bot {
    my (%args) = @_;
    my %conf = map { exists $args{$_} ? ($_ => delete $args{$_}) : () }
               qw(platform allow chat poll api server);
    my $platform = $conf{platform} // 'telegram';
    my $poll = $conf{poll};

    my $t = AgentStream->new(workers => 1, %args, nginx => 0);
    my $chat = AgentStream::Chat->start(dir => $t->{dir});

    $t->{server} = bot_conf($chat, %conf);
    $t->start_nginx();
    $chat->config(webhook => { $platform =>
                               "http://127.0.0.1:$t->{port}/hook" })
        unless $poll;

    return ($t, $chat);
}


# the part of nginx.conf that belongs to the bot

sub bot_conf {
    my ($chat, %args) = @_;
    my $platform = $args{platform} // 'telegram';
    my $allow = $args{allow} // '1001';
    my $secret = $chat->secret($platform);
    my $verify = $platform eq 'whatsapp' ? 'verify=' . $chat->secret('verify')
                                         : '';

    my $how = $args{poll} ? 'poll' : "secret=$secret $verify";

    $allow = "agentstream_chat_allow $allow;" if $allow;

    return $chat->locations($args{api}) . "location = /hook {\n"
        . "agentstream /opencode/;\n"
        . "agentstream_chat $platform /$platform-api/ $how;\n"
        . "$allow " . ($args{chat} // '') . " }\n" . ($args{server} // '');
}


# the texts of the bot's messages in a chat; silent: those that ring no bell

sub texts {
    my ($chat, $platform, $id, %args) = @_;

    return map { $_->{text} }
           grep { !defined $args{silent} || !$_->{silent} == !$args{silent} }
           $chat->messages($platform, $id, bot => 1);
}


# waits for the bot's loud message in reply to this one; not: another one, which
# was a question

sub answer_to {
    my ($chat, $platform, $id, $message, %args) = @_;

    return wait_for(sub {
        my ($m) = grep { !$_->{silent} && ($_->{reply} // '') eq $message
                         && $_->{id} ne ($args{not} // '') }
                  $chat->messages($platform, $id, bot => 1);
        $m;
    }, $args{seconds} // 15);
}


# Telegram on several machines.  The webhooks lead to this one from now on

sub hook_at {
    my ($chat, $t) = @_;

    $chat->config(webhook => { telegram => "http://127.0.0.1:$t->{port}/hook" });
}


# somebody says something, and this machine is told

sub say_at {
    my ($chat, $t, $to, $text, %args) = @_;

    hook_at($chat, $t);

    return $chat->say(platform => 'telegram', chat => $to, text => $text, %args);
}


# -> the text of the answer, or ''

sub reply_of {
    my ($chat, $to, $said, $seconds) = @_;

    return (answer_to($chat, 'telegram', $to, $said->{id},
                      seconds => $seconds // 15) // {})->{text} // '';
}


# The bot's messages that ring a bell.  A machine that did not know the chat may
# say that an answer was interrupted: this is no answer

sub loud {
    my ($chat, $to) = @_;

    return grep { !$_->{silent} && $_->{text} !~ /interrupted/ }
           $chat->messages('telegram', $to, bot => 1);
}


# waits until the bot shows that it works

sub turn_runs {
    my ($chat, $to) = @_;

    Test::More::ok(wait_for(sub { $chat->messages('telegram', $to, bot => 1) },
                            10), "$to: a turn runs");
}


# Whether Telegram has never answered 429, or only when messages arrived together
# after a time without any: then they were held up on their way, by a machine that
# did something else, and this says nothing about the bot.

sub no_429 {
    my ($chat) = @_;

    return 1 unless $chat->state()->{limited};

    my @calls = grep { $_->{method} =~ /^(sendMessage|editMessage)/ }
                $chat->calls('telegram');
    my ($first) = grep { ($calls[$_]{status} // 0) == 429 } 0 .. $#calls;
    my @times = map { $_->{time} } @calls[0 .. $first];
    my ($gap) = sort { $b <=> $a } map { $times[$_] - $times[$_ - 1] }
                grep { $times[$_] > $times[-1] - 2000 } 1 .. $#times;

    Test::More::diag(sprintf('429: %d of %d calls; before the first: %d within '
        . 'a second, the longest gap %d ms', $chat->state()->{limited},
        scalar @calls, scalar(grep { $_ > $times[-1] - 1000 } @times), $gap));

    return $gap >= 250;
}


1;
