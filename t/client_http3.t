#!/usr/bin/perl

# HTTP/3 clients that disconnect while they wait, in each of the three possible
# ways: nothing of them is left in the worker, and whatever should end with
# them ends.
#
# Broken by: a write event that is ignored while nothing is to be sent, for
# STOP_SENDING is told by nothing else (output_test_writing()); one that is
# forgotten because it came before the request began to wait (output_wait()).

use FindBin;
use lib "$FindBin::Bin/lib";

use AgentStream;
use AgentStream::Attach;
use AgentStream::Process qw(free_ports slurp);
use IPC::Open2;

my $nginx = $ENV{AGENTSTREAM_NGINX} // 'nginx';
my $python = $ENV{AGENTSTREAM_PYTHON} // 'python3';

plan(skip_all => 'nginx has no HTTP/3')
    if `$nginx -V 2>&1` !~ /--with-http_v3_module/;
plan(skip_all => "$python has no aioquic")
    if system("$python -c 'import aioquic.h3' >/dev/null 2>&1");

my ($port) = free_ports(1);
my $t = AgentStream->new(tls => 1, timeout => 150,
    http => 'log_format left "$server_protocol $request_uri";',
    location => 'agentstream_on_disconnect abort; agentstream_busy queue;
            agentstream_keepalive 1h;',
    server => "
        listen 127.0.0.1:$port quic;
        access_log %%dir%%/left.log left;");
my ($worker) = $t->workers();

# a whole turn first, which opens the event stream, too

my $c = client('POST', message($t->session(), 'text:5:24:10'));
ok(heard($c, qr/^end$/m), 'a turn to its end');
like($c->{said}, qr/^status 200$/m, 'a turn to its end: 200');
quit($c);

my $files = files($worker);

# nothing of it comes before a client that leaves must have been seen

my $text = 'text:2:8:20000';

# name => [how often it is aborted, a client that has come so far]

my %stage = (
    'before the first packet' => [1, sub {
        my ($s) = @_;

        late_prompt($s);
        asked("POST /session/$s/prompt_async",
              'POST', message($s, $text)) }],
    'after some packets' => [1, sub {
        heard(client('POST', message($_[0], $text)), qr/^data/m) }],
    'in the queue' => [0, sub {
        my ($s) = @_;
        my $first = $t->send_message($s, $text);

        hear($t, $first, 1);
        my $c = heard(client('POST', message($s, $text)), qr/^sent/m);
        sleep(0.2);
        $c->{first} = $first;
        return $c }],
    'as a follower without a turn' => [0, sub {
        heard(client('GET', "/sessions/$_[0]/events?follow=1"),
              qr/^data/m) }],
    'while sessions are listed' => [0, sub {
        $t->control('config', { rules => [{ url => '^/session(\?|$)',
                                            hang => 1 }] });
        asked('GET /session(\?|$)', 'GET', '/sessions') }],
    'while its history is read' => [0, sub {
        $t->control('config', { rules => [{ url => "$_[0]/message",
                                            hang => 1 }] });
        asked("GET /session/$_[0]/message",
              'GET', "/sessions/$_[0]/messages") }],
);

# the other two ways are seen by nginx's own test, in the same place for all

for my $stage (sort keys %stage) {
    for my $how ('stop', $stage =~ /follower|first/ ? qw(reset close) : ()) {
        my ($aborts, $come) = @{ $stage{$stage} };
        my $s = $t->session();
        my $before = left();
        my $c = $come->($s);
        my $name = "$stage, $how";

        print { $c->{in} } "$how\n";

        ok(wait_for(sub { left() > $before }, 1), "$name: seen");
        is(left(), $before + 1, "$name: it alone");
        $t->control('config', { rules => [] });

        if ($aborts) {
            ok(wait_for(sub { aborts($s) }, 3), "$name: aborted");
        }

        if ($c->{first}) {
            $t->request('POST', "/sessions/$s/interrupt");
            $t->wait([$c->{first}]);
            sleep(0.2);
            is(prompts($t, $s), 1, "$name: it is not prompted");
        }

        ok(wait_for(sub { !turn_state($t, $s)->{running} }, 5),
           "$name: nothing runs");
        quit($c);
    }

    nothing_left($t, $worker, $files, $stage);
}

# one that wants no answer before its request is there

my $s = $t->session();
my $before = left();

late_prompt($s);
$c = heard(client('POST', message($s, $text), 'late'), qr/^sent/m);
print { $c->{in} } "stop\n";
sleep(0.2);
print { $c->{in} } "body\n";
ok(wait_for(sub { left() > $before }, 1), 'before its body, stop: seen');
ok(wait_for(sub { aborts($s) }, 5), 'before its body, stop: aborted');
quit($c);
nothing_left($t, $worker, $files, 'before its body');

$t->done();


# nothing is sent to a client before this is over

sub late_prompt {
    my ($session) = @_;

    $t->control('config', { rules => [{ url => "$session/prompt_async",
                                        times => 1, delay => 2500 }] });
}


# the arguments of client() for a prompt

sub message {
    my ($session, $content) = @_;

    return ("/sessions/$session/send-message", qq({"content":"$content"}));
}


sub client {
    my ($method, $path, @body) = @_;
    my $pid = open2(my $out, my $in, split(' ', $python),
                    "$FindBin::Bin/lib/http3.py", $port, $method, $path, @body);

    $in->autoflush(1);
    $out->blocking(0);

    return { pid => $pid, in => $in, out => $out, said => '' };
}


# -> the client, when it has said that

sub heard {
    my ($c, $what) = @_;

    wait_for(sub {
        sysread $c->{out}, $c->{said}, 65536, length $c->{said};
        return $c->{said} =~ $what;
    }, 10) or diag("said only: $c->{said}");

    return $c;
}


# -> a client, when OpenCode is asked that for it

sub asked {
    my ($url, @request) = @_;
    my $before = grep { /^$url/ } $t->upstream();
    my $c = client(@request);

    wait_for(sub { $before < grep { /^$url/ } $t->upstream() }, 10)
        or diag("nobody asks $url");

    return $c;
}


sub quit {
    my ($c) = @_;

    close $c->{in};
    waitpid $c->{pid}, 0;
}


# requests of HTTP/3 that are over

sub left {
    return scalar(() = slurp("$t->{dir}/left.log") =~ m{^HTTP/3}mg);
}


sub aborts {
    my ($session) = @_;

    return scalar grep { m{^POST /session/\Q$session\E/abort} } $t->upstream();
}
