#!/usr/bin/perl

# "poll": the module asks Telegram for updates, in one worker of all; the next
# one takes over when it dies or nginx is reloaded, where it was.  No message is
# lost, none comes twice, and there is no webhook.
#
# Broken by: an offset that is not saved, a poller in each worker, an offset that
# is passed on before the updates were recorded, a worker that waits for its
# call before it exits, a poll that follows an empty answer at once
# (poll_done()).

use FindBin;
use lib "$FindBin::Bin/lib";

use AgentStream;
use AgentStream::Attach qw(done_killed);
use AgentStream::Bot;

my ($t, $chat) = bot(poll => 1, allow => '1001', workers => 2, timeout => 60,
                     expected => 'exited on signal 9');
my %said;

sub say_it {
    my ($n) = @_;

    $said{$n} = $chat->say(platform => 'telegram', chat => 1001,
                           text => "say:number $n")->{id};
}

sub polls { return grep { $_->{method} eq 'getUpdates' }
                   $chat->calls('telegram') }

say_it(1);
ok(answer_to($chat, 'telegram', 1001, $said{1}), 'answered');
is($t->request('POST', '/hook', body => '{}',
               headers => { 'X-Telegram-Bot-Api-Secret-Token' => 'x' })
     ->status(), 404, 'there is no webhook');

for my $n (2 .. 3) {
    kill 'KILL', $_ for $t->workers();
    say_it($n);
    wait_for(sub { $t->workers() == 2 });
    ok(answer_to($chat, 'telegram', 1001, $said{$n}), 'after the workers died');
}

my @old = $t->reload();
say_it(4);
ok(answer_to($chat, 'telegram', 1001, $said{4}), 'after a reload');
my %old = map { $_ => 1 } @old;
ok(wait_for(sub { !grep { $old{$_} } $t->workers() }, 10),
   'the old workers do not wait');

sleep(1);
is(scalar(grep { !$_->{silent} } $chat->messages('telegram', 1001, bot => 1)),
   4, 'each message was answered once');
is(scalar(grep { $_->{url} =~ /prompt_async/ } @{ $t->control('log') }), 4,
   'and prompted once');
# a server that does not hold the request back is not asked all the time

$chat->config(rules => [{ method => '^getUpdates$', status => 200,
    json => { ok => JSON::PP::true(), result => [] } }]);
say_it(5);
sleep(1);
my $before = polls();
sleep(2.5);
my $polls = polls() - $before;
cmp_ok($polls, '<', 6, "$polls polls in 2.5 s");
$chat->config(rules => []);
ok(answer_to($chat, 'telegram', 1001, $said{5}), 'and nothing is lost');

is(scalar(grep { ($_->{status} // 0) == 409 } polls()), 0, 'one poller at a time');

$chat->stop();
done_killed($t);
