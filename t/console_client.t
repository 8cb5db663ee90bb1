#!/usr/bin/perl

# The browser client: its unit tests under Node.js, and its size.
#
# Broken by: a resume that loses or repeats a packet, a retried POST that
# starts a second turn, a reducer that forgets a type, a name that becomes
# another path; run() that sends another client_request_id when it repeats, or
# that answers with another turn; 7,500 bytes, minified.

use strict;
use warnings;

use FindBin;
use Test::More;

my $client = "$FindBin::Bin/../console/client";
my $build = $ENV{AGENTSTREAM_BUILD} // "$FindBin::Bin/../build";
my $esbuild = "$build/npm-console/node_modules/.bin/esbuild";

open my $tap, '-|', 'node', '--test', '--test-reporter=tap',
    glob("$client/test/*.test.mjs") or die "node: $!\n";
binmode $tap, ':utf8';
binmode $_, ':utf8' for map { Test::More->builder->$_() }
                        qw(output failure_output);

my ($tests, @why) = (0);

while (<$tap>) {

    # one line per test; what is below a failed one says why

    if (/^\s*(not )?ok \d+ - (.*?)( # SKIP.*)?$/) {
        my ($bad, $name) = ($1, $2);
        next if $name =~ m{/|\.mjs$};

        ok(!$bad, $name);
        $tests++;

    } elsif (/^\s+(error|message|expected|actual|[+-] ?)/) {
        push @why, $_;
    }
}

ok(close $tap, 'node --test ends well') or diag(@why);
cmp_ok($tests, '>=', 38, 'all tests were seen');

SKIP: {
    skip 'no esbuild: try "util/deps console"', 1 unless -x $esbuild;

    my $size = length `$esbuild --bundle --minify --format=esm \\
                       --charset=utf8 $client/agentstream.js`;

    note("$size bytes, minified");
    ok($size > 3000 && $size < 7500, 'about 7 kB, minified');
}

done_testing();
