#!/usr/bin/perl

# Sessions: what a client may say of them and what it may not, where they are
# made, and what becomes of a call when its client leaves or OpenCode fails.
#
# Broken by: a query, path or field of the client's that is passed on; a
# directory that is not the configured one; a deletion that dies with its
# client; an error of OpenCode's that is told as it is.

use FindBin;
use lib "$FindBin::Bin/lib";

use AgentStream;

my $json = JSON::PP->new->utf8->canonical->allow_nonref;

my $t = AgentStream->new(timeout => 60, workers => 2,
    http => 'map $http_x_team $team { default /work/shared; red "/work/red &x"; }',
    location => 'agentstream_directory $team;',
    server => <<'EOF');
        location /plain {
            agentstream /opencode/;
        }

        location /hasty {
            agentstream /opencode-hasty/;
        }

        location /opencode-hasty/ {
            internal;
            proxy_pass http://127.0.0.1:%%port_opencode%%/;
            proxy_http_version 1.1;
            proxy_set_header Connection "";
            proxy_read_timeout 1s;
        }
EOF

# ---- what reaches OpenCode

$t->request('POST', '/sessions?directory=/etc&workspace=x',
            body => { title => 'A "title"', agent => 'plan',
                      model => { providerID => 'lab', modelID => 'm' } });
my ($log) = log_of('POST', qr{^/session\b});

is($log->{url}, '/session?directory=%2Fwork%2Fshared', 'where it is made');
is_deeply($log->{json}, { title => 'A "title"', agent => 'plan',
          model => { providerID => 'lab', id => 'm' } }, 'and what of it');
ok(!exists $log->{headers}{'x-team'}, 'no header of the client');

$t->request('POST', '/sessions', headers => { 'X-Team' => 'red' });
is((log_of('POST', qr{^/session\b}))[-1]{url},
   '/session?directory=%2Fwork%2Fred%20%26x', 'a directory of a variable');
is((log_of('POST', qr{^/session\b}))[-1]{body}, '{}', 'no body is an empty one');

$t->request('POST', '/sessions', body => '{}',
            headers => { 'Content-Type' => 'application/json' });
$t->request('POST', '/plain', body => { title => 'x' });
is((log_of('POST', qr{^/session\b}))[-1]{url}, '/session',
   'no directory, none sent');

$t->request('GET', '/sessions?directory=/etc&limit=1');
is((log_of('GET', qr{^/session\b}))[-1]{url},
   '/session?directory=%2Fwork%2Fshared', 'which are listed');

$t->request('GET', '/sessions/ses_one?x=y');
is((log_of('GET', qr{^/session/}))[-1]{url}, '/session/ses_one',
   'one is looked up');

$t->request('DELETE', '/sessions/ses_one?x=y');
is((log_of('DELETE', qr{^/}))[-1]{url}, '/session/ses_one',
   'and deleted');

for my $field (qw(parentID permission metadata workspaceID directory id)) {
    my $p = is_error_packet($t->request('POST', '/sessions',
        body => { $field => 'ses_x' })->response(), 400, "$field is refused");
    like($p->{message}, qr/"$field"/, "$field is named");
}

# ---- OpenCode fails; where all or new sessions are meant, none can be missing

my %rule = (
    'a refusal' => [502, status => 400, body => '{"name":"BadRequest"}'],
    'an error' => [502, status => 500, body => 'oops'],
    'no answer' => [502, drop => 1],
    'noise' => [502, raw => "no HTTP\r\n"],
    'a cut answer' => [502, cut => 2],
    'silence' => [504, hang => 1],
    'nothing there' => [404, status => 404, body => '{}'],
);

for my $name (sort keys %rule) {
    my ($status, %rule) = @{ $rule{$name} };

    $t->control('config', { rules => [{ url => '^/session\b', %rule }] });

    for (['GET', ''], ['POST', ''], ['GET', '/ses_a'], ['DELETE', '/ses_a']) {
        my ($method, $path) = @$_;
        my $expected = $status == 404 && $path eq '' ? 502 : $status;
        my $p = is_error_packet($t->request($method, "/hasty$path")
            ->response(), $expected, "$name: $method /sessions$path");

        unlike($p->{message}, qr/oops|BadRequest/, "$name: in our words");
    }
}

# ---- the client leaves

$t->control('config', { rules => [{ url => '^/session\b', delay => 1000 }] });

for (['POST', '', 1], ['DELETE', '/ses_b', 1], ['GET', '/ses_b', 0],
     ['GET', '', 0])
{
    my ($method, $path, $through) = @$_;
    my $before = log_of($method, qr{^/session\b});
    my $c = $t->open($method, "/sessions$path");

    ok(wait_for(sub { log_of($method, qr{^/session\b}) > $before }),
       "$method /sessions$path: OpenCode is asked");
    $c->close();

    my $log;
    my $done = sub { ($log) = (log_of($method, qr{^/session\b}))[-1];
                     $log->{done} };

    $through ? wait_for($done) : sleep(1.3);
    $done->();
    is($log->{done} ? 1 : 0, $through, "$method /sessions$path: "
       . ($through ? 'goes through' : 'is given up') . ', the client gone');
}

# ---- a session that is deleted while its turn runs

$t->control('config', { rules => [] });

my $s = $t->session();
my $c = $t->send_message($s, 'text:1000:8:20');

$t->wait([$c], until => sub { $_[0]->packets() > 3 });
is($t->request('DELETE', "/sessions/$s")->body(), 'true', 'deleted');
$t->wait([$c]);
check_turn($c, 'its turn');
is(packet_json(($c->packets())[-1])->{stopReason}, 'cancelled',
   'its turn: cancelled');

my @order = map { "$_->{method} $_->{url}" =~ /(abort|DELETE)/ }
            @{ $t->control('log') };
is("@order[-2, -1]", 'abort DELETE', 'aborted first');

$t->done();


sub log_of {
    my ($method, $url) = @_;

    return grep { $_->{method} eq $method && $_->{url} =~ $url }
           @{ $t->control('log') };
}
