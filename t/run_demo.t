#!/usr/bin/perl

# "make run" starts, twice in a row; the curl command that it prints runs a
# turn; an occupied port, or a demo that is already running, is named and left
# alone; Ctrl-C ends everything that was started, including commands of the
# agent.  The README's commands for a first turn and for a name work.  With
# OWNERS=1 there are two users, who see nothing of each other.
#
# Broken by: a port that is not looked at before something is started, the lock
# left out, a stop that forgets one of the processes, no mark in OpenCode's
# environment, a state in build/run that the next start stumbles over, no
# agentstream_owner, or one that does not depend on the port; a command in
# README.md whose session is another one.

use FindBin;
use lib "$FindBin::Bin/lib";

use AgentStream;
use AgentStream::Process qw(alive family free_ports slurp);
use IO::Socket::INET;
use JSON::PP;
use Text::ParseWords qw(shellwords);

my $t = AgentStream->new(nginx => 0, opencode => 'none', timeout => 200);
my %port;
my @demos;

plan(skip_all => 'no OpenCode') unless -x $t->build() . '/opencode/opencode';

symlink $t->build() . "/$_", "$t->{dir}/$_" for qw(console opencode);


# util/run with a build/ of its own; as from a terminal, where SIGINT counts

sub demo {
    my ($name, %env) = @_;

    local $SIG{INT} = 'DEFAULT';

    my $demo = AgentStream::Process->start(
        command => ["$FindBin::Bin/../util/run"], out => "$t->{dir}/$name.out",
        env => { %port, %env, AGENTSTREAM_BUILD => $t->{dir},
                 AGENTSTREAM_MODULE => $t->module() });

    $demo->{out} = "$t->{dir}/$name.out";
    push @demos, $demo;

    return $demo;
}


sub up {
    my ($demo) = @_;

    wait_for(sub { $demo->exited() || slurp($demo->{out}) =~ /^logs: /m }, 60);

    return slurp($demo->{out});
}


sub refused {
    my ($name, $message, %env) = @_;
    my $demo = demo($name, %env);

    ok(wait_for(sub { $demo->exited() }, 30) && $demo->{status},
       "$name: ends with an error");
    like(slurp($demo->{out}), $message, "$name: says why");
}


@port{qw(PORT OPENCODE_PORT MODEL_PORT PHONE_PORT)} = free_ports(4);

my $demo = demo('first');
my ($curl) = up($demo) =~ /^ +(curl .*\\\n.*)$/m;

ok($curl, 'comes up and prints a line for curl')
    or die(slurp($demo->{out}));
like(slurp($demo->{out}), qr!^console: +http://127\.0\.0\.1:$port{PORT}/$!m,
     'and the address of the console');

my (undef, @args) = shellwords($curl =~ s/\\\n//r);
my $c = AgentStream::Client->curl(@args);

$t->wait([$c], timeout => 60);
check_turn($c, 'the printed line');

# another one

my @other = free_ports(4);

refused('port', qr/port $port{PORT} is occupied.* PORT=<port>/);
refused('phone port', qr/port $port{PHONE_PORT} is occupied/,
        PORT => $other[0]);
refused('opencode port', qr/port $port{OPENCODE_PORT} is occupied/,
        PORT => $other[0], PHONE_PORT => $other[3]);
refused('model port', qr/port $port{MODEL_PORT} is occupied/,
        PORT => $other[0], PHONE_PORT => $other[3],
        OPENCODE_PORT => $other[1]);
refused('other ports', qr/another "make run" uses .*\/run;/,
        PORT => $other[0], PHONE_PORT => $other[3],
        OPENCODE_PORT => $other[1], MODEL_PORT => $other[2]);
ok(-s "$t->{dir}/run/nginx-access.log", 'the first one keeps its logs');

# Ctrl-C while the agent runs commands, one of them left by its parent

my $pids = "$t->{dir}/run/workspace/pids";
my $command = "(setsid sleep 600 >/dev/null 2>&1 & echo \$! >>$pids); "
              . "echo \$\$ >>$pids; sleep 600";
my ($url) = grep { /^http:/ } @args;
my ($path) = $url =~ m!(/sessions/.*)!;

$c = $t->open('POST', $path, port => $port{PORT}, body => { content =>
    '!call bash ' . encode_json({ command => $command, description => 'x' }) });

ok(wait_for(sub { 2 == (() = slurp($pids) =~ /^\d+\n/mg) }, 30),
   'the agent runs commands');

my @all = (family($demo->{pid}), split ' ', slurp($pids));

cmp_ok(scalar alive(@all), '>=', 7, 'processes: model, OpenCode, nginx, more');

kill 'INT', -$demo->{pid};

ok(wait_for(sub { $demo->exited() }, 30), 'Ctrl-C ends it');
is($demo->{status}, 0, 'without an error');
ok(wait_for(sub { !alive(@all) }, 5), 'nothing is left')
    or diag(map { slurp("/proc/$_/cmdline") =~ tr/\0/ /r . "\n" } alive(@all));
kill 'KILL', alive(@all);
ok(!IO::Socket::INET->new(PeerAddr => '127.0.0.1', PeerPort => $port{$_}),
   "$_ is free again") for sort keys %port;

# once more, straight after

$demo = demo('second');
like(up($demo), qr/^logs: /m, 'comes up again');

# the README's lines for a first turn, as a shell runs them

my ($first) = slurp("$FindBin::Bin/../README.md")
              =~ /^<!-- example: turn -->\n```\n(.*?)^```$/ms;

$first =~ s/:8080/:$port{PORT}/g;
like(`$first 2>&1`, qr/^data: \{"type":"prompt_response".*\}\s*\z/m,
     'a turn, as in README.md');

# and its line for a name

my ($named) = slurp("$FindBin::Bin/../README.md")
              =~ /^<!-- example: name -->\n```\n(.*?)^```$/ms;

(undef, @args) = shellwords($named =~ s/\\\n//r =~ s/:8080/:$port{PORT}/r);
$c = AgentStream::Client->curl(@args);
$t->wait([$c], timeout => 60);
check_turn($c, 'a name, as in README.md');
is($t->request('GET', '/sessions/@task-42', port => $port{PORT})->status(), 200,
   'its session');

@all = family($demo->{pid});
is($demo->stop('TERM', 30), 0, 'SIGTERM ends it');
ok(!alive(@all), 'nothing is left again');

# two users

my ($bob) = free_ports(1);

$demo = demo('owners', OWNERS => 1, BOB_PORT => $bob);
like(up($demo), qr!^alice:\ +http://127\.0\.0\.1:$port{PORT}/\n
                   bob:\ +http://127\.0\.0\.1:$bob/$!mx,
     'two users: two addresses');

my ($id) = slurp($demo->{out}) =~ m!/sessions/(ses_\w+)/!;
my ($hers, $his) = map { $t->request('GET', '/sessions', port => $_)->body() }
                   $port{PORT}, $bob;

is(join(' ', map { $_->{id} } @{ decode_json($hers) }), $id,
   'alice has her session, and none of the demos before');
is($his, '[]', 'bob has none');
is($t->request('GET', "/sessions/$id", port => $bob)->status(), 404,
   'and cannot use hers');
is($t->request('GET', '/', port => $bob)->status(), 200, 'bob has a console');

refused('bob', qr/port $bob is occupied.* BOB_PORT=<port>/, OWNERS => 1,
        PORT => $other[0], PHONE_PORT => $other[3], BOB_PORT => $bob);
is($demo->stop('TERM', 30), 0, 'SIGTERM ends that, too');

$t->done();


END {
    my $status = $?;

    $_->stop('TERM', 20) for @demos;
    $? = $status;
}
