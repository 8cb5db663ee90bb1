#!/usr/bin/perl

# Whole answers under load: 200 scripts wait for theirs while 200 browsers read
# streams; a turn of 10,000 packets takes no memory while a script waits for it,
# and when it is over, no more than its answer; nothing is left afterwards.
#
# Broken by: a consumer that keeps the records; an answer that is copied as a
# whole; a result or piece that is not freed; calls that starve each other.

use FindBin;
use lib "$FindBin::Bin/lib";

use AgentStream;

my $json = JSON::PP->new->utf8->canonical->allow_nonref;
my $t = AgentStream->new(timeout => 120);
my ($worker) = $t->workers();

crowd();

my $before = anonymous();

crowd();
cmp_ok(anonymous() - $before, '<', 1024, 'nothing is left (kB more)')
    unless $ENV{AGENTSTREAM_ASAN};
long();

$t->done();


sub crowd {
    my @streams = map { $t->send_message($t->session(), 'text:10:16:50') }
                  1 .. 200;
    my @scripts = map {
        $t->open($t->message_request($t->session(), 'text:10:16:50',
                     headers => { Accept => 'application/json' }))
    } 1 .. 200;

    ok($t->wait([@streams, @scripts], timeout => 60), 'all end');

    my @good = grep {
        $_->status() == 200 && do {
            my $a = $json->decode($_->body());
            $a->{stopReason} eq 'end_turn' && $a->{text} eq
                $t->control('said', { user => $a->{turnId} })->{text};
        }
    } @scripts;

    is(scalar @good, 200, '200 scripts have their answers');
    is(scalar(grep { check_turn($_, 'a stream', quiet => 1) } @streams), 200,
       '200 browsers have their streams');
}


sub long {
    my $s = $t->session();
    my $c = $t->open($t->message_request($s, 'text:10000:16:0',
                         headers => { Accept => 'application/json' }));

    wait_for(sub {
        $t->request('GET', "/sessions/$s/turn")->body()
            =~ /"packets":\d{3}/;
    }, 20);

    my ($memory, $most) = (anonymous(), 0);

    until ($t->wait([$c], timeout => 0.05)) {
        my $now = anonymous();
        $most = $now if $now > $most;
    }

    my $a = $json->decode($c->body());

    is($a->{text}, $t->control('said', { user => $a->{turnId} })->{text},
       '10,000 packets: the whole text');

    my $size = length($c->body()) / 1024;

    note("$memory kB, at most $most kB, the answer has $size kB");
    cmp_ok($most - $memory, '<', 2048 + 4 * $size,
           '10,000 packets: no more memory than the answer')
        unless $ENV{AGENTSTREAM_ASAN};
}


sub anonymous {
    return AgentStream::Process::slurp("/proc/$worker/status")
           =~ /^RssAnon:\s+(\d+)/m ? $1 : -1;
}
