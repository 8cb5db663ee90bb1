#!/usr/bin/perl

# Request bodies: a hundred megabytes that nobody asked for, the size limit to
# the byte, and bodies that nginx is told to keep in files.
#
# Broken by: a body that is read before its announced length is looked at, or
# kept beyond client_max_body_size; room made for what is announced only; a body
# that is looked for in memory when nginx put it into a file; nginx's own page
# for 413; a connection that is reset before the client can read the answer.

use FindBin;
use lib "$FindBin::Bin/lib";

use AgentStream;
use AgentStream::Attach;

my $LIMIT = 100 * 1024;

my $t = AgentStream->new(timeout => 120,
    location => "client_max_body_size $LIMIT;", server => join("\n", map { qq{
        location /$_->[0] {
            agentstream /opencode/;
            $_->[1]
        }
} } (
    [ small => 'client_body_buffer_size 1k; client_max_body_size 2m;' ],
    [ file => 'client_body_in_file_only on; client_max_body_size 2m;' ],
    [ clean => 'client_body_in_file_only clean; client_max_body_size 2m;' ],
    [ single => 'client_body_in_single_buffer on;
                 client_body_buffer_size 1k; client_max_body_size 2m;' ],
    [ free => 'client_max_body_size 0;' ],
    [ timeout => 'client_body_timeout 500ms;' ],
)));
my ($worker) = $t->workers();

check_turn($t->turn($t->session(), 'text:3:16:0'), 'before all');

my ($files, $memory) = (files($worker), rss($worker));

# to the byte, announced and chunked, on HTTP/1.1 and HTTP/2

for my $chunked (0, 1) {
    for my $more (0, 1) {
        my $name = ($chunked ? 'chunked' : 'announced')
                   . ($more ? ', a byte too much' : ', as much as may be');
        my $body = sized($LIMIT + $more);
        my $s = $t->session();
        my $c = $t->open('POST', "/sessions/$s/send-message",
            headers => { 'Content-Type' => 'application/json', $chunked
                         ? ('Transfer-Encoding' => 'chunked')
                         : ('Content-Length' => length $body) });
        $c->send($chunked ? chunked($body) : $body);
        $t->wait([$c], timeout => 20);

        if ($more) {
            is_error_packet($c->response(), 413, $name);
            is(prompts($t, $s), 0, "$name: not sent");

        } else {
            check_turn($c, $name);
        }

        my $file = "$t->{dir}/body.json";
        open my $fh, '>', $file or die "$file: $!\n";
        print $fh $body;
        close $fh;

        $s = $t->session();
        my $h = AgentStream::Client->curl('--http2-prior-knowledge',
            '-H', 'Content-Type: application/json', '-H', 'Expect:',
            '--data-binary', "\@$file", $chunked
                ? ('-H', 'Content-Length:') : (),
            "http://127.0.0.1:$t->{port_h2}/sessions/$s/send-message");
        $t->wait([$h], timeout => 20);

        # nginx resets the stream after its answer; some curls do not show it

        is($h->status() // 413, $more ? 413 : 200, "$name, HTTP/2");
        is(prompts($t, $s), 1 - $more, "$name, HTTP/2: prompts");
    }
}

nothing_left($t, $worker, $files, 'to the byte');

# a hundred megabytes, announced: refused before a byte of it was read

my $big = 100 * 1024 * 1024;
my $c = $t->open('POST', '/sessions/ses_1/send-message', headers => {
    'Content-Type' => 'application/json', 'Content-Length' => $big });
ok($t->wait([$c], timeout => 5), '100 MB announced: answered at once');
is_error_packet($c->response(), 413, '100 MB announced: 413');
$c->close();

# ... also to one that sends all of it before it reads, and to one that does
# not say how much it is

for my $chunked (0, 1) {
    my $name = $chunked ? '100 MB chunked' : '100 MB sent';
    my ($sent, $most) = (0, 0);

    $c = $t->open('POST', '/sessions/ses_1/send-message', headers => {
        'Content-Type' => 'application/json', $chunked
            ? ('Transfer-Encoding' => 'chunked')
            : ('Content-Length' => $big) });

    my $piece = 'x' x (1024 * 1024);
    $piece = sprintf("%x\r\n%s\r\n", length $piece, $piece) if $chunked;

    while ($sent < 100 && $c->send($piece)->{fh}->connected()) {
        my $now = rss($worker);

        $most = $now if $now > $most;
        $sent++;
    }

    ok($t->wait([$c], timeout => 20), "$name: answered");
    is_error_packet($c->response(), 413, "$name: 413");
    $c->close();

    SKIP: {
        skip 'a sanitized worker keeps what it frees', 1
            if $ENV{AGENTSTREAM_ASAN};
        cmp_ok($most - $memory, '<', 6 * 1024, "$name: not kept in memory");
    }

    note("$sent MB sent, $most kB most, $memory before");
}

is(join(' ', glob "$t->{dir}/body/*"), '', '... nor in a file');
nothing_left($t, $worker, $files, '100 MB');

# it says that it will, and does not

$c = $t->open('POST', '/free/ses_1/send-message', headers => {
    'Content-Type' => 'application/json', 'Content-Length' => 1 << 40 });
$c->send('{"content":"');
sleep(0.3);
cmp_ok(rss($worker) - $memory, '<', 6 * 1024,
       'a terabyte announced: no room is made for it')
    unless $ENV{AGENTSTREAM_ASAN};
$c->close();

$c = $t->request('POST', '/timeout/ses_1/send-message', headers => {
    'Content-Type' => 'application/json', 'Content-Length' => 100 },
    timeout => 10);
is($c->status() // 'closed', 'closed', 'client_body_timeout: let go');
nothing_left($t, $worker, $files, 'announced only');

# what nginx would put into files

for my $where (qw(small file clean single)) {
    my $s = $t->session();
    my $content = 'say:' . join ' ', map { "word$_" } 1 .. 100;
    my $c = $t->open('POST', "/$where/$s/send-message",
        body => { content => $content . "\n" . 'y' x $LIMIT });
    $t->wait([$c], timeout => 20);
    check_turn($c, "body in $where");
    is(length((grep { $_->{url} =~ m{$s/prompt_async} }
               @{ $t->control('log') })[0]{json}{parts}[0]{text}),
       length($content) + 1 + $LIMIT, "body in $where: all of it");

    # in two pieces, with time between them

    $s = $t->session();
    my $request = $t->http_request('POST', "/$where/$s/send-message",
        body => { content => $content . "\n" . 'y' x 70000 });
    $c = AgentStream::Client->open(port => $t->{port},
        request => substr $request, 0, 40000);
    sleep(0.1);
    $c->send(substr $request, 40000);
    $t->wait([$c], timeout => 20);
    check_turn($c, "body in $where, in pieces");
}

is(join(' ', glob "$t->{dir}/body/*"), '', 'no file is left');
nothing_left($t, $worker, $files, 'files');

$t->done();


# a body of this size

sub sized {
    my ($size) = @_;
    my $text = 'text:2:8:0\n';

    return '{"content":"' . $text
           . 'x' x ($size - length('{"content":""}' . $text)) . '"}';
}


sub chunked {
    my ($body) = @_;

    return join('', map { sprintf "%x\r\n%s\r\n", length, $_ }
                    unpack '(a8191)*', $body) . "0\r\n\r\n";
}
