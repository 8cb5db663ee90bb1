#!/usr/bin/perl

# A machine that hears of packets at once, but gets Redis' answers late: each of
# its two connections has a way of its own.  Readers and followers there get every
# packet of every turn once.
#
# Broken by: an answer that is taken for newer than what was published since; a
# turn whose copy is made again, as another turn.

use FindBin;
use lib "$FindBin::Bin/lib";

use AgentStream;
use AgentStream::Attach;
use AgentStream::Machines;
use AgentStream::Process qw(free_ports);

my $m = AgentStream::Machines->new(1);
my ($x) = $m->machines();
my ($port) = free_ports(1);

# answers to scripts take 60 ms longer, so that a packet is often published
# between a question and its answer
my $tunnel = AgentStream::Process->start(command => ['node', '-e',
    'const net = require("net"); net.createServer((c) => { let late = 0;'
    . "const u = net.connect($m->{port}, '127.0.0.1');"
    . 'c.on("data", (d) => { if (d.includes("EVALSHA")) late = 60; u.write(d) });'
    . 'u.on("data", (d) => setTimeout(() => c.write(d), late));'
    . 'for (const s of [c, u]) s.on("error", () => 0)'
    . '.on("close", () => { c.destroy(); u.destroy() });'
    . "}).listen($port, '127.0.0.1')"], out => "$m->{dir}/tunnel.log");

my $y = AgentStream->new(nginx => 0, workers => 1,
                         opencode => $m->{first}{port_opencode});
$y->{fake} = $m->{first}{fake};
$y->{http} = "agentstream_store redis://127.0.0.1:$port;";
$y->start_nginx();
ok(wait_for(sub { $y->status()->{store}{connected} }, 15), 'connected');

my $s = $x->session();
my $f = $y->open(events_of($s, undef, query => 'follow=1'));
my @want;

$y->wait([$f], until => sub { $_[0]->status() });

for (1 .. 2) {
    my $c = $x->send_message($s, 'text:25:24:130');
    hear($x, $c, 3);
    my $d = $y->open(events_of($s));

    ok($x->wait([$c]) && $y->wait([$d]), "turn $_ ends");
    is(join_raw($d), join_raw($c), "turn $_: a reader gets it once");
    push @want, $c->packets();
    $y->wait([$f], timeout => 10, until => sub { $_[0]->packets() >= @want });
}

is(join_raw($f), join("\n", map { $_->{raw} } @want),
   'a follower gets each turn once');
$f->close();

delete $y->{fake};
$y->{active} = $y->active();
$y->check_exit();
$y->check_log();
$tunnel->stop('KILL', 5);
$m->done();
