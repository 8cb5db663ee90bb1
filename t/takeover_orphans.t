#!/usr/bin/perl

# Turns of a killed worker that nobody asks for: neither they nor their
# sessions nor places in a queue stay in the zone for ever.
#
# Broken by: a running turn that only its owner can free; a ticket or session
# of a dead worker that stays in the slab.

use FindBin;
use lib "$FindBin::Bin/lib";

use AgentStream;
use AgentStream::Attach;

my $t = AgentStream->new(attach(timeout => 90,
    http => 'agentstream_zone 512k retain=2s;',
    location => 'agentstream_busy queue;'));

my $fit = fill();
my @sessions = map { $t->session() } 1 .. 40;

my @c = map { $t->send_message($_, 'text:40:24:100') } @sessions;
$t->wait(\@c, timeout => 10, until => sub { $_[0]->packets() > 2 });
push @c, map { $t->send_message($_, 'text:2:24:0 queued') } @sessions[0 .. 19];
sleep(0.3);

kill_worker($t, $_) for $t->workers();
$t->wait(\@c, timeout => 2);
$_->close() for @c;
ok(wait_for(sub { $t->control('stats')->{playing} == 0 }, 10),
   'nothing runs upstream');

my @now;
ok(wait_for(sub { sleep(1); push @now, fill(); $now[-1] >= 0.9 * $fit }, 30),
   'all memory comes back');
note("room for $fit, after the kill @now");

# and the sessions are free: also the one nobody asked for since

my @again = map { $t->send_message($_, 'text:2:24:0') } @sessions;
ok($t->wait(\@again, timeout => 15), 'the sessions are free');
is(scalar(grep { ($_->status() // 0) == 200
                 && ($_->ended() // '') eq 'clean' } @again), 40,
   'and have their next turns');
is(scalar(grep { ($_->{body} // '') =~ /queued/ } @{ $t->control('log') }), 0,
   'who waited in a killed worker is not sent');

done_killed($t);


# how many turns run at once in a zone without other running ones; none ends
# before the last one has come

sub fill {
    my @c = map { $t->send_message($t->session(), 'text:10:24:250') } 1 .. 200;
    $t->wait(\@c, timeout => 30);

    return scalar grep { $_->status() == 200 } @c;
}
