#!/usr/bin/perl

# nginx -s reload and quit, with and without turns: running turns finish, and
# the old worker leaves at once after its last one.
#
# Broken by: a hub, timer or channel that keeps an exiting worker alive, or one
# that ends its turns; lingering close left on; a response that waits for the
# next cycle of the event loop, and does not keep its worker.

use FindBin;
use lib "$FindBin::Bin/lib";

use AgentStream;

my $t = AgentStream->new(workers => 2, http => 'keepalive_timeout 60s;');
my $slow = 'text:20:24:50';


# idle, nothing ever opened

is_gone([$t->reload()], 'idle');

# idle, its hub still open

check_turn($t->turn($t->session(), 'text:3:10:0'), 'a turn');
is_gone([$t->reload()], 'after a turn');

# with running turns, twice in a row, and new turns beside them

my @first = started(6);
my @old = $t->reload();
my @second = started(6);
push @old, $t->reload();
my @third = started(6);

ok($t->wait([@first, @second]), 'turns before the reload end');
is_gone(\@old, 'with turns');
ok($t->wait(\@third), 'turns after it end');

is(scalar(grep { check_turn($_, 'over a reload', quiet => 1) }
          @first, @second, @third), 18, 'all are whole');

# a client that left before its turn ended must not keep the worker

my ($left) = started(1);
$left->close();
@old = $t->reload();
ok(wait_for(sub { $t->control('stats')->{playing} == 0 }),
   'a turn without client ends');
is_gone(\@old, 'without client');

# histories, while nginx is reloaded at any moment of them

my $session = $t->session();
my ($whole, $n) = (0, 60);

check_turn($t->turn($session, 'text:3:10:0'), 'a turn');

for my $i (1 .. $n) {
    my @clients = map { $t->open('GET', "/sessions/$session/messages") } 1 .. 5;

    sleep(0.001 * ($i % 8));
    $t->{master}->signal('HUP');
    $t->wait(\@clients, timeout => 10);
    $whole += grep { $_->body() =~ /"prompt_response".*\]$/s } @clients;
}

is($whole, 5 * $n, 'histories are whole');

# quit

my @running = started(4);
$t->{master}->signal('QUIT');
ok($t->wait(\@running), 'turns end after quit');
is(scalar(grep { check_turn($_, 'quit', quiet => 1) } @running), 4,
   'and are whole');
ok(wait_for(sub { $t->{master}->exited() }, 1), 'nginx leaves');
is($t->{master}{status}, 0, 'in good order');

$t->done();


sub started {
    my ($n) = @_;
    my @clients = map { $t->send_message($t->session(), $slow) } 1 .. $n;

    ok($t->wait(\@clients, until => sub { $_[0]->packets() > 1 }),
       "$n turns have begun");

    return @clients;
}


sub is_gone {
    my ($pids, $name) = @_;
    my $since = time();

    ok(wait_for(sub { !grep { kill 0, $_ } @$pids }, 1),
       "$name: the old workers leave within a second");
    note(sprintf '%s: %.0f ms', $name, 1000 * (time() - $since));

    wait_for(sub { !grep { kill 0, $_ } @$pids }, 10);
}
