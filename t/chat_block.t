#!/usr/bin/perl

# A large picture keeps nobody waiting: it is encoded while it arrives, and sent
# without being copied, so that the worker has no long steps.  Between two small
# requests that follow each other directly, the worker computes only a little; what
# is measured is the time that it has computed, because the machine may be busy.
#
# Broken by: a picture that is encoded or checked in one go (fetch_body()).

use FindBin;
use lib "$FindBin::Bin/lib";

use MIME::Base64 qw(encode_base64);

use AgentStream;
use AgentStream::Bot;
use AgentStream::Process qw(slurp);

my ($t, $chat) = bot(allow => 'all', timeout => 90,
                     chat => 'agentstream_chat_progress off;');
my ($pid) = $t->workers();
my $png = encode_base64("\x89PNG\r\n\x1a\n" . 'p' x 4_900_000, '');

sub computed { return (split ' ', slurp("/proc/$pid/schedstat"))[0] / 1e6 }

# one that waits for the machine says too much, so the best of three counts

my @longest;

for my $n (1 .. 3) {
    my $child = fork() // die "fork: $!\n";

    if ($child == 0) {
        $chat->say(platform => 'telegram', chat => 7000 + $n,
            text => 'say:seen', file => { name => 'x.png',
                mime => 'image/png', base64 => $png });
        require POSIX;
        POSIX::_exit(0);
    }

    my ($last, $longest, $end) = (computed(), 0, time() + 3);

    while (time() < $end) {
        $t->request('GET', '/_status');
        my $now = computed();
        $longest = $now - $last if $now - $last > $longest;
        $last = $now;
    }

    waitpid $child, 0;
    ok($chat->wait_message('telegram', 7000 + $n, qr/^seen$/, 20),
       "picture $n is answered");
    push @longest, $longest;
}

my ($best) = sort { $a <=> $b } @longest;

note(sprintf 'the longest steps: %s ms', join ', ', map { sprintf '%.1f', $_ }
     @longest);
cmp_ok($best, '<', 10, 'the worker is never kept for long');

$chat->stop();
$t->done();
