#!/usr/bin/perl

# The variables for the access log, with the log_format of docs/directives.md,
# which has $agentstream_turn, $agentstream_stop_reason, $agentstream_packets,
# $agentstream_first_packet_time and $agentstream_resumed: what a line says of a
# turn, of one that fails, is watched, resumed, left, followed, answered as a
# whole, or refused.
#
# Broken by: a packet that is not counted, or is counted and not sent; a stop
# reason or turn of another turn; a time that is not the first packet's; a stream
# that begins anew and is logged as resumed; a view that is not logged, or logged
# with the packets that it is made of; an owner or a session that is not
# known in the access phase.

use FindBin;
use lib "$FindBin::Bin/lib";

use AgentStream;
use AgentStream::Docs qw(example);
use AgentStream::Process qw(slurp);
use JSON::PP;

my $early = 'set $judged "$agentstream_session $agentstream_owner";
        add_header X-Judged $judged always;';
my $t = AgentStream->new(conf => example('directives.md', 'log_format')
                                 =~ s{(?=agentstream /opencode/;)}{$early }r);

my %alice = ('X-User' => 'alice');
my $s = decode($t->request('POST', '/sessions', headers => \%alice))->{id};
my ($c, $line);
my $read = 0;

is(logged()->{session}, '-', 'a new session: the path has none');

# a turn, which begins after 300 ms

$t->control('config', { rules => [{ url => 'prompt_async', delay => 300,
                                    times => 1 }] });
$c = $t->turn($s, 'text:5:8:100', headers => \%alice);
$line = logged();

is($line->{session}, $s, 'a turn: the session');
is($line->{owner}, 'alice', 'a turn: the owner');
is($line->{turn}, turn_id($c), 'a turn: its id');
is($line->{stop_reason}, 'end_turn', 'a turn: its end');
is($line->{packets}, scalar $c->packets(), 'a turn: its packets');
is($line->{resumed}, 0, 'a turn: not resumed');
like($line->{first}, qr/^\d\.\d{3}$/, 'a turn: a time');
cmp_ok($line->{first}, '>=', 0.3, 'a turn: the time of its first packet');
cmp_ok($line->{first}, '<', $line->{time} - 0.05, 'a turn: not of its last');

# the same turn, from its third packet on

my @ids = map { $_->{id} } $c->packets();

$t->request('GET', "/sessions/$s/events",
            headers => { %alice, 'Last-Event-ID' => $ids[1] });
$line = logged();
is($line->{packets}, @ids - 2, 'resumed: the rest of the packets');
is($line->{resumed}, 1, 'resumed');
is($line->{turn}, turn_id($c), 'resumed: the turn');
is($line->{stop_reason}, 'end_turn', 'resumed: its end');
cmp_ok($line->{first}, '<', 0.25, 'resumed: no delay');

$t->request('GET', "/sessions/$s/events", headers => { %alice,
    'Last-Event-ID' => 'msg_000000000000000000000000:2' });
is(logged()->{resumed}, 0, 'another turn than the one that was named');

$t->request('GET', "/sessions/$s/events",
            headers => { %alice, 'Last-Event-ID' => $ids[-1] });
$line = logged();
is("@$line{qw(status packets first stop_reason)}", '204 0 - -', 'nothing new');

# a client that leaves, one that is interrupted, one that follows

my $d = $t->send_message($s, 'text:500:8:20', headers => \%alice);
$t->wait([$d], until => sub { $_[0]->packets() > 3 });
my $turn = turn_id($d);
my $e = $t->open('GET', "/sessions/$s/events?follow=1", headers => \%alice);
$t->wait([$e], until => sub { $_[0]->packets() > 3 });
$d->close();
$line = logged();
is($line->{turn}, $turn, 'left: the turn');
is($line->{stop_reason}, '-', 'left: no end');
cmp_ok($line->{packets}, '>', 3, 'left: what was written');

$t->request('POST', "/sessions/$s/interrupt", headers => \%alice);
is("@{logged()}{qw(session packets resumed turn)}", "$s - - -",
   'a request without a stream');

$t->wait([$e], until => sub { $_[0]->body() =~ /"cancelled"/ });
$c = $t->turn($s, 'text:2:8:0', headers => \%alice);
logged();
$t->wait([$e], until => sub { $_[0]->body() =~ /"end_turn"/ });
my $all = $e->packets();
$e->close();
$line = logged();
my $last = turn_id($c);
is("@$line{qw(packets turn stop_reason)}", "$all $last end_turn",
   'followed: the last turn, all packets');

# a view: each snapshot is a packet

for my $view ('progress', 'delta') {
    $c = $t->request('GET', "/sessions/$s/events?view=$view",
                     headers => \%alice);
    $line = logged();
    my @snapshots = $c->packets();
    cmp_ok(scalar @snapshots, '>=', 1, "$view: snapshots");
    is("@$line{qw(status packets resumed turn stop_reason)}",
       '200 ' . @snapshots . " 0 $last end_turn", "$view: what is logged");
    like($line->{first}, qr/^\d\.\d{3}$/, "$view: a time");
}

# a whole answer; a turn that fails; requests that are refused

$t->request('POST', "/sessions/$s/send-message", body => { content =>
    'text:3:8:0' }, headers => { %alice, Accept => 'application/json' });
$line = logged();
is("@$line{qw(status packets stop_reason resumed)}", '200 - end_turn -',
   'a whole answer');
like($line->{turn}, qr/^msg_/, 'a whole answer: the turn');

$t->control('config', { rules => [{ url => 'prompt_async', status => 500 }] });
$c = $t->turn($s, 'text:3:8:0', headers => \%alice);
$line = logged();
is("@$line{qw(status packets stop_reason)}", '500 1 error', 'a turn that fails');

$t->turn($s, { content => 5 }, headers => \%alice);
is("@{logged()}{qw(status stop_reason turn)}", '400 error -', 'a bad request');

$t->request('GET', "/sessions/$s");
is("@{logged()}{qw(status owner)}", '403 -', 'nobody');

# before the content phase, and by name

$c = $t->request('GET', "/sessions/$s", headers => \%alice);
is($c->header('X-Judged'), "$s alice", 'known before the request is served');
logged();

$t->control('config', { rules => [] });
$c = $t->turn('@task', 'text:2:8:0', headers => \%alice);
my ($named) = $c->body() =~ /"sessionId":"(\w+)"/;
is(logged()->{session}, $named, 'a name: the id');
$c = $t->request('GET', '/sessions/@task', headers => \%alice);
is($c->header('X-Judged'), "$named alice", 'a name: known before');

$t->done();


# -> the next line of the log, by name

sub logged {
    my $line;

    wait_for(sub {
        my $log = -e "$t->{dir}/agentstream.log"
                  ? slurp("$t->{dir}/agentstream.log") : '';
        ($line) = substr($log, $read) =~ /^(.*\n)/ or return 0;
    }, 5) or return {};

    $read += length $line;

    my %line = $line =~ /(\w+)=(\S+)/g;
    @line{qw(status bytes time)} = $line =~ /" (\d+) (\d+) ([\d.]+) /;

    return \%line;
}


sub decode {
    my ($c) = @_;

    return JSON::PP->new->utf8->decode($c->body());
}
