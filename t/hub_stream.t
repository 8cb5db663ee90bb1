#!/usr/bin/perl

# The hub: one event stream per directory for all turns there, opened when
# needed, closed when idle, opened again when it breaks, and nothing lost.
#
# Broken by: a stream per turn, one that is never closed, a lost connection
# that ends the turn or loses its text.

use FindBin;
use lib "$FindBin::Bin/lib";

use AgentStream;

my $t = AgentStream->new(timeout => 180);

is(opened(), 0, 'no stream before the first turn');

# a stream that stays open and says nothing: it takes a while to find out

my ($deaf, $here, $there, $near) = map { $t->session() } 1 .. 4;
$t->control('config', { mute => '/workspace/mute', sessions => {
    $deaf => '/workspace/mute', $here => '/workspace/long',
    $there => '/workspace/o ther&é' } });
my $silent = $t->send_message($deaf, 'text:5:24:5');

# one that is simply long

my $long = $t->send_message($here, 'text:4:24:3000');
$t->wait([$silent, $long], until => sub { $_[0]->packets() > 0 });

# shared

my @clients = map { $t->send_message($t->session(), 'text:10:20:20') } 1 .. 5;
$t->wait(\@clients);
is(scalar(grep { check_turn($_, 'shared', quiet => 1) } @clients), 5,
   'five turns');
check_turn($t->turn($t->session(), 'text:3:10:0'), 'one more');
is(opened(), 3, 'one stream for all of them');

# one for each directory, and no events of the other

@clients = map { $t->send_message($_, 'text:5:20:20') } $near, $there;
$t->wait(\@clients);
check_turn($_, 'in two directories') for @clients;
is(opened(), 4, 'a second stream for another directory');
is((map { $_->{url} } grep { $_->{url} =~ /^\/event/ }
    @{ $t->control('log') })[-1],
   '/event?directory=%2Fworkspace%2Fo%20ther%26%C3%A9',
   'its name is escaped');

# closed when idle

ok(wait_for(sub { subscribers('demo') == 0 }, 20), 'closed when idle');
my $before = opened();
check_turn($t->turn($t->session(), 'text:3:10:0'), 'after idle');
is(opened(), $before + 1, 'and opened again');

# broken in mid-turn: at its end, by a reset, and for a while

for my $reset (JSON::PP::false(), JSON::PP::true()) {
    my $name = $reset ? 'reset' : 'end';
    my %event = (url => '^/event.*demo$', times => 2);

    broken($name, $reset);
    broken("$name, then errors", $reset,
           { %event, status => 500, body => '{}' });
    broken("$name, then nothing", $reset,
           { %event, drop => JSON::PP::true() });
}

# the others

ok($t->wait([$long], timeout => 20), 'a long turn ends');
check_turn($long, 'a long turn');
is(scalar(grep { /directory=%2Fworkspace%2Flong/ && /^GET \/event/ }
          $t->upstream()), 1, 'a long turn: its stream was never cut');

ok($t->wait([$silent], timeout => 45), 'a silent stream is given up');
check_turn($silent, 'silence');
check_text($silent, $t->messages($deaf), 'silence');

ok(wait_for(sub { $t->control('stats')->{open} == 0 }, 20),
   'all streams are closed in the end');
is($t->active(), $t->{active}, 'and their connections');

$t->done();


sub opened {
    return $t->control('stats')->{opened};
}


sub subscribers {
    my ($name) = @_;

    return scalar grep { /\/$name$/ }
                  @{ $t->control('stats')->{subscribers} };
}


sub broken {
    my ($name, $reset, @rules) = @_;
    my $s = $t->session();
    my $c = $t->send_message($s, 'text:40:24:25');

    $t->wait([$c], until => sub { $_[0]->packets() > 10 });
    $t->control('config', { rules => \@rules });
    $t->control('close', { directory => '/workspace/demo', reset => $reset });
    ok($t->wait([$c], timeout => 20), "$name: the turn ends");
    $t->control('config', { rules => [] });

    check_turn($c, $name) or return;
    check_text($c, $t->messages($s), $name);
}
