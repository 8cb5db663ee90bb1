package AgentStream::Node;

# Tests that are written for Node.js, because they use a library of its
# packages: they print "ok - NAME" and "not ok - NAME", and "# done" at the
# end.

use strict;
use warnings;

use Test::More;

use AgentStream;

use Exporter qw(import);

our @EXPORT_OK = qw(node_tap node_modules);


# the directory of the packages; the test is skipped if they are not there

sub node_modules {
    my ($dir, $package) = @_;
    my $modules = AgentStream->build() . "/$dir/node_modules";

    plan(skip_all => qq(no $package: try "util/deps test"))
        unless -d "$modules/$package";

    return $modules;
}


sub node_tap {
    my ($file, %env) = @_;
    my $done;

    local @ENV{keys %env} = values %env;

    open my $node, '-|', 'node', $file or die "node: $!\n";
    binmode $node, ':utf8';

    while (my $line = <$node>) {
        chomp $line;

        if ($line =~ /^(not )?ok - (.*)/) {
            ok(!$1, $2);

        } elsif ($line eq '# done') {
            $done = 1;

        } else {
            diag($line =~ s/^# //r);
        }
    }

    ok(close $node, 'the test in Node.js ended well') or diag("status $?");
    ok($done, 'all parts were run');
}


1;
