#!/usr/bin/perl

# The console in headless Chromium, on nginx, OpenCode and a scripted model:
# what each kind of packet looks like, answers, stop, refresh, reload, two
# tabs, two users, and that nothing an agent says becomes script.
#
# Broken by: a packet without an element, a stream that does not resume, HTML
# of the agent's in the page, a policy that forbids the page's own parts, work
# that blocks the page for 200 ms.
#
# Pictures go to build/console-pictures; AGENTSTREAM_PICTURES=1 keeps them in
# docs/.  ONLY=pattern runs some parts.

use FindBin;
use lib "$FindBin::Bin/lib";

use AgentStream;
use File::Copy qw(copy);
use File::Path qw(make_path);

my $root = "$FindBin::Bin/..";
my $build = AgentStream->build();
my $pictures = "$build/console-pictures";

plan(skip_all => 'no chromium') unless -x '/usr/bin/chromium';
plan(skip_all => 'no playwright-core: try "util/deps console"')
    unless -d "$build/npm-console/node_modules/playwright-core";

system("node \"$root/console/build.mjs\" \"$build\" >/dev/null") == 0
    or die "the console was not built\n";

my $t = AgentStream->new(opencode => 'real', timeout => 600, workers => 2,
    server => "root $build/console; include $root/conf/console.conf;
        location /users {
            agentstream /opencode/;
            agentstream_owner \$cookie_user;
        }",
    location => 'agentstream_heartbeat 1s; agentstream_turn_size 512k;',
    config => { permission => {
        bash => { '*' => 'allow', 'echo asked*' => 'ask' } } });

my %env = (BASE => "http://127.0.0.1:$t->{port}",
    OPENCODE => "http://127.0.0.1:$t->{port_opencode}",
    WORKSPACE => $t->{workspace}, MASTER => $t->{master}{pid},
    MODULES => "$build/npm-console/node_modules", PICTURES => $pictures);

local @ENV{keys %env} = values %env;

open my $page, '-|', 'node', "$root/console/test/page.mjs"
    or die "node: $!\n";
binmode $page, ':utf8';

my $done;

while (my $line = <$page>) {
    chomp $line;

    if ($line =~ /^(not )?ok - (.*)/) {
        ok(!$1, $2);

    } elsif ($line =~ /^skip - (.*)/) {
        SKIP: { skip $1, 1 }

    } elsif ($line eq '# done') {
        $done = 1;

    } elsif ($line =~ /^# (5,000|200 kB|routes)/) {
        note($line =~ s/^# //r);

    } else {
        diag($line =~ s/^# //r);
    }
}

ok(close $page, 'the browser test ended well') or diag("status $?");
ok($done, 'all parts were run');

if ($ENV{AGENTSTREAM_PICTURES}) {
    make_path("$root/docs");
    copy("$pictures/console-$_.png", "$root/docs/console-$_.png")
        for qw(light dark phone);
}

$t->done();
