#!/usr/bin/perl

# util/deps does not wait without a message: when npm cannot reach its
# registry, it gives up soon and shows npm's message, and it reports when
# another make is installing.
#
# Broken by: npm's own times between two tries (10 and 60 seconds), its words
# thrown away, --prefix (npm would not find the machine's settings then), no
# message before the lock is waited for.

use FindBin;
use lib "$FindBin::Bin/lib";

use AgentStream;
use AgentStream::Process qw(free_ports slurp);
use Fcntl qw(LOCK_EX);
use File::Path qw(make_path);

my $t = AgentStream->new(nginx => 0, opencode => 'none', timeout => 120);
my ($closed) = free_ports(1);


sub deps {
    my ($name, %env) = @_;

    make_path("$t->{dir}/$name");

    my $deps = AgentStream::Process->start(out => "$t->{dir}/$name.out",
        command => ["$FindBin::Bin/../util/deps", 'console'],
        env => { AGENTSTREAM_BUILD => "$t->{dir}/$name", %env });

    $deps->{out} = "$t->{dir}/$name.out";

    return $deps;
}


# a registry that is not there

my $started = time();
my $deps = deps('refused', npm_config_cache => "$t->{dir}/cache", SUDO_USER => '',
    npm_config_registry => "http://127.0.0.1:$closed/");

ok(wait_for(sub { $deps->exited() }, 60), 'npm gives up')
    or diag(slurp($deps->{out}));
isnt($deps->{status}, 0, 'with an error');
cmp_ok(time() - $started, '<', scaled(45), 'soon');
like(slurp($deps->{out}), qr/ECONNREFUSED.*127\.0\.0\.1:$closed/s,
     'says what npm said');
like(slurp($deps->{out}), qr/^deps: npm could not install the packages of console/m,
     'and what is missing now');
unlike(slurp($deps->{out}), qr/sudo/, 'no word of sudo without it');

# how npm is called

make_path("$t->{dir}/bin");
open my $fh, '>', "$t->{dir}/bin/npm";
print $fh qq{#!/bin/sh\necho "npm in \$PWD: \$*"\nexit 1\n};
close $fh;
chmod 0755, "$t->{dir}/bin/npm";

$deps = deps('called', PATH => "$t->{dir}/bin:$ENV{PATH}", SUDO_USER => 'me');
wait_for(sub { $deps->exited() }, 30);

like(slurp($deps->{out}), qr!^npm in \S*/called/npm-console: ci !m,
     'npm runs where it installs');
unlike(slurp($deps->{out}), qr/^npm in .*--prefix/m,
       'and looks for its settings where it always does');
like(slurp($deps->{out}), qr/^deps: sudo drops the environment/m,
     'a word of sudo with it');

# another make

make_path("$t->{dir}/locked");
open my $lock, '>', "$t->{dir}/locked/.deps.lock";
flock $lock, LOCK_EX;

$deps = deps('locked', PATH => "$t->{dir}/bin:$ENV{PATH}");

ok(wait_for(sub { slurp($deps->{out}) =~ /^deps: waiting for another/m }, 30),
   'says that it waits');
ok(!$deps->exited(), 'and waits');
close $lock;
ok(wait_for(sub { $deps->exited() }, 30), 'until the other has ended');
like(slurp($deps->{out}), qr/^npm in /m, 'then goes on');

$t->done();
