#!/usr/bin/perl

# "make install" puts the module, the console and the examples below DESTDIR,
# with everything that its own words name; "make uninstall" removes all of it;
# "make help" has a description for each target, in a column of its own.  The
# version is the same everywhere.  "make dist" makes the same bytes twice.
#
# Broken by: a tarball with a time, an owner or an order of the machine in it; a file that is installed but not removed, or named but not
# installed; a target's name as wide as its column; a version that was changed in
# one place only.

use FindBin;
use lib "$FindBin::Bin/lib";

use AgentStream;
use AgentStream::Process qw(slurp);
use File::Find;
use JSON::PP;

my $t = AgentStream->new(nginx => 0, opencode => 'none', timeout => 120);
my $root = "$t->{dir}/root";
my $top = "$FindBin::Bin/..";

my $said = make('install', "DESTDIR=$root");
my %files = map { $_ => 1 } files();
my @installed = $said =~ /^installed (\S+)$/mg;

is_deeply([sort @installed], [sort keys %files], 'it says what it installs');
ok($files{$_}, "$_ is there")
    for map { "$root$_" } '/usr/lib/nginx/modules/ngx_http_agentstream_module.so',
        '/usr/share/nginx/modules-available/mod-http-agentstream.conf',
        map { "/usr/share/agentstream/console/$_" }
            qw(index.html app.js style.css favicon.svg agentstream.js
               console.conf);

my ($link) = $said =~ /ln -s (\S+)/;
ok($files{$root . ($link // '')}, 'the file to link is there');

for my $console ($said =~ m{(/usr/share/agentstream\S*?);}g) {
    ok(-e "$root$console", "what it says to serve is there: $console");
}

# what the page loads

my $page = slurp("$root/usr/share/agentstream/console/index.html");
my @loads = $page =~ /(?:src|href)="([^":#]+)"/g;

cmp_ok(scalar @loads, '>', 2, 'the page loads something');
ok($files{"$root/usr/share/agentstream/console/$_"}, "the page's $_ is there")
    for map { s{^\./}{}r } @loads;

make('uninstall', "DESTDIR=$root");
is_deeply([files()], [], 'uninstalled: nothing is left');
ok(!-e "$root/usr/share/agentstream", 'uninstalled: nor an empty directory');

make('install', "DESTDIR=$root", 'CONSOLE=off');
is(scalar(grep { /console|\.js/ } files()), 0, 'without the console');

# help

my @targets = grep { /^  [a-z]/ } split /\n/, make('help');

cmp_ok(scalar @targets, '>', 20, 'help: many targets');
is_deeply([grep { !/^  [a-z-]+ {2,}\S/ } @targets], [], 'help: each is told');

# the version

my ($version) = slurp("$top/CHANGES") =~ /^Changes with agentstream (\S+)/m;
my $so = slurp($ENV{AGENTSTREAM_MODULE}
               || "$top/build/ngx_http_agentstream_module.so");

like($so, qr{agentstream/\Q$version\E\0?}, "the module says $version");
is(decode_json(slurp("$top/console/client/package.json"))->{version}, $version,
   'the client library has the same version');

like(slurp("$top/debian/changelog"), qr/^agentstream \(\Q$version\E\) /,
     'the packages have the same version');

# the tarball

SKIP: {
    skip('not a clone', 1) unless -e "$top/.git";

    my @sums = map {
        my $time = $_;
        utime $time, $time, "$top/README.md", "$top/util/dist";
        (make('dist', "BUILD=$t->{dir}/dist$time") =~ /^([0-9a-f]{64}) /m)[0];
    } time() - 86400, time();

    like($sums[0] // '', qr/^[0-9a-f]{64}$/, 'dist: a tarball');
    is($sums[0], $sums[1], 'dist: the same bytes');

    my ($tar) = glob "$t->{dir}/dist*/agentstream-$version.tar.gz";
    my @files = split /\n/, `tar -tzf $tar`;
    is(scalar(grep { !m{^agentstream-\Q$version\E/} } @files), 0,
       'dist: in a directory of its own');
    ok((grep { m{/src/pure/ngx_http_agentstream_json\.c$} } @files),
       'dist: has the source');
    is(scalar(grep { m{/build/|/\.git/} } @files), 0, 'dist: and nothing else');
}

$t->done();


sub make {
    my (@args) = @_;

    local $ENV{MAKEFLAGS} = '';
    my $out = "$t->{dir}/make.out";
    my $p = AgentStream::Process->start(out => $out,
        command => ['make', '-C', $top, '--no-print-directory', @args]);

    wait_for(sub { $p->exited() }, 100);
    is($p->{status}, 0, "make @args") or diag(slurp($out));

    return slurp($out);
}


sub files {
    my @found;

    find(sub { push @found, $File::Find::name if -f }, $root) if -e $root;

    return @found;
}
