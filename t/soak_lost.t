#!/usr/bin/perl

# A client that follows a session for days does not make its worker grow, even
# if the packets of the turns it reads are lost, one turn after the other: each
# turn is rebuilt from what OpenCode has stored, and the memory for that is
# freed afterwards.
#
# Broken by: a reader or a rebuilt turn in the request's pool, or anything of
# them that stays there: a cleanup, an id, the session's key, what the output
# needs (reader_lost(), rebuild_pass(), output_open()).

use FindBin;
use lib "$FindBin::Bin/lib";

use AgentStream;
use AgentStream::Attach;

# A turn is larger than what is kept of it, and all of it comes at once: its
# first packets are dropped before anybody could read them.

my $t = AgentStream->new(timeout => 120,
                         location => 'agentstream_turn_size 4k;');
my ($worker) = $t->workers();
my $s = $t->session();
my $follower = events($t, $s, undef, query => 'follow=1');
my ($seen, %told) = (0);

turns(100);

my ($memory, $lost) = (rss($worker), $told{stream_reset});

turns(400);

my $growth = rss($worker) - $memory;

$lost = $told{stream_reset} - $lost;
cmp_ok($lost, '>', 300, 'most turns were lost to the follower');
note("$lost of 400, $memory kB, then $growth kB more");

SKIP: {
    skip 'a sanitized worker keeps what it frees', 1 if $ENV{AGENTSTREAM_ASAN};
    cmp_ok($growth, '<', 256, 'memory after them (kB more)');
}

# it is still there, and hears of a turn that is small enough

my $c = $t->turn($s, 'text:3:24:0');
ok(told(501), 'a turn that is kept');
is(join("\n", map { $_->{raw} } ($follower->packets())[-($c->packets()) .. -1]),
   join_raw($c), 'a turn that is kept: all of it');
is($told{error}, undef, 'nothing failed');
$follower->close();

$t->done();


# OpenCode's answers are to stay small: it forgets the turns before now and then

sub turns {
    my ($n) = @_;

    for (1 .. $n) {
        if ($_ % 20 == 0) {
            $t->request('DELETE', "/session/$s", port => $t->{port_opencode});
        }

        $t->turn($s, 'text:60:4:0 chunk=whole');

        if (!told(($told{prompt_response} // 0) + 1)) {
            fail("the follower is told of turn $_ of $n");
            last;
        }
    }
}


# whether it has the ends of so many turns

sub told {
    my ($n) = @_;

    return $t->wait([$follower], timeout => 20, until => sub {
        my $packets = $_[0]->response()->{packets};

        for (; $seen < @$packets; $seen++) {
            $told{packet_json($packets->[$seen])->{type}}++;
        }

        return ($told{prompt_response} // 0) >= $n;
    });
}
