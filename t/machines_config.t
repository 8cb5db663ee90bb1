#!/usr/bin/perl

# agentstream_store and agentstream_store_failure: what is refused when nginx
# starts, with the reason and without the password; with "local" turns begin
# although there is no Redis; a Redis that wants another password counts as
# away; TLS, users and databases work.  The rights that docs/machines.md names
# are enough.
#
# Broken by: an address that is accepted and cannot be used; a command that a
# user with the documented rights may not use; a password in a
# log; a store that is asked for before it is connected; a certificate that is
# not looked at.

use FindBin;
use lib "$FindBin::Bin/lib";

use AgentStream;
use AgentStream::Attach;
use AgentStream::Machines;
use AgentStream::Process qw(free_ports slurp);

refused();
local_turns();
password();
rights();
tls();

done_testing();


sub refused {
    my $t = AgentStream->new(opencode => 'none', nginx => 0);

    for (['sentinel://127.0.0.1', qr/has no name of a master/],
         ['sentinel://main@127.0.0.1 sentinel_auth=sesame',
          qr/"sentinel_auth" has a user without a password/],
         ['redis://127.0.0.1 sentinel_auth=:sesame',
          qr/"sentinel_auth" needs an address with "sentinel:/],
         ['redis://127.0.0.1,127.0.0.2', qr/has more than one host/],
         ['redis://nowhere.invalid', qr/host not found/],
         ['http://127.0.0.1', qr/must begin with "redis:/],
         ['redis://:sesame@', qr/has no host/],
         ['redis://:sesame@h:x', qr/has an invalid port/],
         ['redis://me@h', qr/has a user without a password/],
         ['redis://h/x', qr/has a database that is not a number/],
         ['rediss://127.0.0.1', qr/needs "ssl_trusted_certificate="/],
         ['redis://127.0.0.1 verify=no', qr/invalid parameter "verify=no"/],
         ['redis://127.0.0.1; agentstream_store redis://127.0.0.1',
          qr/is duplicate/])
    {
        my ($address, $reason) = @$_;

        $t->{http} = "agentstream_store $address;";
        my ($out, $good) = $t->test_conf();
        ok(!$good, "$address is refused");
        like($out, $reason, "$address: and told why");
        unlike($out, qr/sesame/, "$address: without the password");
    }

    $t->{http} = 'agentstream_store redis://127.0.0.1;
                  agentstream_store_failure wait;';
    my ($out, $good) = $t->test_conf();
    ok(!$good, 'an unknown agentstream_store_failure is refused');
}


sub local_turns {
    my ($port) = free_ports(1);
    my $t = AgentStream->new(http => "
        agentstream_store redis://127.0.0.1:$port;
        agentstream_store_failure local;");

    check_turn($t->turn($t->session(), 'text:3:24:5'), 'local');
    is($t->status()->{store}{connected}, 0, 'local: not connected');
    $t->finish();
}


sub password {
    my $m = AgentStream::Machines->new(1, redis => { requirepass => 'sesame' },
                                       password => 'wrong', wait => 0);
    my ($x) = $m->machines();

    ok(wait_for(sub { $x->log_text() =~ /is lost: (WRONGPASS|NOAUTH)/ }),
       'a wrong password: told');
    is($x->turn($x->session(), 'text:1:24:0')->status(), 503,
       'a wrong password: a prompt is refused');
    unlike($x->log_text(), qr/sesame|:wrong/, 'no password in the log');
    $m->finish();

    $m = AgentStream::Machines->new(2, redis => { requirepass => 'sesame' },
                                    password => 'sesame', db => 3);
    my ($a, $b) = $m->machines();
    my $s = $a->session();
    my $c = $a->turn($s, 'text:3:24:5');
    check_turn($c, 'the right password');
    is(join_raw($b->request(events_of($s))), join_raw($c),
       'the right password: elsewhere');
    is($a->status()->{store}{connected}, 1, 'the right password: connected');
    $m->finish();
}


# Redis itself says what it has refused

sub rights {
    my ($line) = slurp("$FindBin::Bin/../docs/machines.md")
                 =~ /^  ACL SETUSER agentstream (.*?)^  ```$/ms
        or die "no rights in docs/machines.md\n";

    my $m = AgentStream::Machines->new(2, location => 'agentstream_busy queue;',
        store => sub {
            my ($m) = @_;

            like($m->redis('ACL', 'SETUSER', 'agentstream', split ' ', $line),
                 qr/^OK/, 'rights: as documented');
            return "redis://agentstream:password\@127.0.0.1:$m->{port}/0";
        });
    my ($a, $b) = $m->machines();
    my $s = $a->session();

    my $c = $a->send_message($s, 'text:20:24:50', client_request_id => 'one');
    hear($a, $c, 4);
    my $d = $b->open(events_of($s));
    my $e = $b->send_message($s, 'text:2:24:0', client_request_id => 'two');

    ok($a->wait([$c]) && $b->wait([$d, $e]), 'rights: turns end');
    is(join_raw($d), join_raw($c), 'rights: a reader elsewhere');
    check_turn($e, 'rights: a turn that waited in the queue');

    my $f = $a->send_message($s, 'text:60:24:50');
    hear($a, $f, 4);
    is($b->request('POST', "/sessions/$s/interrupt", body => {})->status(), 200,
       'rights: an interrupt from elsewhere');
    ok($a->wait([$f]), 'rights: it ends');

    is($m->redis('ACL', 'LOG'), "\n", 'rights: nothing was refused');
    $m->finish();
}


# a server whose certificate has another name is not used

sub tls {
    my ($port) = free_ports(1);
    my $first = AgentStream->new(nginx => 0);
    my $dir = $first->{dir};

    system("openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=test "
           . "-addext subjectAltName=DNS:localhost -keyout $dir/key.pem "
           . "-out $dir/cert.pem >/dev/null 2>&1") == 0
        or die "openssl req failed\n";

    my $redis = AgentStream::Process->start(command => ['redis-server',
        '--port', 0, '--tls-port', $port, '--bind', '127.0.0.1',
        '--tls-cert-file', "$dir/cert.pem", '--tls-key-file', "$dir/key.pem",
        '--tls-auth-clients', 'no', '--save', '', '--dir', $dir],
        out => "$dir/redis.log");

    for (['localhost', "ssl_trusted_certificate=$dir/cert.pem", 1],
         ['127.0.0.1', "ssl_trusted_certificate=$dir/cert.pem", 0],
         ['127.0.0.1', 'ssl_verify=off', 1])
    {
        my ($host, $option, $good) = @$_;
        my $t = AgentStream->new(nginx => 0,
                                 opencode => $first->{port_opencode});

        $t->{http} = "agentstream_store rediss://$host:$port $option;";
        $t->{fake} = $first->{fake};
        $t->start_nginx();

        # the other one has been tried when it is told
        my $told = qr/its certificate is not accepted/;

        wait_for(sub { $good ? $t->status()->{store}{connected}
                             : $t->log_text() =~ $told });
        is($t->status()->{store}{connected}, $good, "TLS, $host, $option");

        if ($good) {
            check_turn($t->turn($first->session(), 'text:2:24:5'),
                       "TLS, $host");

        } else {
            like($t->log_text(), $told, "TLS, $host: told why");
        }

        delete $t->{fake};
        $t->{active} = $t->active();
        $t->check_exit();
        $t->check_log();
    }

    $redis->stop('TERM', 5);
    $first->{fake}->stop('TERM', 5);
}
