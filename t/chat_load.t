#!/usr/bin/perl

# Many chats at once on one worker, each with a turn of tools and text, on a
# platform with its real limits: every answer comes once, in order and whole, there
# is no 429, webhooks are answered at once, typing and progress are there soon, and
# clients of the web do not wait longer than without chats.
#
# Broken by: a limit that is counted for each chat, an answer that is given up
# because there are many, all chats waking for each send, a webhook that waits for
# OpenCode.
#
# "make test-chats" runs it with AGENTSTREAM_CHATS=500 and checks the times, too;
# on a machine that does something else they say little, so "make test" does not.

use FindBin;
use lib "$FindBin::Bin/lib";

use AgentStream;
use AgentStream::Bot;

my $chats = $ENV{AGENTSTREAM_CHATS} // 40;
my $strict = $ENV{AGENTSTREAM_CHATS};
my $busy = int($chats * 2 / 5);

# the platform and the people are one process, which must not stand still
my $within = $chats * 16;

my ($t, $chat) = bot(allow => 'all', timeout => 600,
                     http => 'agentstream_zone 64m;
                              log_format chats "$request_time";',
                     chat => 'access_log chats.log chats;');

sub percentile {
    my ($p, @values) = @_;

    return (sort { $a <=> $b } @values)[int(($p / 100) * $#values + 0.5)] // 0;
}

sub show {
    my ($what, @values) = @_;

    diag(sprintf('%-50s n %4d  p50 %7.1f  p99 %7.1f  max %7.1f ms', $what,
                 scalar @values, map { percentile($_, @values) } 50, 99, 100));

    return percentile(99, @values);
}

sub within { my ($what, $max, @values) = @_;
             my $p = show($what, @values);
             cmp_ok($p, '<', $max, $what) if $strict; }

sub cpu { my ($pid) = $t->workers();
          my @f = split / /, AgentStream::Process::slurp("/proc/$pid/stat");
          return ($f[13] + $f[14]) / 100 }

sub web {
    my ($n) = @_;

    return map {
        my $start = Time::HiRes::time();
        my $c = $t->turn($t->session(), 'say:hello');
        is($c->status(), 200, 'a turn of the web') unless $c->status();
        (Time::HiRes::time() - $start) * 1000;
    } 1 .. $n;
}

# a turn with a tool, and one with text, for each chat

my @ids = map { 10000 + $_ } 1 .. $chats;
my %said;

sub crowd {
    my ($text, $within, @to) = @_;

    my $all = $chat->control('crowd', { platform => 'telegram',
        chats => \@to, text => $text, within => $within });

    push @{ $said{ $_->{chat} } }, $_ for @$all;

    return @$all;
}

sub loud { return grep { $_->{bot} && !$_->{silent} } @_ }

sub all_answered {
    my ($n, $seconds, @to) = @_;

    return wait_for(sub {
        my $count = $chat->control('count?platform=telegram');
        sleep(0.3);
        !grep { ($count->{$_} // 0) < $n } @to;
    }, $seconds);
}

web(5);
my @before = web($strict ? 100 : 10);

my $cpu = cpu();
my $start = Time::HiRes::time();

my @taken = crowd('replay:bash-ok delay=100', $within, @ids);
my @during = web($strict ? 100 : 10);
is(scalar(grep { $_->{status} != 200 } @taken), 0, 'all messages are taken');

ok(all_answered(1, 60 + $chats, @ids), 'all are answered, with tools');
push @taken, crowd('text:40:24:50', $within, @ids);
ok(all_answered(2, 60 + $chats, @ids), 'and once more, with text');

my $seconds = Time::HiRes::time() - $start;
diag(sprintf('%d chats, 2 turns each: %.1f s, CPU of the worker %.2f s', $chats,
             $seconds, cpu() - $cpu));

sleep(1.5);
my $all = $chat->control('all?platform=telegram');
my ($once, $whole, $order) = (0, 0, 0);

for my $id (@ids) {
    my @answers = loud(@{ $all->{$id} });
    my $words = join ' ', $answers[-1]{text} =~ /#(\d+) /g;

    $once++ if @answers == 2;
    $whole++ if $words eq join ' ', 0 .. 39;
    $order++ if ($answers[0]{reply} // '') eq $said{$id}[0]{id}
                && ($answers[1]{reply} // '') eq $said{$id}[1]{id};
}

is($once, $chats, 'each answer once');
is($whole, $chats, 'whole');
is($order, $chats, 'in order');

my $state = $chat->state();
ok(no_429($chat), 'no 429');
is(scalar @{ $state->{violations} }, 0, 'nothing that Telegram refuses')
    or diag(explain($state->{violations}));

# while many are busy, others begin one after the other

crowd($strict ? 'text:350:24:100' : 'text:120:24:100', $busy * 10,
      @ids[0 .. $busy - 1]);
sleep($strict ? 14 : 3);    # all of them show something

# without the limits on the times, they last until a busy machine shows something

my @new = crowd(($strict ? 'text:60' : 'text:160') . ':24:50 in=CHAT', 6000,
                @ids[$busy .. $busy + 19]);
sleep(6);

$all = $chat->control('all?platform=telegram');
$state = $chat->state();
my (@typing, @progress);
my %prompted = map { $_->{body} =~ /in=(\d+)/ ? ($1 => $_->{done} * 1000) : () }
               grep { $_->{url} =~ /prompt_async/ } @{ $t->control('log') };

for my $said (@new) {
    my ($own) = grep { $_->{id} eq $said->{id} } @{ $all->{ $said->{chat} } };
    my ($typed) = grep { $_ >= $own->{time} }
                  @{ $state->{typing}{ $said->{chat} } };
    my ($shown) = grep { $_->{bot} && $_->{silent}
                         && $_->{time} >= $own->{time} }
                  @{ $all->{ $said->{chat} } };

    push @typing, $typed - $own->{time} if $typed;
    push @progress, $shown->{time} - $prompted{ $said->{chat} } if $shown;
}

diag("$busy chats busy:");
show('a webhook is answered, as the platform sees it', map { $_->{ms} } @new);
is(scalar @typing, 20, 'typing is shown');
within('typing is shown', 300, @typing);
is(scalar @progress, 20, 'progress is shown');
within('progress is shown after OpenCode was asked', 1000, @progress);

show("a webhook, $chats at once, as the platform sees it",
     map { $_->{ms} } @taken);
within('all webhooks, in nginx', 50, map { 1000 * $_ }
       split ' ', AgentStream::Process::slurp("$t->{dir}/chats.log"));
my $with = show('a turn of the web, with chats', @during);
my $without = show('a turn of the web, without chats', @before);
cmp_ok($with, '<', 2 * $without + 20, 'clients of the web do not wait')
    if $strict;

ok(all_answered(3, 120, @ids[0 .. $busy + 19]), 'all of them are answered');
ok(no_429($chat), 'still no 429');

$chat->stop();
$t->done();
