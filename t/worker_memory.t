#!/usr/bin/perl

# After a thousand turns a worker has kept nothing: no memory, descriptors or
# connections.
#
# Broken by: a turn, reader or call that is not freed; a pool that grows per
# packet; a socket pair whose other end stays open; a translator that keeps a
# buffer of the size of its largest packet; a pool of a turn with a whole page;
# a prompt that is kept after OpenCode has it.

use FindBin;
use lib "$FindBin::Bin/lib";

use AgentStream;

my $t = AgentStream->new(timeout => 120);
my ($worker) = $t->workers();

# Turns that are open, after a tool call with 30 kB of output.  A turn and its
# stream need about 19 kB then, of which 10 are nginx's connection and request.

my $large = 'x' x 2000;
my @held = map { held("replay:bash-large fault=onestep $large") } 1 .. 5;

my $memory = anonymous();
push @held, map { held("replay:bash-large fault=onestep $large") } 1 .. 40;
my $each = (anonymous() - $memory) / 40;

SKIP: {
    skip 'a sanitized worker keeps what it frees', 1 if $ENV{AGENTSTREAM_ASAN};
    cmp_ok($each, '<', 25, 'an open turn after a large packet (kB)');
}

note(sprintf '%.1f kB per open turn', $each);

$t->request('POST', "/sessions/$_->[0]/interrupt") for @held;
$t->wait([map { $_->[1] } @held]);

turns(200);

$memory = anonymous();
my $files = files();

turns(1000);

my $growth = anonymous() - $memory;

SKIP: {
    skip 'a sanitized worker keeps what it frees', 1 if $ENV{AGENTSTREAM_ASAN};
    cmp_ok($growth, '<', 512, 'memory after 1,000 turns (kB more)');
}

note("$memory kB, then $growth kB more");
ok(wait_for(sub { files() <= $files }, 5), 'no more descriptors')
    or diag("$files before, " . files());

# one long turn must not grow with its packets either

my $c = $t->send_message($t->session(), 'text:20000:16:0');
$t->wait([$c], until => sub { $_[0]->packets() > 1000 });
$memory = anonymous();
ok($t->wait([$c], timeout => 30), 'a long turn');

SKIP: {
    skip 'a sanitized worker keeps what it frees', 1 if $ENV{AGENTSTREAM_ASAN};
    cmp_ok(anonymous() - $memory, '<', 2048, 'does not grow with its packets');
}

check_turn($c, 'a long turn');

$t->done();


# a turn whose tool call is done, and which goes on

sub held {
    my ($prompt) = @_;
    my $session = $t->session();
    my $c = $t->send_message($session, $prompt);

    $t->wait([$c], until => sub { $_[0]->body() =~ /"status":"completed"/ })
        or diag('a turn did not come as far');

    return [$session, $c];
}


# on connections of their own, and with clients that leave

sub turns {
    my ($n) = @_;
    my $whole = 0;

    for (1 .. $n / 25) {
        my @clients = map { $t->send_message($t->session(), 'text:10:32:0') }
                      1 .. 25;
        my $leaver = pop @clients;

        $t->wait([$leaver], until => sub { $_[0]->packets() });
        $leaver->close();
        $t->wait(\@clients);
        $whole += grep { check_turn($_, 'a turn', quiet => 1) } @clients;
    }

    is($whole, $n / 25 * 24, "$n turns are whole");
}


sub anonymous {
    return AgentStream::Process::slurp("/proc/$worker/status")
           =~ /^RssAnon:\s+(\d+)/m ? $1 : -1;
}


sub files {
    my @fds = glob "/proc/$worker/fd/*";

    return scalar @fds;
}
