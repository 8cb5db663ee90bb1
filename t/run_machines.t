#!/usr/bin/perl

# "make run MACHINES=3": three machines behind a balancer are one service.  While
# an answer comes, the machine that has the turn is killed with the command that
# is printed: the client comes back through the same address, and gets the rest
# of the same answer.  The demo goes on without that machine, and Ctrl-C ends
# everything.
#
# Broken by: machines without the store, a balancer that buffers or knows one
# machine only, a demo that ends when a machine is lost, a stop that forgets one
# of the processes.

use FindBin;
use lib "$FindBin::Bin/lib";

use AgentStream;
use AgentStream::Attach;
use AgentStream::Process qw(alive family free_ports reserve_port slurp);
use JSON::PP;

my $t = AgentStream->new(nginx => 0, opencode => 'none', timeout => 200);

plan(skip_all => 'no OpenCode') unless -x $t->build() . '/opencode/opencode';

symlink $t->build() . "/$_", "$t->{dir}/$_" for qw(console opencode);

my %port;
my @names = qw(PORT OPENCODE_PORT MODEL_PORT PHONE_PORT REDIS_PORT);
my $out = "$t->{dir}/demo.out";

@port{@names} = free_ports(scalar @names);
$port{MACHINE_PORT} = three_ports();

# as from a terminal: a shell cannot trap a SIGINT that was ignored when it began,
# as it is in what another shell runs in the background

my $demo = do {
    local $SIG{INT} = 'DEFAULT';

    AgentStream::Process->start(
        command => ["$FindBin::Bin/../util/run"], out => $out,
        env => { %port, MACHINES => 3, AGENTSTREAM_BUILD => $t->{dir},
                 AGENTSTREAM_MODULE => $t->module() });
};

wait_for(sub { $demo->exited() || slurp($out) =~ /^logs: /m }, 90);

my $text = slurp($out);
my %kill = $text =~ m!^machine (\d):.*\(to kill it: (kill .*)\)$!mg;

is(scalar keys %kill, 3, 'it comes up, and says how to kill three machines')
    or die($text);

my ($session) = $text =~ m!/sessions/(ses_\w+)/send-message!;

is($t->request('GET', '/', port => $port{PORT})->status(), 200, 'the console');

# a long answer, and who has it

my $words = join ' ', 1 .. 30;
my $c = $t->open('POST', "/sessions/$session/send-message",
                 port => $port{PORT},
                 body => { content => "!pace 250\n!say \"$words\"" });

ok($t->wait([$c], until => sub { $_[0]->packets() > 8 }, timeout => 60),
   'an answer comes');

# all machines have the same packets

for my $i (1 .. 3) {
    my $d = $t->open('GET', "/sessions/$session/events",
                     port => $port{MACHINE_PORT} + $i - 1);

    $t->wait([$d], until => sub { $_[0]->packets() > 5 }, timeout => 20);
    is(join('', map { $_->{raw} // '' } ($d->packets())[0 .. 3]),
       join('', map { $_->{raw} // '' } ($c->packets())[0 .. 3]),
       "machine $i has its packets");
    $d->close();
}

my ($owner) = grep { running($_) } 1 .. 3;

ok($owner, 'a machine has the turn') or die($text);
system($kill{$owner});
ok($t->wait([$c], timeout => 20), 'it is killed: the stream breaks');

my $last = (grep { defined } map { $_->{id} } $c->packets())[-1];
my @got = $c->packets();

# as a client does that comes back until the turn has ended

ok(wait_for(sub {
    my $d = $t->open('GET', "/sessions/$session/events?last_event_id=$last",
                     port => $port{PORT});
    $t->wait([$d], timeout => 60);
    push @got, $d->packets();
    $last = (grep { defined } map { $_->{id} } @got)[-1];
    return $got[-1]{data} =~ /^\{"type":"prompt_response"/;
}, 90), 'the client comes back, until the turn has ended');

is(said(@got), $words, 'the answer is whole');
ok(wait_for(sub { slurp($out) =~ /machine-$owner is gone, the others go on/ }),
   'the demo goes on');
is($t->request('GET', '/sessions', port => $port{PORT})->status(), 200,
   'and serves');

my @all = family($demo->{pid});

kill 'INT', $demo->{pid};
ok(wait_for(sub { $demo->exited() }, 30), 'SIGINT ends it');
ok(wait_for(sub { !alive(@all) }, 5), 'nothing is left')
    or diag(map { slurp("/proc/$_/cmdline") =~ tr/\0/ /r . "\n" } alive(@all));

$t->done();


# whether the turn began on this machine

sub running {
    my ($i) = @_;
    my $status = $t->request('GET', '/status',
                             port => $port{MACHINE_PORT} + $i - 1);

    return decode_json($status->body())->{turns}{started};
}


# the text since the last reset

sub said {
    my @chunks;

    for my $data (map { decode_json($_->{data}) } @_) {
        @chunks = () if $data->{type} eq 'stream_reset';
        push @chunks, $data->{content}{text}
            if $data->{type} eq 'agent_message_chunk';
    }

    return join '', @chunks;
}


# three free ports in a row

sub three_ports {
    for (1 .. 100) {
        my ($port) = free_ports(1);

        return $port if reserve_port($port + 1) && reserve_port($port + 2);
    }

    die "no three free ports\n";
}


END {
    my $status = $?;

    $demo->stop('TERM', 20) if $demo;
    $? = $status;
}
