#!/usr/bin/perl

# What the other tests of several machines rely on can fail: a module whose
# fence, gap check, epoch or lease is broken on purpose violates the promise,
# and the checker says so; the module as it is does not.  The first machine is
# cut off from Redis, but not from OpenCode, for longer than a lease; Redis
# loses what it has acknowledged, as after a failover to a replica that lags.
#
# Broken by: anything that makes one of these four superfluous or ineffective;
# a checker that finds nothing.  It takes a minute and a half, so it runs with
# "make test-machines" only.

use FindBin;
use lib "$FindBin::Bin/lib";

use AgentStream;
use AgentStream::Attach;
use AgentStream::Machines;
use AgentStream::Process qw(slurp);

plan(skip_all => 'only with make test-machines')
    unless $ENV{AGENTSTREAM_MACHINES};

my $module = AgentStream->module();

# texts of the module, each with one of the same length that takes its place

my %broken = (
    # the ids of a stream fence as well, so both must be broken
    fence => [["h[1] ~= epoch or h[2] ~= owner then return {'FENCED'}",
               "h[1] ~= h[1]  or h[2] ~= h[2]  then return {'FENCED'}"],
              ["made .. '-'", "h[1] .. '-'"]],
    epoch => [['tonumber(epoch) + 1', 'tonumber(epoch) + 0']],
    gap => [['elseif before ~= last', 'elseif last ~= last  ']],
    lease => [["'as1:w:' .. owner) == 1", "'as1:w:' .. owner) == 9"],
              ["'as1:w:' .. h[2]) == 1", "'as1:w:' .. h[2]) == 9"]],
);

is(scalar(cut_off()), 0, 'cut off: as it is');
cmp_ok(scalar(cut_off('fence')), '>', 0, 'cut off, no fence: noticed');
cmp_ok(scalar(cut_off('epoch')), '>', 0, 'cut off, no epoch: noticed');
is(scalar(lagging()), 0, 'lagging replica: as it is');
cmp_ok(scalar(lagging('gap')), '>', 0, 'lagging replica, no gap check: noticed');
is(scalar(quiet()), 0, 'nothing happens: as it is');
cmp_ok(scalar(quiet('lease')), '>', 0, 'nothing happens, no lease: noticed');

done_testing();


sub machines {
    my ($what, %args) = @_;

    if ($what) {
        my $text = slurp($module);

        for (@{ $broken{$what} }) {
            my ($from, $to) = @$_;

            die "$what: another length\n" unless length $from == length $to;
            $text =~ s/\Q$from\E/$to/g or die "$what: not in the module\n";
        }

        my $file = AgentStream->build() . "/t/broken.$$.so";
        open my $fh, '>:raw', $file or die "$file: $!\n";
        print $fh $text;
        close $fh;
        $ENV{AGENTSTREAM_MODULE} = $file;
    }

    my $m = AgentStream::Machines->new(2, %args);
    $ENV{AGENTSTREAM_MODULE} = $module;

    return $m;
}


sub end {
    my ($m, @wrong) = @_;

    note("  $_") for @wrong[0 .. ($#wrong < 4 ? $#wrong : 4)];
    $_->{lost} = 0 for $m->machines();
    $_->{master}->stop('KILL', 5) for $m->machines();
    $m->{tunnel}->stop('KILL', 5) if $m->{tunnel};
    $m->{redis}->stop('KILL', 5);
    $m->{first}{fake}->stop('KILL', 5);
    unlink AgentStream->build() . "/t/broken.$$.so";

    return @wrong;
}


sub cut_off {
    my ($what) = @_;
    my $m = machines($what, tunnels => 1);
    my ($x, $y) = $m->machines();
    my $s = $x->session();

    sleep(6.5);
    my $sender = $x->send_message($s, 'text:140:24:100');
    hear($x, $sender, 5);
    my $reader = $y->open(events_of($s));
    hear($y, $reader, 6);

    $m->tunnel('hold', 'redis1');
    wait_for(sub { $y->log_text() =~ /taken over/ }, 12);
    $x->wait([$sender], timeout => 1);
    $m->tunnel('up', 'redis1');

    my $ended = $x->wait([$sender, $reader], timeout => 25);

    return end($m, $m->check_all('', [$sender], [$reader]),
               $ended ? () : 'not all have ended',
               ($reader->packets())[-1]{id} =~ /:1\d{9}$/
               ? () : 'the new owner was overruled',
               prompts($x, $s) == 1 ? () : 'prompts');
}


sub lagging {
    my ($what) = @_;
    my $m = machines($what);
    my ($x, $y) = $m->machines();
    my $s = $x->session();
    my $sender = $x->send_message($s, 'text:40:24:100');
    hear($x, $sender, 8);

    my $copy = "for _, k in ipairs(redis.call('KEYS', ARGV[1] .. 'as1:{*')) do
                    redis.call('COPY', k, ARGV[2] .. string.sub(k,
                               #ARGV[1] + 1), 'REPLACE') end";

    $m->redis('EVAL', $copy, 0, '', 'old:');
    my $n = $sender->packets();
    hear($x, $sender, $n + 6);
    $m->redis('EVAL', $copy, 0, 'old:', '');
    my $reader = $y->open(events_of($s));
    my $ended = $x->wait([$sender, $reader], timeout => 12);
    my $late = $y->request(events_of($s));

    return end($m, $m->check_all('', [$sender], [$reader], [$late]),
               $ended && join_raw($reader) eq join_raw($sender)
               ? () : 'not the same');
}


sub quiet {
    my ($what) = @_;
    my $m = machines($what);
    my ($x, $y) = $m->machines();
    my $s = $x->session();

    sleep(6.5);
    my $sender = $x->send_message($s, 'text:30:24:100');
    hear($x, $sender, 3);
    my $reader = $y->open(events_of($s));
    $x->wait([$sender, $reader], timeout => 15);

    return end($m, $m->check_all('', [$sender], [$reader]),
               ($y->log_text() =~ /(taken over.*)/));
}
