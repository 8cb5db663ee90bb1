#!/usr/bin/perl

# The examples of docs/access.md for passwords, OpenCode's own one, your own
# login service, and addresses: a client that is refused does not reach OpenCode, and one that is
# accepted can do everything.  The login service is told which session will be
# served.
#
# Broken by: a handler that answers before the access phase; a call of the
# module's that is checked as if it were the client's; a variable that is not
# there in a subrequest, or tells another session than the one that is served.

use FindBin;
use lib "$FindBin::Bin/lib";

use AgentStream;
use AgentStream::Docs qw(example);
use AgentStream::Process qw(free_ports slurp);

my ($login) = free_ports(1);

my %world = (
    auth_basic => [{ Authorization => 'Basic YWxpY2U6c2VjcmV0' },
                   { Authorization => 'Basic YWxpY2U6d3Jvbmc=' }, 401],
    auth_request => [{ Authorization => 'Bearer letmein' },
                     { Authorization => 'Bearer other' }, 401],
    addresses => [{ 'X-Forwarded-For' => '192.0.2.7' },
                  { 'X-Forwarded-For' => '198.51.100.7' }, 403],
);

for my $name (sort keys %world) {
    my ($good, $bad, $status) = @{ $world{$name} };
    my $t = AgentStream->new(conf => example('access.md', $name), nginx => 0,
        port_login => $login, http => $name ne 'auth_request' ? '' : <<'EOF');
    log_format login '$http_x_original_method <$http_x_session>';

    server {
        listen 127.0.0.1:%%port_login%%;

        location /check {
            if ($http_authorization != "Bearer letmein") {
                return 401;
            }
            if ($http_x_session = ses_theirs) {
                return 403;
            }
            access_log %%dir%%/login.log login;
            return 204;
        }
    }
EOF

    CORE::open my $fh, '>', "$t->{dir}/agentstream.htpasswd" or die;
    print $fh 'alice:$apr1$abc$PZF73YJz5hJ9yyI.7OP.R.', "\n";
    close $fh;

    $t->start_nginx();

    for my $headers ({}, $bad) {
        for (['POST', ''], ['GET', ''], ['GET', '/ses_a'], ['DELETE', '/ses_a'],
             ['POST', '/ses_a/interrupt'], ['GET', '/ses_a/messages'],
             ['POST', '/ses_a/send-message', '{"content":"text:1:1:0"}'],
             ['POST', '/ses_a/questions/que_a/reject'])
        {
            my ($method, $path, $body) = @$_;
            my $c = $t->request($method, "/sessions$path", body => $body,
                headers => { %$headers, $body
                             ? ('Content-Type' => 'application/json') : () });

            is($c->status(), $status, "$name: $method $path is refused");
        }
    }

    is(scalar($t->upstream()), 0, "$name: OpenCode hears nothing of it");

    my $c = $t->turn($t->session(), 'text:5:8:0', headers => $good);
    check_turn($c, "$name: a turn");
    is($t->request('POST', '/sessions', headers => $good)->status(), 200,
       "$name: a session");

    judged($t, $good) if $name eq 'auth_request';

    my @leaked = grep { $_->{headers}{authorization}
                        || $_->{headers}{'x-forwarded-for'} }
                 @{ $t->control('log') };
    is(scalar @leaked, 0, "$name: nothing of the client is passed on");

    $t->finish();
}

# OpenCode's own password: nginx sends it, whatever the client sends

my $t = AgentStream->new(conf => example('access.md', 'opencode_password'));

check_turn($t->turn($t->session(), 'text:5:8:0',
                    headers => { Authorization => 'Basic eDp5' }),
           'opencode_password: a turn');

my @calls = @{ $t->control('log') };

cmp_ok(scalar @calls, '>', 2, 'opencode_password: OpenCode was asked');
is_deeply([grep { ($_->{headers}{authorization} // '')
                  ne 'Basic b3BlbmNvZGU6c2VjcmV0' } @calls], [],
          'opencode_password: always with the password');
$t->finish();

done_testing();


# what the login service is told, and what is served

sub judged {
    my ($t, $headers) = @_;
    my %headers = (%$headers, 'X-Session' => 'ses_mine');
    my $log = "$t->{dir}/login.log";

    is($t->request('GET', '/sessions/ses_theirs/turn', headers => \%headers)
       ->status(), 403, "auth_request: another's session");

    for (['POST', '/sessions/ses_mine/interrupt', 200, 'ses_mine'],
         ['DELETE', '/sessions/ses_mine?ses_theirs', 200, 'ses_mine'],
         ['GET', '/sessions', 200, '-'],
         ['GET', '/sessions/ses_mine/../ses_theirs/turn', 400, '-'],
         ['GET', '/sessions/ses_mine/%2e%2e/ses_theirs/turn', 400, '-'],
         ['GET', '/sessions/%73es_theirs/turn', 400, '-'],
         ['GET', '/sessions//ses_theirs/turn', 400, '-'])
    {
        my ($method, $path, $status, $session) = @$_;

        truncate($log, 0);
        is($t->request($method, $path, headers => \%headers)->status(),
           $status, "auth_request: $path");
        is(slurp($log), "$method <$session>\n",
           "auth_request: $path is judged as $session");
    }
}
