#!/usr/bin/perl

# A large picture keeps nobody waiting: it is encoded while it arrives, and sent
# without being copied, so that the worker has no long steps.  What is measured is
# the time that it has computed in each cycle of its event loop (lib/cycle.c),
# because the machine may be busy.
#
# Broken by: a picture that is encoded or checked in one go (fetch_body()).

use FindBin;
use lib "$FindBin::Bin/lib";

use File::Temp;
use MIME::Base64 qw(encode_base64);

use AgentStream;
use AgentStream::Bot;
use AgentStream::Process qw(slurp);

my $dir = File::Temp::tempdir(CLEANUP => 1);

system('cc', '-shared', '-fPIC', '-O', '-o', "$dir/cycle.so",
       "$FindBin::Bin/lib/cycle.c") == 0
    or die "cycle.c cannot be compiled\n";

$ENV{AGENTSTREAM_CYCLES} = "$dir/cycles";

my ($t, $chat) = bot(allow => 'all', timeout => 90,
                     env => { LD_PRELOAD => "$dir/cycle.so",
                              AGENTSTREAM_CYCLES => "$dir/cycles" },
                     chat => 'agentstream_chat_progress off;');
my $png = encode_base64("\x89PNG\r\n\x1a\n" . 'p' x 4_900_000, '');

# now and then a machine takes some for itself, so the best of three counts

my @longest;

for my $n (1 .. 3) {
    my $before = -s "$dir/cycles";

    $chat->say(platform => 'telegram', chat => 7000 + $n, text => 'say:seen',
        file => { name => 'x.png', mime => 'image/png', base64 => $png });
    ok($chat->wait_message('telegram', 7000 + $n, qr/^seen$/, 20),
       "picture $n is answered");

    my @cycles = sort { $b <=> $a }
                 unpack 'L*', substr(slurp("$dir/cycles"), $before);

    cmp_ok(scalar @cycles, '>', 20, "picture $n: in many steps");
    push @longest, $cycles[0] / 1000;
}

my ($best) = sort { $a <=> $b } @longest;

note(sprintf 'the longest steps: %s ms', join ', ', map { sprintf '%.1f', $_ }
     @longest);
cmp_ok($best, '<', 10, 'the worker is never kept for long');

$chat->stop();
$t->done();
