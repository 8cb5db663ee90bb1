#!/usr/bin/perl

# Bad input on every route: methods, paths, ids, queries, types and bodies.  It
# is always answered with a clear 4xx and one `error` packet, and not a byte of
# it reaches OpenCode.
#
# Broken by: any check left out, or made after the call; a byte of the client's
# that is copied into a path; a parser that recurses, or trusts what it reads.

use FindBin;
use lib "$FindBin::Bin/lib";

use AgentStream;

my $json = JSON::PP->new->utf8->canonical->allow_nonref;

my $t = AgentStream->new(timeout => 240, location => <<'EOF');
            client_max_body_size 64k;
EOF

# [method, path, good body]: * is a session's id, @ another one

my @routes = (
    ['POST', ''],
    ['GET', ''],
    ['GET', '/*'],
    ['DELETE', '/*'],
    ['POST', '/*/send-message', '{"content":"text:1:1:0"}'],
    ['POST', '/*/interrupt'],
    ['GET', '/*/messages'],
    ['GET', '/*/events'],
    ['GET', '/*/turn'],
    ['POST', '/*/questions/@/reply', '{"answers":[["Blue"]]}'],
    ['POST', '/*/questions/@/reject'],
    ['POST', '/*/permissions/@/reply', '{"reply":"once"}'],
);

my @ids = ('', '.', '..', '...', 'ses_', 'ses', 'ses_a.b', 'ses_a-b', 'ses_a_b',
    'SES_abc', 'xses_abc', ' ses_a', 'ses_a%20', 'ses_a%2f..', 'ses_a%2Fb',
    'ses_a%5cb', 'ses_a%00', 'ses_a%0d%0aX:%20y', 'ses_a%3fx=1', 'ses_a%23',
    'ses_%c3%a9', "ses_\xc3\xa9", "ses_\xff", 'ses_a%ff', 'ses_a;b', 'ses_a:b',
    'ses_a@b', 'ses_a,b', 'ses_a*', 'ses_a%25', 'ses_a%252f', 'ses_' . 'a' x 61,
    'ses_' . 'a' x 8000, '%73es_a%2e', 'ses_a%7f', "ses_'a", 'ses_"a',
    'ses_<a>', 'ses_a%01');

my @methods = qw(GET POST PUT DELETE PATCH HEAD OPTIONS TRACE PROPFIND MKCOL
                 LOCK COPY FOO get CONNECT);

my $sent = 0;
my %seen;
my @bad;

$t->control('reset', {});

paths();
methods();
media();
bodies();
sizes();
queries();
random();

note("$sent requests, " . join ', ', map { "$seen{$_} x $_" } sort keys %seen);
is("@bad[0 .. ($#bad < 9 ? $#bad : 9)]", '', 'always a 4xx with its packet');

# an id that looks like one is looked for

my @upstream = grep { !m{^GET /(event|session/ses_abc$|question\?|permission\?)} }
               $t->upstream();
is("@upstream", '', 'nothing reaches OpenCode');

is($t->request('GET', '/sessions')->status(), 200, 'what is good does');

$t->done();


# a refusal has its packet, in JSON or SSE; nginx's own are the exception: what
# is no HTTP at all never comes to us

sub refused {
    my ($what, $method, $path, %args) = @_;
    my $own = delete $args{own};
    my $c = $args{raw} ? AgentStream::Client->open(port => $t->{port},
                             request => $args{raw})
                       : $t->open($method, "/sessions$path", %args);

    $t->wait([$c], timeout => 5);

    my $status = $c->status() // 'none';
    my $body = $c->body() // '';

    $sent++;
    $seen{$status}++;

    $body =~ s/\Aevent: message\ndata: (.*)\n\n\z/$1/s;
    my $p = eval { $json->decode($body) };

    return if $status =~ /^4\d\d$/
              && ($method eq 'HEAD'
                  || ref $p eq 'HASH' && ($p->{type} // '') eq 'error'
                     && $p->{code} == $status && length $p->{message});
    return if $own && $status =~ /^(400|404|405|414|501)$/;

    push @bad, "$what: $method " . substr($path, 0, 60) . " -> $status "
               . substr($body, 0, 100) . "\n";
}


sub filled {
    my ($path, $session, $id) = @_;

    $path =~ s/([*\@])/$1 eq '*' ? $session : $id/ge;

    return $path;
}


sub paths {
    for my $route (@routes) {
        my ($method, $path, $body) = @$route;
        my %args = defined $body ? (body => $body, headers =>
                       { 'Content-Type' => 'application/json' }) : ();

        next if $path !~ /\*/;

        for my $id (@ids) {
            # dot segments are resolved, and the request line ends, by nginx
            my $own = $id =~ /^\.{0,2}$|%00|%2f|\s|^.{8000}/i;

            next if $id eq '' && $path eq '/*';
            refused('id', $method, filled($path, $id, 'que_abc'), %args,
                    own => $own);
            refused('other id', $method, filled($path, 'ses_abc',
                    $id =~ s/ses/que/r), %args, own => $own)
                if $path =~ /\@/;
        }

        for my $tail ('/', '/x', '//', '/%2e%2e', '.json', '%20', '/a/b/c/d')
        {
            refused('tail', $method, filled($path, 'ses_abc', 'que_abc')
                                     . $tail, %args)
                unless $tail eq '/' && $path eq '' || $tail eq '//';
        }
    }

    refused('route', 'GET', $_) for '/ses_a/nothing', '/ses_a/messages/msg_a',
        '/ses_a/questions', '/ses_a/questions/que_a', '/ses_a/b/c/d',
        '/ses_a/questions/que_a/other', 'x', '/ses_a/Messages';
}


sub methods {
    for my $path (map { $_->[1] } @routes) {
        my %allowed = map { $_->[0] => 1 } grep { $_->[1] eq $path } @routes;

        for my $method (@methods) {
            refused('method', $method, filled($path, 'ses_abc', 'que_abc'),
                    own => scalar $method =~ /^(?:TRACE|CONNECT|get)$/)
                unless $allowed{$method};
        }
    }
}


sub media {
    for my $type (undef, '', 'text/plain', 'application/jsonx', 'json',
                  'application/x-www-form-urlencoded', 'multipart/form-data')
    {
        for my $route (grep { defined $_->[2] } @routes) {
            refused('type', 'POST', filled($route->[1], 'ses_abc', 'que_abc'),
                body => $route->[2], headers => { 'Content-Type' => $type });
        }
    }
}


sub bodies {
    my @any = ('', ' ', 'x', '{', '}', '{}}', '[]', '""', 'null', '0', 'true',
        '{"a"', '{"a":', '{"a":1', '{"a":1,}', '{,}', "{'a':1}", '{"a":01}',
        '{"a":NaN}', '{"a":1e999999}', '{"a":' . '9' x 5000 . '}',
        '[' x 10_000, '{"a":' x 10_000, '[' x 10_000 . ']' x 10_000,
        '{"a":' x 5_000 . '1' . '}' x 5_000, "\xef\xbb\xbf{}", "{\"a\":\"\xff\"}",
        "{\"a\":\"\xc0\xaf\"}", "{\"a\":\"\xed\xa0\x80\"}", "{\"a\":\"\x01\"}",
        "{\"a\":\"\0\"}", "{}\0", "\0", '{"__proto__":{}}', '{"a":1}',
        '{"\u0000":1}', '{"directory":"/"}', '{"sessionID":"ses_x"}',
        '{"' . 'k' x 5000 . '":1}', '{"":1}', '//', '/**/{}');

    my %own = (
        '' => ['{"title":1}', '{"title":null}', '{"title":[]}', '{"title":""}',
            '{"title":"a","title":"b"}', '{"title":"a","titl\u0065":"b"}',
            '{"parentID":"ses_a"}', '{"permission":[]}', '{"directory":"/tmp"}',
            '{"title":"a","workspaceID":"wrk_a"}', '{"metadata":{}}',
            '{"model":"x"}', '{"model":{}}', '{"model":{"providerID":"a"}}',
            '{"model":{"providerID":"a","modelID":1}}', '{"agent":{}}',
            '{"model":{"providerID":"a","modelID":"b","x":1}}',
            '{"model":{"providerID":"a","providerID":"b"}}'],
        '/*/send-message' => ['{"content":1}', '{"content":[]}',
            '{"content":{}}', '{"content":"a","content":"b"}',
            '{"content":[{"type":"x"}]}', '{"content":"a","directory":"/"}',
            '{"content":"a","messageID":"msg_a"}', '{"parts":[{}]}',
            '{"content":"a","model":1}', '{"content":"a","tools":[]}'],
        '/*/questions/@/reply' => ['{"answers":null}', '{"answers":[]}',
            '{"answers":"a"}', '{"answers":["a"]}', '{"answers":[[1]]}',
            '{"answers":[["a"],"b"]}', '{"answers":[[["a"]]]}',
            '{"answers":[["a"]],"answers":[]}', '{"answers":{"0":["a"]}}',
            '{"answers":[["a",null]]}', '{"answers":[["a"]],"x":1}',
            '{"reply":"once"}'],
        '/*/permissions/@/reply' => ['{"reply":1}', '{"reply":"ONCE"}',
            '{"reply":"once "}', '{"reply":"once","reply":"once"}',
            '{"reply":"never"}', '{"reply":["once"]}', '{"message":"a"}',
            '{"reply":"once","message":1}', '{"reply":"once","x":1}',
            '{"response":"once"}'],
    );

    for my $path (sort keys %own) {
        for my $body (@any, @{ $own{$path} }) {
            # a session needs no body, and an empty object will do
            next if $path eq '' && $body eq '';

            refused('body', 'POST', filled($path, 'ses_abc', 'que_abc'),
                body => $body,
                headers => { 'Content-Type' => 'application/json' });
        }
    }
}


sub sizes {
    for my $route (['POST', ''], grep { defined $_->[2] } @routes) {
        my $path = filled($route->[1], 'ses_abc', 'que_abc');
        my $big = '{"title":"' . 'x' x 70_000 . '"}';

        refused('size', 'POST', $path, body => $big,
                headers => { 'Content-Type' => 'application/json' });
        refused('chunks', 'POST', $path,
                raw => join("\r\n", "POST /sessions$path HTTP/1.1",
                    'Host: localhost', 'Content-Type: application/json',
                    'Transfer-Encoding: chunked', 'Connection: close', '',
                    sprintf('%x', length $big), $big, '0', '', ''));
    }
}


sub queries {
    refused('limit', 'GET', "/ses_abc/messages?limit=$_")
        for '', 0, -1, 'a', '1a', '1.5', '1e9', '%31', '0x1',
            '9' x 30, '1%00', '+1';
}


# what none of the lists has: pieces of good and bad ones, put together

sub random {
    my @pieces = ('ses_abc', 'que_abc', '..', '.', '%2e', '%2f', '%00', '%',
        '%zz', "\x80", '/', '//', '?', '#', '&', '=', ';', ' ', 'messages',
        'questions', 'reply', 'send-message', '%c0%af', '+', "\t", '"', '\\',
        'event', 'session');

    srand(42);

    for (1 .. 600) {
        my $path = '/x' . join '', map { $pieces[rand @pieces] }
                                   1 .. 1 + rand 6;

        # some of these are no request line, or lead out of the location
        refused('random', (qw(GET POST DELETE))[rand 3], $path, own => 1);
    }
}
