#!/usr/bin/perl

# Only a plain path is served: anything that nginx decodes, merges or resolves
# (%2e, "//", "/./", "/../") is 400 wherever it is in the path, so that a login
# service that looks at the path sees the session that is served.  Only "@", ":"
# and "~" may be encoded, for names.
# $agentstream_session is that session, in every phase.
#
# Broken by: a check of a part of the path only, or of what nginx made of it;
# a variable that is read from another path than the routes are; a path that
# does not begin with the location's name and is cut all the same.

use FindBin;
use lib "$FindBin::Bin/lib";

use AgentStream;

my $t = AgentStream->new(
    location => 'add_header X-Session $agentstream_session always;
            if ($agentstream_session = ses_closed) { return 403; }
            rewrite ^/sessions/ses_break/(.*)$ /ses_b/$1 break;
            rewrite ^/sessions/ses_short$ /x break;
            rewrite ^/sessions/ses_long$ /elsewhere/ses_b/turn break;',
    server => '
        rewrite ^/api/(.*)$ /sessions/$1 last;

        location /.well-known/..agents/v1.0... {
            agentstream /opencode/;
            add_header X-Session $agentstream_session always;
        }

        location = /one {
            add_header X-Session "none: $agentstream_session";
            return 200;
        }

        location /slashes//sessions {
            agentstream /opencode/;
        }',
    http => '
    server {
        listen 127.0.0.1:%%port_other%%;
        merge_slashes off;

        location / {
            agentstream /opencode/;
            add_header X-Session $agentstream_session always;
        }

        location /opencode/ {
            internal;
            proxy_pass http://127.0.0.1:%%port_opencode%%/;
        }
    }',
    port_other => (AgentStream::Process::free_ports(1))[0]);

my @refused = (
    '/sessions/ses_mine/../ses_theirs/turn',
    '/sessions/ses_mine/%2e%2e/ses_theirs/turn',
    '/sessions/ses_mine/.%2E/ses_theirs/turn',
    '/sessions/ses_mine/..%2fses_theirs/turn',
    '/sessions/ses_mine/x/../../ses_theirs/turn',
    '/sessions//ses_theirs/turn',
    '/sessions/ses_theirs//turn',
    '/sessions/./ses_theirs/turn',
    '/sessions/ses_theirs/./turn',
    '/sessions/ses_theirs/turn/.',
    '/sessions/ses_theirs/turn/x/..',
    '/sessions/ses_theirs/tur%6e',
    '/sessions/%73es_theirs/turn',
    '/%73essions/ses_theirs/turn',
    '/sessions/%2573es_theirs/turn',
    '/sessions/%40x%2fy/turn',
    '/sessions/%40x%2540/turn',
    '/sessions/%40x%41/turn',
    '/sessions%2fses_theirs/turn',
    '/x/../sessions/ses_theirs/turn',
    '//sessions/ses_theirs/turn',
    '/./sessions/ses_theirs/turn',
    '/sessions/ses_theirs/turn#fragment',
    '/sessions/../sessions',
    '/sessions//',
    '/api/ses_mine/../ses_theirs/turn',
    '/api/ses_theirs/tur%6e',
    '/x/../api/ses_theirs/turn',
    '/api//ses_theirs/turn',
    'http://localhost/sessions/ses_mine/../ses_theirs/turn',
    'http://localhost//sessions/ses_theirs/turn',
    '/.well-known/..agents/v1.0.../../v1.0.../ses_theirs/turn',
);

for my $path (@refused) {
    my $c = $t->request('GET', $path);

    is_error_packet($c->response(), 400, $path);
    is($c->header('X-Session'), undef, "$path: no session");
}

for my $path ('/ses_mine/../ses_theirs/turn', '//ses_theirs/turn',
              '/ses_theirs//turn', '/ses_theirs/./turn', '/ses_theirs/tur%6e')
{
    my $c = $t->request('GET', $path, port => $t->{port_other});

    is_error_packet($c->response(), 400, "merge_slashes off: $path");
    is($c->header('X-Session'), undef, "merge_slashes off: $path: no session");
}

for my $path ('/sessions/ses_mine/../ses_theirs/turn',
              '/sessions/%73es_theirs/turn', '//sessions/ses_theirs/turn')
{
    my $c = AgentStream::Client->curl('--http2-prior-knowledge',
        '--path-as-is', "http://127.0.0.1:$t->{port_h2}$path");

    $t->wait([$c]);
    is_error_packet($c->response(), 400, "HTTP/2: $path");
    is($c->header('X-Session'), undef, "HTTP/2: $path: no session");
}

# what is plain

for ('/sessions/ses_a/turn', '/api/ses_a/turn',
     'http://localhost/sessions/ses_a/turn', 'http://LOCALHOST/api/ses_a/turn',
     '/sessions/ses_a/turn?x=%2f..//./%2e%2e/ses_b', '/sessions/ses_a/turn?#x',
     '/.well-known/..agents/v1.0.../ses_a/turn')
{
    my $c = $t->request('GET', $_);

    is($c->status(), 200, $_);
    is($c->header('X-Session'), 'ses_a', "$_: its session");
}

my $c = $t->request('GET', '/ses_a/turn', port => $t->{port_other});
is($c->status(), 200, 'merge_slashes off');
is($c->header('X-Session'), 'ses_a', 'merge_slashes off: its session');

$c = AgentStream::Client->curl('--http2-prior-knowledge',
    "http://127.0.0.1:$t->{port_h2}/sessions/ses_a/turn");
$t->wait([$c]);
is($c->status(), 200, 'HTTP/2');
is($c->header('X-Session'), 'ses_a', 'HTTP/2: its session');

# the session in the path, or none

for (['/sessions', undef], ['/sessions/', undef], ['/sessions/nothing', undef],
     ['/sessions/ses_', undef], ['/sessions/ses_a', 'ses_a'],
     ['/sessions/ses_a/b/c/d', 'ses_a'], ['/sessions/ses_a/b/c/d/e', undef],
     ['/sessionsses_a/turn', undef], ['/sessions/ses_a?b=/ses_c', 'ses_a'],
     ['/one', 'none: '])
{
    my ($path, $session) = @$_;

    is($t->request('GET', $path)->header('X-Session'), $session,
       "the session of $path");
}

is($t->request('GET', '/sessions/ses_closed/turn')->status(), 403,
   'the session in the rewrite phase');

# a path that does not begin with the location's name any more

for (qw(break/turn short long)) {
    is_error_packet($t->request('GET', "/sessions/ses_$_")->response(), 404,
                    "rewritten to another place: $_");
}

my @seen = grep { /theirs|mine|ses_b/ } $t->upstream();
is("@seen", '', 'OpenCode hears of none of them');

$t->done();
