#!/usr/bin/perl

# Places for calls: a server that does not answer does not make the clients of
# other servers wait; look-ups do not make clients wait; a call that nobody
# waits for any more gives up its place; the servers share a worker's
# connections.
#
# Broken by: one bound for all servers; look-ups that are counted with the
# others, or that one turn may have without end; a relay that keeps its place,
# or waits for one, after its client has left; a server that may take all that
# the worker has; places that are not given back.

use FindBin;
use lib "$FindBin::Bin/lib";

use AgentStream;
use AgentStream::Attach;
use AgentStream::Process qw(free_ports);
use AgentStream::Silent;

my $silent = AgentStream::Silent->new();
my @other = map { AgentStream::Silent->new() } 1 .. 3;
my ($port, $shared) = free_ports(2);
my $hang = $silent->port();

my $t = AgentStream->new(timeout => 120, http => "
    server {
        listen 127.0.0.1:$port;

        location /sessions { agentstream /opencode/; }
        location /opencode/ {
            internal;
            proxy_pass http://127.0.0.1:$hang/;
        }
    }

    server {
        listen 127.0.0.1:$shared;

        location /sessions {
            agentstream /opencode/;
            agentstream_route \$arg_server;
        }

        location /opencode/ {
            internal;
            rewrite ^/opencode/(.*) /\$1 break;
            proxy_pass http://127.0.0.1:\$agentstream_route;
        }
    }");

my $s = $t->session();

check_turn($t->turn($s, 'text:3:16:0'), 'before all');


# ---- 300 new sessions of a server that hangs, and their clients leave

my @gone = map { $t->open('POST', '/sessions', port => $port, body => {}) }
           1 .. 300;

ok(wait_for(sub { $silent->open_count() >= 40 }, 5), 'some are on their way');
cmp_ok($silent->open_count(), '<=', 64, '... 64 at most');
$_->close() for @gone;

my ($code, $time) = timed(sub { $t->request('GET', "/sessions/$s",
                                            timeout => 40) });
is($code, 200, 'another server answers');
cmp_ok($time, '<', scaled(2), "... at once ($time s)");

my $waits = $t->open('POST', '/sessions', port => $port,
                     body => { title => 'waits' });
ok(wait_for(sub { grep { /"waits"/ } $silent->heard() }, 3),
   'one that is waited for takes a place there');

# ---- clients that leave while theirs wait

my @held = map { $t->open('POST', '/sessions', port => $port,
                          body => { title => 'held' }) } 1 .. 70;
ok(wait_for(sub { 64 == grep { /"(held|waits)"/ } $silent->heard() }, 3),
   'all places are taken by those who are waited for');

my @late = map { $t->open('POST', '/sessions', port => $port,
                          body => { title => 'late' }) } 1 .. 20;
$t->request('GET', "/sessions/$s");
$_->close() for @late;
$t->request('GET', "/sessions/$s");

$_->close() for @held;
my $last = $t->open('POST', '/sessions', port => $port,
                    body => { title => 'last' });
ok(wait_for(sub { grep { /"last"/ } $silent->heard() }, 3),
   'the next one takes a place');
is(scalar(grep { /"late"/ } $silent->heard()), 0,
   'what had not left when its client did never does');


# ---- look-ups that hang

$t->control('config', { rules => [ { url => '^/session/status', hang => 1 } ] });

my $asked = sub { scalar grep { m!^GET /session/status! } $t->upstream() };
my $before = $asked->();
my @watch = map { events($t, $t->session()) } 1 .. 100;

ok(wait_for(sub { $asked->() - $before >= 32 }, 5), 'look-ups are on their way');

($code, $time) = timed(sub { $t->request('POST', '/sessions', body => {},
                                         timeout => 40) });
is($code, 200, 'a client has its answer');
cmp_ok($time, '<', scaled(2), "... at once ($time s)");
is($asked->() - $before, 32, 'no more look-ups than they have places');

$_->close() for @watch;
$t->control('config', { rules => [] });
ok(wait_for(sub { status('requests_active') <= 65 }, 5), 'their places are given back');


# ---- one turn that hears of many messages it does not know

$t->control('config', { rules => [ { url => '/message/', hang => 1 } ] });

my $turn = $t->session();
my $c = $t->send_message($turn, 'text:60:16:50');
hear($t, $c, 2);

$before = status('requests');
$t->control('emit', { raw => join '', map { sprintf
    'data: {"id":"evt_%d","type":"message.part.delta","properties":{'
    . '"sessionID":"%s","messageID":"msg_%012dAAAAAAAAAAAAAA",'
    . '"partID":"prt_%012dAAAAAAAAAAAAAA","field":"text","delta":"x"}}' . "\n\n",
    $_, $turn, $_, $_ } 1 .. 500 });

ok(wait_for(sub { status('requests') - $before >= 8 }, 5),
   'unknown messages are looked up');
check_turn($t->turn($t->session(), 'text:3:16:0'), 'meanwhile');
cmp_ok(status('requests') - $before, '<=', 16, '... 8 at a time');

$t->request('POST', "/sessions/$turn/interrupt");
ok($t->wait([$c], timeout => 5), '... and the turn ends without them');
$t->control('config', { rules => [] });


# ---- several silent servers, and clients that wait for them

my @wait = map { my $p = $_->port();
                 map { $t->open('POST', "/sessions?server=$p", port => $shared,
                                body => {}) } 1 .. 100 } @other;

for my $other (@other) {
    ok(wait_for(sub { $other->open_count() >= 64 }, 5), 'each has its places');
}

($code, $time) = timed(sub {
    $t->request('GET', "/sessions/$s?server=$t->{port_opencode}",
                port => $shared, timeout => 40)
});
is($code, 200, 'a fourth answers');
cmp_ok($time, '<', scaled(2), "... at once ($time s)");

$_->close() for @wait, $waits, $last;
$_->close() for $silent, @other;
$t->finish();


# ---- the same where connections are few: 96 calls for all, of which a silent
# ---- server has half, a second one half of the rest

@other = map { AgentStream::Silent->new() } 1 .. 3;

my $conf = $AgentStream::Nginx::TEMPLATE;
$conf =~ s/worker_connections 4096/worker_connections 384/;
$conf =~ s/proxy_pass .*/rewrite ^\/opencode\/(.*) \/\$1 break;
            proxy_pass http:\/\/127.0.0.1:\$agentstream_route;/;

$t = AgentStream->new(timeout => 60, conf => $conf,
                      location => 'agentstream_route $arg_server;');

@wait = ();

for my $n (0 .. 2) {
    my $p = $other[$n]->port();

    push @wait, map { $t->open('POST', "/sessions?server=$p", body => {}) }
                1 .. 45;
    ok(wait_for(sub { $other[$n]->open_count() >= 12 }, 5),
       'few connections: server ' . ($n + 1) . ' has some');

    ($code, $time) = timed(sub {
        $t->request('GET', "/sessions/$s?server=$t->{port_opencode}",
                    timeout => 40)
    });
    is($code, 200, 'few connections: another answers');
    cmp_ok($time, '<', scaled(2), "... at once ($time s)");
}

my $all = 0;
$all += $_->open_count() for @other;
cmp_ok($all, '<', 96, "$all of 96 places are taken");

$_->close() for @wait, @other;

unlike($t->log_text(), qr/worker_connections are not enough/,
       'there are connections left');

# ---- many silent servers whose clients have left: their calls make way

@other = map { AgentStream::Silent->new() } 1 .. 8;

for my $n (0 .. 7) {
    my $p = $other[$n]->port();
    my @left = map { $t->open('POST', "/sessions?server=$p", body => {}) }
               1 .. (60, 40, (20) x 6)[$n];

    wait_for(sub { $other[$n]->open_count() >= 48 }, 0.3);
    $_->close() for @left;

    ($code, $time) = timed(sub {
        $t->request('GET', "/sessions/$s?server=$t->{port_opencode}",
                    timeout => 40)
    });
    cmp_ok($time, '<', scaled(2), 'nobody waits for the calls to '
                                  . ($n + 1) . " silent servers: $time s");
}

$_->close() for @other;

$t->done();


sub timed {
    my ($request) = @_;
    my $begin = time();
    my $client = $request->();

    return ($client->status() // 'none', sprintf '%.3f', time() - $begin);
}


sub status {
    my ($name) = @_;
    my $c = $t->request('GET', '/_agentstream');

    return JSON::PP::decode_json($c->body())->{opencode}{$name};
}
