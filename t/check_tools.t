#!/usr/bin/perl

# The checkers of "make check" find what was planted for them, and nothing in
# what is clean.  Breaks when a rule of util/check-* no longer sees what it is
# there for: each rule has its own violation in the checker's self-test.
# Nor does t/times name tests that are gone.

use strict;
use warnings;

use File::Basename qw/ dirname /;
use Test::More;

my $util = dirname($0) . '/../util';

my @checkers = map { s!.*/!!r } glob("$util/check-*");

ok(@checkers >= 3, 'there are checkers');

for my $checker (@checkers) {
    my @lines = split /\n/, `$util/$checker --self-test 2>&1`;

    is($?, 0, "$checker --self-test");

    my @ok = grep { /^ok / } @lines;
    my @bad = grep { !/^ok |^1\.\.\d+$/ } @lines;

    ok(@ok >= 10, "$checker: all rules are tested");
    is(join("\n", @bad), '', "$checker: all tests pass");
}

# the order in which the tests begin

open my $fh, '<', "$util/../t/times" or die "t/times: $!\n";
my @gone = grep { !/^\d+ (\S+)$/ || !-e "$util/../$1" } <$fh>;

is(join('', @gone), '', 't/times has seconds and files that are there');

done_testing();
