#!/usr/bin/perl

# Owners: two users of one OpenCode and one location, who cannot see, read,
# answer, interrupt, delete, list or guess each other's sessions; and sessions
# that are created with a name by POST.
#
# Broken by: a route that does not look at the owner; an owner that is taken
# for everybody when it is empty; a request for another one's session that
# reaches OpenCode; a list that ends after a hundred sessions or shows those of
# others.

use FindBin;
use lib "$FindBin::Bin/lib";

use AgentStream;

my $json = JSON::PP->new->utf8->canonical->allow_nonref;

my $t = AgentStream->new(timeout => 120, workers => 2,
    location => 'agentstream_owner $http_x_user;', server => <<'EOF');
        location /free {
            agentstream /opencode/;
        }

        location = /asked {
            internal;
            return 204;
        }
EOF

$t->control('config', { strict => JSON::PP::true });

my @alice = (headers => { 'X-User' => 'alice' });
my @bob = (headers => { 'X-User' => 'bob' });

# ---- a session of alice's

my $s = $t->request('POST', '/sessions', @alice,
                    body => { title => 'Mine', agent => 'plan' });

is($s->status(), 200, 'alice creates a session');

my $session = $json->decode($s->body());
my $id = $session->{id};

like($id, qr/^ses_[0-9A-Za-z]{26}$/, 'with an id of ours');
is($session->{title}, 'Mine', 'its title');
is($session->{agent}, 'plan', 'its agent');
isnt($json->decode($t->request('POST', '/sessions', @alice)->body())->{id}, $id,
     'another one has another id');

my $named = $json->decode($t->request('POST', '/sessions', @alice,
                              body => { name => 'task', title => 'T' })
                            ->body());

is($named->{title}, 'T', 'one with a name');
is($json->decode($t->request('POST', '/sessions', @alice,
                     body => { name => 'task' })->body())->{id},
   $named->{id}, '... is found again');
is($json->decode($t->request('GET', '/sessions/@task', @alice)->body())
     ->{title}, 'T', '... by its name, with its title');

my $bobs = $json->decode($t->request('POST', '/sessions', @bob,
                             body => { name => 'task' })->body());
isnt($bobs->{id}, $named->{id}, 'the same name of bob is another session');

# ---- every route, with the id of the other one

my $c = $t->open('POST', "/sessions/$id/send-message", @alice,
                 body => { content => 'text:600:8:20' });
$t->wait([$c], until => sub { $_[0]->packets() > 3 });

my @routes = (
    ['GET', ''], ['DELETE', ''], ['GET', '/turn'], ['GET', '/events'],
    ['GET', '/events?follow=1'], ['GET', '/messages'],
    ['POST', '/interrupt'], ['POST', '/send-message', { content => 'x' }],
    ['POST', '/questions/que_1/reply', { answers => [['a']] }],
    ['POST', '/questions/que_1/reject'],
    ['POST', '/permissions/per_1/reply', { reply => 'once' }],
);

my %others = (
    'of another owner' => $id,
    'of nobody' => 'ses_e1cac0f93ffehaRgXzRUrQw77M',
    'that nobody has' => 'ses_' . '0' x 26,
    'too short' => 'ses_x',
    'too long' => 'ses_' . 'x' x 40,
);

my $seen = @{ $t->control('log') };

for my $what (sort keys %others) {
    for (@routes) {
        my ($method, $path, $body) = @$_;

        my $p = is_error_packet($t->request($method,
                    "/sessions/$others{$what}$path", @bob,
                    $body ? (body => $body) : ())->response(), 404,
                    "$what: $method $path");
        is($p->{message}, 'Session not found', "$what: $method $path: told");
    }
}

is(scalar @{ $t->control('log') }, $seen, 'OpenCode was not asked once');

# ---- nobody

for my $user ('', 'x' x 1025, 'x' x 4096, "a\x01b", "a\x7fb") {
    for (@routes, ['GET', undef], ['POST', undef]) {
        my ($method, $path, $body) = @$_;
        my $url = defined $path ? "/sessions/$id$path" : '/sessions';

        is_error_packet($t->request($method, $url,
            headers => { 'X-User' => $user },
            $body ? (body => $body) : ())->response(), 403,
            'no owner: ' . length($user) . " bytes: $method $url");
    }
}

is_error_packet($t->request('GET', '/sessions')->response(), 403,
                'no header at all');
is(scalar @{ $t->control('log') }, $seen, 'OpenCode was not asked either');

# ---- alice can do all of it

is($t->request('GET', "/sessions/$id/turn", @alice)->body()
     =~ /"running":true/, 1, 'alice sees her turn');
is($t->request('POST', "/sessions/$id/interrupt", @alice)->body(),
   '{"interrupted":true}', 'and interrupts it');
$t->wait([$c]);
is(packet_json(($c->packets())[-1])->{stopReason}, 'cancelled', 'cancelled');
is($t->request('GET', "/sessions/$id/messages", @alice)->status(), 200,
   'she reads its history');

# ---- lists

for my $n (1 .. 130) {
    $t->request('POST', '/free', body => { title => "free $n" });
}

for my $n (1 .. 125) {
    $t->request('POST', '/sessions', @bob, body => { name => "n$n" });
}

my @hers = ids($t->request('GET', '/sessions', @alice));
my @his = ids($t->request('GET', '/sessions', @bob));

is(scalar @hers, 3, 'alice has three sessions');
is(scalar(grep { $_ eq $id || $_ eq $named->{id} } @hers), 2, 'her own');
is(scalar @his, 126, 'bob has more than a hundred');
is(scalar(grep { my $x = $_; grep { $_ eq $x } @hers } @his), 0,
   'and none of hers');
is_deeply([ids($t->request('GET', '/sessions',
                           headers => { 'X-User' => 'carol' }))], [],
          'carol has none');

my @free = ids($t->request('GET', '/free'));
is(scalar @free, 100, 'without owners it is as OpenCode lists them');

for my $rule ([502, status => 500], [502, status => 200, body => '{"a":1}'],
              [502, status => 200, body => '<p>'], [502, cut => 10],
              [502, status => 200, body => '[{"id":"ses_x"}'])
{
    my ($status, %rule) = @$rule;

    $t->control('config', { rules => [{ method => 'GET', url => '^/session\?',
                                        %rule }] });
    is_error_packet($t->request('GET', '/sessions', @alice)->response(),
                    $status, 'a list that fails: ' . join ' ', %rule);
}

$t->control('config', { rules => [] });

# ---- an OpenCode that cannot do it

for (['a page', status => 200, body => '<!doctype html>', type => 'text/html'],
     ['no such route', status => 404, body => 'Not found'])
{
    my ($what, %rule) = @$_;

    $t->control('config', { rules => [{ url => '^/api/session', %rule }] });

    for my $body ({}, { name => 'x' }) {
        my $p = is_error_packet($t->request('POST', '/sessions', @alice,
                                            body => $body)->response(), 501,
                                $what);
        like($p->{message}, qr/cannot create sessions with names or owners/,
             "$what: told");
    }
}

$t->control('config', { rules => [{ url => '^/api/session', status => 500 }] });
is_error_packet($t->request('POST', '/sessions', @alice)->response(), 502,
                'a failure');

# ---- a client that leaves

$t->control('config', { rules => [{ url => '^/api/session', delay => 300 }] });

my $gone = $t->open('POST', '/sessions', @alice,
                    body => { name => 'gone', title => 'Gone' });
ok(wait_for(sub { grep { $_->{url} =~ m{^/api/session} && !$_->{done} }
                  @{ $t->control('log') } }), 'OpenCode is asked');
$gone->close();
$t->control('config', { rules => [] });

ok(wait_for(sub {
    ($json->decode($t->request('GET', '/sessions/@gone', @alice)->body())
       ->{title} // '') eq 'Gone';
}), 'what was begun goes through');

# ---- bad names

$seen = @{ $t->control('log') };

for my $name ('', '@x', 'a b', 'a/b', 'n' x 81, "\x{e4}", 7, undef, ['a']) {
    my $p = is_error_packet($t->request('POST', '/sessions', @alice,
                                        body => { name => $name })
                              ->response(), 400, 'a bad name');
    like($p->{message}, qr/"name"/, 'is named');
}

is(scalar @{ $t->control('log') }, $seen, 'and does not reach OpenCode');

$t->done();


sub ids {
    my ($c) = @_;

    return map { $_->{id} } @{ $json->decode($c->body()) };
}
