#!/usr/bin/perl

# Whatever "expires" says in the configuration, each response of the module,
# streams, JSON, errors and 204, has one Cache-Control header, "no-cache", and
# no Expires.  What "add_header" says is added to it.
#
# Broken by: a Cache-Control that nginx's "expires" does not know of, so that
# it sends another one, or knows of and changes; a response without it.

use FindBin;
use lib "$FindBin::Bin/lib";

use AgentStream;

my %expires = (
    none => '',
    off => 'expires off;',
    epoch => 'expires epoch;',
    max => 'expires max;',
    hour => 'expires 1h;',
    now => 'expires 0;',
    past => 'expires -1;',
    modified => 'expires modified 1h;',
    daily => 'expires @15h30m;',
    variable => 'expires $soon;',
);

my $t = AgentStream->new(location => 'add_header Cache-Control no-store;
                                      expires max;',
    http => 'map $arg_x $soon { default 24h; }',
    server => join '', map { "location /$_ { agentstream /opencode/;
                                             $expires{$_} }\n" } keys %expires);

for my $name (sort keys %expires) {
    my $s = $t->session();
    my $turn = $t->turn($s, 'text:2:8:0', path => "/$name/$s/send-message");
    my $last = ($turn->packets())[-1]{id};

    check($turn, 200, "$name: a turn");

    for (['a stream', 200, 'GET', "$s/events"],
         ['no stream', 204, 'GET', "$s/events?last_event_id=$last"],
         ['no turn, as OpenCode says', 204, 'GET',
          $t->session() . '/events'],
         ['JSON', 200, 'GET', "$s/turn"],
         ['a history', 200, 'GET', "$s/messages"],
         ['a history as a stream', 200, 'GET', "$s/messages",
          { Accept => 'text/event-stream' }],
         ['a session', 200, 'GET', $s],
         ['a new session', 200, 'POST', ''],
         ['an error', 404, 'GET', "$s/nothing"],
         ['an error as a stream', 405, 'GET', "$s/send-message"],
         ['an error of OpenCode', 404, 'GET', 'ses_unknown'])
    {
        my ($what, $status, $method, $path, $headers) = @$_;

        check($t->request($method, "/$name/$path", headers => $headers),
              $status, "$name: $what");
    }
}

my $s = $t->session();
my $c = AgentStream::Client->curl('--http2-prior-knowledge',
    "http://127.0.0.1:$t->{port_h2}/max/$s/turn");
$t->wait([$c]);
check($c, 200, 'HTTP/2');

# what is added

$c = $t->turn($s, 'text:2:8:0');
is(caching($c), 'no-cache, no-store', 'add_header: a turn');
$c = $t->request('GET', "/sessions/$s/turn");
is(caching($c), 'no-cache, no-store', 'add_header: JSON');
$c = $t->request('GET', "/sessions/$s/nothing");
is(caching($c), 'no-cache', 'add_header: not on an error, without "always"');

$t->done();


sub caching {
    my ($client) = @_;

    return join ', ', $client->response()->header('Cache-Control'),
        map { "Expires $_" } $client->response()->header('Expires');
}


sub check {
    my ($client, $status, $name) = @_;

    local $Test::Builder::Level = $Test::Builder::Level + 1;

    is(($client->status() // 'no') . ' ' . caching($client),
       "$status no-cache", $name);
}
