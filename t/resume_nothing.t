#!/usr/bin/perl

# A client that follows a session and has lost its place in the middle of a
# turn, which OpenCode does not know any more either: it is disconnected, so
# that it does not take the next turn for the rest of this one.
#
# Broken by: a follower that goes on with the next turn whatever the client has
# of the one before (follower_nothing() without "midway").

use FindBin;
use lib "$FindBin::Bin/lib";

use AgentStream;

my $t = AgentStream->new(timeout => 90,
                         location => 'agentstream_turn_size 4k;');
my $s = $t->session();

$t->control('config', { rules => [{ method => 'GET',
    url => '^/session/ses_\w+/message', status => 200, body => '[]' }] });

# it does not read until the journal has dropped what it waits for

my $f = $t->open('GET', "/sessions/$s/events?follow=1", rcvbuf => 32768);

sleep(0.3);
$t->turn($s, 'text:1200:3000:1', timeout => 30);

wait_for(sub {
    $t->request('GET', "/sessions/$s/turn")->body() =~ /"running":false/
}, 30);

my $next = turn_id($t->turn($s, 'text:1:24:0', timeout => 30));

$t->wait([$f], timeout => 20);

my @packets = $f->packets();

like($t->log_text(), qr/follower: packets from \d+ on of turn/,
     'it has lost its place');
like($next, qr/^msg_/, 'another turn ran');
ok(@packets > 0, 'it has got a part of the turn');
is(scalar(grep { ($_->{id} // '') =~ /^\Q$next\E/ } @packets), 0,
   'and nothing of the next one');
ok($f->ended() || $f->{closed} || $f->{eof}, 'it was disconnected')
    or diag(explain([sort keys %$f]));

$f->close();
$t->done();
