#!/usr/bin/perl

# Names: "@name" wherever a session's id may stand.  The id follows from the
# scope and the name, and OpenCode is asked to create that session only by a
# prompt.
#
# Broken by: an id that depends on the worker, the machine or the start of
# nginx; a scope that misses the server, prefix, route or directory; a session
# that a look-up creates; a bad name that reaches OpenCode; a page that counts
# as a session; a name without a session that looks like one without a turn; an
# encoded name that is refused.

use FindBin;
use lib "$FindBin::Bin/lib";

use AgentStream;
use AgentStream::Attach;
use Digest::SHA qw(sha256);

my $json = JSON::PP->new->utf8->canonical->allow_nonref;

my $t = AgentStream->new(timeout => 120, workers => 2, server => <<'EOF');
        location /routed {
            agentstream /opencode/;
            agentstream_route $arg_route;
        }

        location /placed {
            agentstream /opencode/;
            agentstream_directory /work/$arg_task;
        }

        location /twin {
            agentstream /opencode/;
            add_header X-Session <$agentstream_session> always;
        }
EOF

$t->control('config', { strict => JSON::PP::true });

# ---- a prompt creates the session

my $id = id_of('task-42');
my $c = $t->turn('@task-42', 'text:3:5:1');

check_turn($c, 'by name');
is(packet_json(($c->packets())[0])->{sessionId}, $id,
   'turn_started tells the real id');

my @made = log_of('POST', qr{^/api/session$});
is(scalar @made, 1, 'one session is created');
is_deeply($made[0]{json}, { id => $id }, 'with this id, and nothing else');
is(scalar log_of('GET', qr{^/session/\w+$}), 0, 'no other look-up is made');
is((log_of('POST', qr{prompt_async}))[0]{url} =~ m{/session/(\w+)/} && $1, $id,
   'its prompt goes there');

check_turn($t->turn('@task-42', 'text:3:5:1'), 'again');
is(scalar @{ $json->decode($t->request('GET', '/sessions')->body()) }, 1,
   'it is the same session');

# ---- every route

is($json->decode($t->request('GET', '/sessions/@task-42')->body())->{id}, $id,
   'looked up by name');
is($json->decode($t->request('GET', "/sessions/$id")->body())->{id}, $id,
   '... and by id');
like($t->request('GET', '/sessions/@task-42/turn')->body(),
     qr/"running":false,"stopReason":"end_turn"/, 'its turn');
is(join(' ', types($t->request('GET', '/sessions/@task-42/events'))),
   join(' ', types($t->request('GET', "/sessions/$id/events"))),
   'its events');
is(scalar @{ $json->decode($t->request('GET', '/sessions/@task-42/messages')
                             ->body()) },
   scalar @{ $json->decode($t->request('GET', "/sessions/$id/messages")
                             ->body()) }, 'its history');
is($t->request('POST', '/sessions/@task-42/interrupt')->body(),
   '{"interrupted":false}', 'nothing to interrupt');

$c = $t->send_message('@task-42', 'text:1000:8:20');
$t->wait([$c], until => sub { $_[0]->packets() > 3 });
is($t->request('POST', '/sessions/@task-42/interrupt')->body(),
   '{"interrupted":true}', 'interrupted by name');
$t->wait([$c]);
is(packet_json(($c->packets())[-1])->{stopReason}, 'cancelled', 'cancelled');

is($t->request('DELETE', '/sessions/@task-42')->body(), 'true', 'deleted');
is($t->request('GET', '/sessions/@task-42')->status(), 404, 'it is gone');
check_turn($t->turn('@task-42', 'text:3:5:1'), 'created anew');

# ---- only a prompt creates one

for (['GET', ''], ['DELETE', ''], ['GET', '/messages'], ['GET', '/events'],
     ['GET', '/events?view=delta'], ['GET', '/turn'], ['POST', '/interrupt'],
     ['POST', '/questions/que_x/reject'],
     ['PATCH', '', body => { title => 'x' }],
     ['POST', '/permissions/per_x/reply', body => { reply => 'once' }])
{
    my ($method, $path, @body) = @$_;

    is_error_packet($t->request($method, "/sessions/\@none$path", @body)
                      ->response(), 404, "$method \@none$path");
}

$t->request('POST', '/sessions', body => { name => 'idle' });
like($t->request('GET', '/sessions/@idle/turn')->body(),
     qr/^\{"turnId":null,"running":false/, 'a session without a turn');
is($t->request('POST', '/sessions/@idle/interrupt')->body(),
   '{"interrupted":false}', '... has nothing to interrupt');
is(scalar(grep { $_->{body} =~ id_of('none') }
          log_of('POST', qr{^/api/session})), 0, 'nothing is created for it');

# ---- the scope

my %ids = map { $_->[0] => started(@$_) } (
    ['a route', '/routed/@x', '?route=one', route => 'one'],
    ['another route', '/routed/@x', '?route=two', route => 'two'],
    ['no route', '/routed/@x', ''],
    ['a directory', '/placed/@x', '?task=7', directory => '/work/7'],
    ['another directory', '/placed/@x', '?task=8', directory => '/work/8'],
);

is(scalar(keys %{{ reverse %ids }}), 5, 'five scopes are five sessions');
is(started('another location', '/twin/@x', ''), $ids{'no route'},
   'the name of the location does not matter');
is((grep { $_->{json}{id} eq $ids{'another directory'} }
    log_of('POST', qr{^/api/session}))[-1]{json}{location}{directory},
   '/work/8', 'where it is created');
is((grep { $_->{url} =~ /prompt_async/ } @{ $t->control('log') })[-2]{url}
     =~ /directory=([^&]*)/ && $1, '%2Fwork%2F8', 'where its prompt goes');

is($t->request('GET', '/twin/@x/turn')->header('x-session'),
   '<' . id_of('x') . '>', '$agentstream_session is the real id');
is($t->request('GET', '/twin/@/turn')->header('x-session'), '<>',
   'and nothing for what is no name');

# ---- ten at once, two workers

my @all = map { $t->send_message('@crowd', 'text:3:5:1') } 1 .. 10;
$t->wait(\@all);

is(join(',', sort map { $_->status() } @all), join(',', 200, (409) x 9),
   'ten at once: one turn');
is(scalar(grep { $_->{json}{id} eq id_of('crowd') }
          log_of('POST', qr{^/api/session})), 1, '... and one session');

# ---- nginx is started again

restart_nginx($t);
$c = $t->turn('@task-42', 'text:3:5:1');
check_turn($c, 'after a restart');
is(packet_json(($c->packets())[0])->{sessionId}, $id, 'the same session');

# ---- bad names

my $seen = @{ $t->control('log') };

for my $name ('@', '@@x', '@a b', '@a%20b', '@%61', '@a+b', '@a,b', '@a\\b',
              '@' . 'n' x 81, "\@a\x{e4}", '@a"b', '@a;b', '@a@b', 'x@y')
{
    my $path = "/sessions/$name/turn" =~ s/ /%20/gr;

    utf8::encode($path);
    is_error_packet($t->request('GET', $path)->response(), 400,
                    "$name is no name");
}

is(@{ $t->control('log') } - $seen, 0, 'not a byte of it reaches OpenCode');
check_turn($t->turn('@' . 'n' x 80, 'text:1:1:1'), '80 characters');
check_turn($t->turn('@AZaz09._:~-', 'text:1:1:1'), 'all characters');

# ---- what libraries encode

$c = $t->turn('%40AZaz09._%3A%7e-', 'text:1:1:1');
check_turn($c, 'encoded');
is(packet_json(($c->packets())[0])->{sessionId}, id_of('AZaz09._:~-'),
   'the same session');
is($t->request('GET', '/twin/%40x%3ay/turn')->header('x-session'),
   '<' . id_of('x:y') . '>', '... for $agentstream_session, too');

# ---- an OpenCode that cannot do it

for (['a page', status => 200, body => '<!doctype html>', type => 'text/html'],
     ['no such route', status => 404, body => 'Not found'],
     ['another session', status => 200, body => '{"data":{"id":"ses_other",'
                                        . '"location":{"directory":"/a"}}}'])
{
    my ($what, %rule) = @$_;

    $t->control('config', { rules => [{ url => '^/api/session', %rule }] });

    my $p = is_error_packet($t->turn('@unmade', 'x')->response(), 501, $what);
    like($p->{message}, qr/cannot create sessions with names/, "$what: told");
}

$t->control('config', { rules => [{ url => '^/api/session', status => 500 }] });
is_error_packet($t->turn('@unmade', 'x')->response(), 502, 'a failure');
is(scalar(grep { $_->{done} && $_->{url} =~ /prompt_async/
                 && $_->{time} > time() * 1000 - 500 }
          @{ $t->control('log') }), 0, 'no prompt is sent then');

$t->done();


sub log_of {
    my ($method, $url) = @_;

    return grep { $_->{method} eq $method && $_->{url} =~ $url }
           @{ $t->control('log') };
}


# the id of a name, by another program's way

sub id_of {
    my ($name, %scope) = @_;

    my $digits = digits(hash('', '/opencode/', $scope{route} // '', '',
                             $scope{directory} // '', $name), 10);
    my $seal = hash('', $digits);

    return "ses_$digits" . digits($seal, 8) . digits(substr($seal, 8), 8);
}


sub hash {
    return sha256(join '', map { pack('Q>', length) . $_ } @_);
}


sub digits {
    my ($bytes, $n) = @_;
    my $value = unpack 'Q>', $bytes;
    my @alphabet = ('0' .. '9', 'A' .. 'Z', 'a' .. 'z');
    my $text = '';

    for (1 .. $n) {
        $text .= $alphabet[$value % 62];
        $value = ($value - $value % 62) / 62;
    }

    return $text;
}


# the session of a turn that a path has started

sub started {
    my ($what, $path, $args, %scope) = @_;

    my $c = $t->request('POST', "$path/send-message$args",
                        body => { content => 'text:1:1:1' });
    my $session = packet_json(($c->packets())[0])->{sessionId};

    is($session, id_of('x', %scope), $what);

    return $session;
}
