#!/usr/bin/perl

# What a page needs beside turns: renaming a session, and the models and agents
# that a prompt can choose.  Secrets of OpenCode's configuration stay where they
# are, and whoever has no choice is told of none.
#
# Broken by: a key or an address in the list of models; a subagent in the list
# of agents; a list although the configuration sets the field; a title of
# another type that reaches OpenCode; a session of somebody else that is renamed.

use FindBin;
use lib "$FindBin::Bin/lib";

use AgentStream;

my $json = JSON::PP->new->utf8->canonical->allow_nonref;

my $t = AgentStream->new(timeout => 60, workers => 2, server => <<'EOF');
        location /fixed {
            agentstream /opencode/;
            agentstream_model lab/$arg_model;
            agentstream_agent $arg_agent;
        }

        location /few {
            agentstream /opencode/;
            agentstream_fields content;
        }

        location /placed {
            agentstream /opencode/;
            agentstream_directory /work/here;
        }

        location /users {
            agentstream /opencode/;
            agentstream_owner $http_x_user;
        }
EOF

$t->control('config', { strict => JSON::PP::true });

titles();
models();
agents();
nobody();

$t->done();


sub patch {
    my ($path, $body, %headers) = @_;

    return $t->request('PATCH', $path, body => $body, headers => \%headers);
}


sub calls {
    return @{ $t->control('log') };
}


sub titles {
    my $s = $json->decode($t->request('POST', '/sessions')->body())->{id};
    my $c = patch("/sessions/$s", { title => "N\x{e4}me \"quoted\"" });

    is($c->status(), 200, 'renamed');
    is($json->decode($c->body())->{title}, "N\x{e4}me \"quoted\"",
       'the answer has the new title');
    is($json->decode($t->request('GET', "/sessions/$s")->body())->{title},
       "N\x{e4}me \"quoted\"", 'and so has the session');
    is_deeply((grep { $_->{method} eq 'PATCH' } calls())[-1]{json},
              { title => "N\x{e4}me \"quoted\"" }, 'nothing else was sent');

    $t->request('POST', '/sessions', body => { name => 'n' });
    is($json->decode(patch('/sessions/@n', { title => 'By name' })->body())
         ->{title}, 'By name', 'renamed by name');

    my $seen = calls();

    for ({}, { title => '' }, { title => 7 }, { title => undef },
         { title => 'x', agent => 'y' }, { name => 'x' }, [], '{')
    {
        is_error_packet(patch("/sessions/$s", $_,
                              'Content-Type' => 'application/json')
                          ->response(), 400,
                        'a bad body: ' . (ref $_ ? $json->encode($_) : $_));
    }

    is_error_packet(patch("/few/$s", { title => 'x' })->response(), 400,
                    'a title that must not be sent');
    is_error_packet($t->request('PATCH', "/sessions/$s", body => '{}')
                      ->response(), 415, 'no JSON');
    is_error_packet(patch("/sessions/$s", { title => 'x' },
                          Origin => 'http://elsewhere.example',
                          'Content-Type' => 'text/plain')->response(), 403,
                    'a page of another origin');
    is_error_packet(patch('/sessions/x', { title => 'x' })->response(), 400,
                    'no id');
    is(scalar calls(), $seen, 'and nothing reached OpenCode');

    is_error_packet(patch('/sessions/ses_none', { title => 'x' })->response(),
                    404, 'no session');
    like($t->request('PUT', "/sessions/$s")->header('Allow'),
         qr/^GET, PATCH, DELETE$/, 'the methods of a session');

    my $hers = $json->decode($t->request('POST', '/users',
                   headers => { 'X-User' => 'alice' })->body())->{id};

    $seen = calls();
    is_error_packet(patch("/users/$hers", { title => 'x' }, 'X-User' => 'bob')
                      ->response(), 404, 'somebody else');
    is(scalar calls(), $seen, 'OpenCode is not asked');
    is(patch("/users/$hers", { title => 'x' }, 'X-User' => 'alice')->status(),
       200, 'the owner');
}


sub answers {
    my ($url, $body, %rule) = @_;

    $t->control('config', { rules => [{ method => 'GET', url => $url,
        status => 200, body => ref $body ? $json->encode($body) : $body,
        %rule }] });
}


sub models {
    answers('^/config/providers', { default => { lab => 'demo' },
        providers => [{ id => 'lab', name => 'Lab', key => 'sk-secret',
            options => { apiKey => 'sk-secret', baseURL => 'http://secret' },
            models => { demo => { id => 'demo', name => 'Demo',
                                  api => { url => 'http://secret' } } } }] });

    my $c = $t->request('GET', '/sessions/models');

    is($c->status() . ' ' . $c->header('Content-Type'),
       '200 application/json', 'models');
    is($c->body(), '[{"providerID":"lab","modelID":"demo","provider":"Lab",'
                   . '"name":"Demo"}]', 'models: ids and names, and no more');

    $t->request('GET', '/placed/models');
    like((calls())[-1]{url}, qr{directory=%2Fwork%2Fhere}, 'of the directory');

    my $seen = calls();

    is($t->request('GET', '/fixed/models?model=x')->body(), '[]',
       'a model that is set');
    is($t->request('GET', '/few/models')->body(), '[]',
       'a field that must not be sent');
    is_error_packet($t->request('DELETE', '/sessions/models')->response(), 400,
                    'no session has such an id');
    is(scalar calls(), $seen, 'OpenCode is not asked');

    for (['<p>'], ['[]'], [{ error => 'x' }, status => 500],
         [{ error => 'x' }, status => 404])
    {
        answers('^/config/providers', @$_);
        is_error_packet($t->request('GET', '/sessions/models')->response(),
                        502, 'no such answer');
    }
}


sub agents {
    answers('^/agent', [
        { name => 'build', description => 'Builds', mode => 'primary',
          prompt => 'secret', options => { x => 'secret' } },
        { name => 'general', mode => 'subagent' },
        { name => 'title', mode => 'primary', hidden => JSON::PP::true }]);

    is($t->request('GET', '/sessions/agents')->body(),
       '[{"name":"build","description":"Builds"}]', 'agents');
    is($t->request('GET', '/fixed/agents?model=x&agent=plan')->body(), '[]',
       'an agent that is set');
    is($t->request('GET', '/fixed/agents?model=x')->body(),
       '[{"name":"build","description":"Builds"}]', 'or only sometimes');
    is($t->request('GET', '/few/agents')->body(), '[]',
       'a field that must not be sent');
}


sub nobody {
    my $seen = calls();

    is_error_packet($t->request('GET', "/users/$_")->response(), 403,
                    "nobody: $_") for qw(models agents);
    is(scalar calls(), $seen, 'OpenCode is not asked');
    is($t->request('GET', '/users/agents', headers => { 'X-User' => 'bob' })
         ->status(), 200, 'somebody');
}
