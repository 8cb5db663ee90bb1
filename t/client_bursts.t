#!/usr/bin/perl

# A thousand clients that arrive in bursts and disconnect at any time: before
# their turn began, in the middle, at its end, with FIN or RST; some reconnect
# for the rest.  All turns end, and the workers keep nothing.
#
# Broken by: a request or reader that is woken after it was freed; a call or
# turn that waits for a client that left; a waiter, connection, descriptor or
# buffer that stays behind; calls beyond the limit that are forgotten.

use FindBin;
use lib "$FindBin::Bin/lib";

use AgentStream;
use AgentStream::Attach;

my $BURST = 100;
my $BURSTS = 10;

my $t = AgentStream->new(attach(timeout => 180));
my @workers = $t->workers();

# the seed is said when something fails

my $seed = $ENV{AGENTSTREAM_SEED} // time() % 1e6;
srand $seed;

burst(); # warm

my %files = map { $_ => files($_) } @workers;
my %memory = map { $_ => rss($_) } @workers;
my @all;

push @all, burst() for 1 .. $BURSTS;

is(scalar @all, $BURST * $BURSTS, 'a thousand turns');

my @running;

ok(wait_for(sub { !(@running = grep { turn_state($t, $_)->{running} }
                               @running ? @running : @all) }, 30),
   'all are over') or diag("seed $seed, " . @running . " run: @running[0 .. 2]");

my @bad = grep { !check_turn($t->request(events_of($_)), $_, quiet => 1) }
          @all[map { 7 * $_ } 0 .. $#all / 7];

is(scalar @bad, 0, 'whole turns, to whoever asks') or diag("seed $seed: @bad");
is($t->control('stats')->{prompts}, $BURST * ($BURSTS + 1),
   'one prompt for each');

my ($active, @left);

ok(wait_for(sub {
    $active = $t->active();
    @left = grep { files($_) > $files{$_} } @workers;

    return $active <= $t->{active} && !@left;
}, 15), 'nothing is left') or diag("seed $seed: $active connections, "
    . join ', ', map { files($_) . " descriptors of $files{$_}" } @left);

SKIP: {
    skip 'a sanitized worker keeps what it frees', 2 if $ENV{AGENTSTREAM_ASAN};

    for (@workers) {
        my $growth = rss($_) - $memory{$_};

        cmp_ok($growth, '<', 768, 'memory after a thousand clients (kB more)');
        note("$memory{$_} kB, $growth more");
    }
}

$t->done();


# -> sessions

sub burst {
    my (@sessions, @clients);

    for (1 .. $BURST) {
        my $s = $t->session();
        my $c = $t->open($t->message_request($s, 'text:6:24:20'),
                         port => $t->{port_pid});

        $c->{session} = $s;
        $c->{leaves} = int rand 14;     # packets; there are 10
        push @sessions, $s;
        push @clients, $c;

        leave($c) if $c->{leaves} == 0;
    }

    my @stay = grep { $_->{fh} } @clients;

    $t->wait(\@stay, timeout => 30, until => sub {
        my ($c) = @_;

        leave($c) if $c->packets() >= $c->{leaves};
        return !$c->{fh};
    });

    # every fourth comes back for the rest

    my @back = map { events($t, $_->{session}, (($_->packets())[-1] // {})->{id})
                   } grep { rand() < 0.25 && $_->{closed} } @clients;

    $t->wait(\@back, timeout => 30, until => sub { rand() < 0.3 });
    $_->{fh} && (rand() < 0.5 ? $_->reset() : $_->close()) for @back;

    return @sessions;
}


sub leave {
    my ($c) = @_;

    rand() < 0.5 ? $c->reset() : $c->close();
}
