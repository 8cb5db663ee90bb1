#!/usr/bin/perl

# worker_connections used up.  Turns that find no connection for their calls end
# with an error that says so, those that run go on, and when there is room again
# everything works as before.
#
# Broken by: a call without a connection that never ends, or crashes; a turn
# that is waited for although nobody runs it; a hub that is not opened again; a
# descriptor left by the half of a call that did get one.

use FindBin;
use lib "$FindBin::Bin/lib";

use AgentStream;
use AgentStream::Attach;
use AgentStream::Process qw(slurp);

my $t = AgentStream->new(timeout => 120, nginx => 0, server => '
        keepalive_timeout 60s;');

$t->{conf} = do {
    no warnings 'once';
    $AgentStream::Nginx::TEMPLATE =~ s/worker_connections 4096/worker_connections 40/r;
};
$t->start_nginx();

my ($worker) = $t->workers();

check_turn($t->turn($t->session(), 'text:3:16:0'), 'before all');
my $files = files($worker);

for my $round (1 .. 3) {

    # a turn that runs through all of it, on a busy machine too

    my $s = $t->session();
    my $running = $t->send_message($s, 'text:90:16:100');
    hear($t, $running, 2);

    # silent clients take all connections that are left, except a few

    my @idle;

    for my $left (3, 2, 1, 0) {
        fill(\@idle, $left);

        # each of these needs one for itself, and two for a call

        my @turns = map { $t->send_message($t->session(), 'text:3:16:0') }
                    1 .. 4;
        $t->wait(\@turns, timeout => 10);

        my @status = map { $_->status() // 'none' } @turns;
        note("$left left: @status");

        is(scalar(grep { !/^(none|200|50[0-9])$/ } @status), 0,
           "round $round, $left left: refused or served");

        for (grep { ($_->status() // 200) >= 500 } @turns) {
            is_error_packet($_->response(), $_->status(),
                            "round $round, $left left: with an error packet");
        }
    }

    # its event stream breaks, and there is nothing left to open it again

    if ($round > 1) {
        $t->control('close', { reset => $round > 2 });
        fill(\@idle, -1);
        sleep(1);
    }

    $t->wait([$running], timeout => 0.01);
    ok(!$running->finished(), "round $round: one still runs");
    $_->close() for @idle;

    ok($t->wait([$running], timeout => 20), "round $round: it ends");
    check_turn($running, "round $round: it is whole");
    check_text($running, $t->messages($s), "round $round: it");

    # all is as before

    my @turns = map { $t->turn($t->session(), 'text:3:16:0') } 1 .. 5;
    is(scalar(grep { check_turn($_, 'after', quiet => 1) } @turns), 5,
       "round $round: and there is room again");
    nothing_left($t, $worker, $files, "round $round");
}

like($t->log_text(), qr/\[alert\].*worker_connections are not enough/,
     'nginx says so');

# that alert, and no other, is the administrator's to see

my $log = "$t->{dir}/error.log";
my $text = slurp($log);
$text =~ s/^.*\[alert\].* worker_connections are not enough.*\n//mg;
open my $fh, '+<', $log or die "$log: $!\n";
truncate $fh, 0;
print $fh $text;
close $fh;

$t->done();


# connections, until there is room for so many more

sub fill {
    my ($idle, $left) = @_;

    for (1 .. 60) {
        my $alerts = () = $t->log_text() =~ /are not enough/g;
        push @$idle, AgentStream::Client->open(port => $t->{port},
                                               request => "GET / HTTP/1.1\r\n");
        sleep(0.01);

        if ($alerts < (() = $t->log_text() =~ /are not enough/g)) {
            last;
        }
    }

    for (0 .. $left) {      # the last one was refused
        (pop @$idle)->close();
    }

    sleep(0.05);
}
