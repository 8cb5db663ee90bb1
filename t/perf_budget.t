#!/usr/bin/perl

# The hot paths need no more instructions than bench/budget.txt allows: routing
# by raw bytes, parsing, translating, writing for a client, each on fixed
# captures; and a whole turn that says next to nothing, in a worker, from its
# request to the end of its response. callgrind counts them, so the machine's load
# does not matter.
#
# Broken by: a parse of events that are for nobody, an allocation or a second
# scan per event, text decoded and encoded again; a turn that makes another call.
#
# After a change that is worth its price: perl t/perf_budget.t --write

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/lib";

use AgentStream;

chdir "$FindBin::Bin/.." or die "$!\n";

my $build = $ENV{AGENTSTREAM_BUILD} || 'build';
my $program = "$build/bench/budget";
my $file = 'bench/budget.txt';
my $slack = 1.10;

plan(skip_all => 'no valgrind') if system('valgrind --version >/dev/null 2>&1');
plan(skip_all => "no $program: make $program") unless -x $program;

my $out = "$build/bench/budget.callgrind.$$";

# libc's string functions differ by processor; its plainest do not

local $ENV{GLIBC_TUNABLES} = 'glibc.cpu.hwcaps=-AVX2,-AVX2_Usable,-ERMS,'
                             . '-EVEX,-AVX512F,-MOVBE,-SSE4_2';

my @said = `valgrind --tool=callgrind --callgrind-out-file=$out $program 2>&1`;
my $rc = $?;

is($rc, 0, 'the budgeted program runs') or diag(@said);

my %count = counts($out);
unlink $out;

my %events = map { /^(\w+) (\d+) (\d+)$/ ? ($1 => [$2, $3]) : () } @said;

($count{turn}, $events{turn}) = (turn(), [1, 4]);

if (@ARGV && $ARGV[0] eq '--write') {
    write_budget();
    done_testing();
    exit;
}

open my $fh, '<', $file or die "$file: $!\n";
my %budget = map { /^(\w+)\s+(\d+)/ ? ($1 => $2) : () } <$fh>;
close $fh;

for my $name (sort keys %budget) {
    my $got = $count{$name};

    ok(defined $got, "$name was counted") or next;

    my $ratio = $got / $budget{$name};
    my $note = sprintf '%s: %d instructions, %d per event, %.2f of the budget',
                       $name, $got, $got / $events{$name}[0], $ratio;

    ok($ratio <= $slack, $note);
    diag("$name costs less than it may: perl t/perf_budget.t --write")
        if $ratio < 0.8;
}

# what another protocol may cost, compared with packets

for my $name (grep { /^(?:agui|aisdk)$/ } sort keys %count) {
    my $ratio = $count{$name} / $count{packets};

    ok($ratio <= 1.3, sprintf '%s: %.2f of packets', $name, $ratio);
}

done_testing();


# function => inclusive count, of the budget_*() functions

sub counts {
    my ($name) = @_;
    my (%count, $budget);

    my @lines = `callgrind_annotate --inclusive=yes --threshold=100 $name 2>&1`;

    for (@lines) {
        next unless /^\s*([\d,]+) .*:budget_(\w+)/;
        my ($n, $function) = ($1, $2);

        $n =~ tr/,//d;
        $count{$function} = $n if $n > ($count{$function} || 0);
    }

    return %count;
}


# What one turn takes in a worker, if its session has had one before: the
# difference between many turns and a few. How many cycles of the event loop a
# turn takes depends on the time, a little.

sub turn {
    my ($few, $many) = (2, 42);

    return int((worker($many) - worker($few)) / ($many - $few));
}


# -> what a worker takes for so many turns, from its start to its end

sub worker {
    my ($turns) = @_;
    my $dir = "$build/bench/turn.$$";
    my $nginx = $ENV{AGENTSTREAM_NGINX} // 'nginx';

    mkdir $dir;
    open my $fh, '>', "$dir/nginx" or die "$dir/nginx: $!\n";
    print $fh "#!/bin/sh\nexec valgrind --tool=callgrind ",
              "--callgrind-out-file=$dir/out.%p $nginx \"\$@\"\n";
    close $fh or die "$dir/nginx: $!\n";
    chmod 0755, "$dir/nginx";

    local $ENV{AGENTSTREAM_NGINX} = "$dir/nginx";

    my $t = AgentStream->new(timeout => 120, http => '
        upstream opencode { server 127.0.0.1:%%port_opencode%%; keepalive 8; }',
        server => '
        location /kept { agentstream /kept-api/; }
        location /kept-api/ {
            internal;
            proxy_pass http://opencode/;
            proxy_http_version 1.1;
            proxy_set_header Connection "";
        }');
    my $session = $t->session();
    my ($worker) = $t->workers();
    my $c;

    $c = $t->turn($session, 'text:1:1:0', path => "/kept/$session/send-message")
        for 1 .. $turns;

    check_turn($c, "$turns turns");
    $t->finish();

    my ($count) = AgentStream::Process::slurp("$dir/out.$worker")
                  =~ /^(?:totals|summary): (\d+)/m;

    system('rm', '-rf', $dir);

    return $count // 0;
}


sub write_budget {
    open my $fh, '>', $file or die "$file: $!\n";

    print $fh "# instructions, written by t/perf_budget.t --write;",
              " +10 % fails\n",
              "# name  count  (events, packets, instructions per event)\n";

    for my $name (sort keys %count) {
        my ($events, $packets) = @{ $events{$name} };

        printf $fh "%-8s %10d  (%d, %d, %d)\n", $name, $count{$name}, $events,
               $packets, $count{$name} / $events;
    }

    close $fh or die "$file: $!\n";
    pass("$file written");
}
