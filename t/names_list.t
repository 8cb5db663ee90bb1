#!/usr/bin/perl

# The list of an owner's sessions is whole, and takes no memory in the worker,
# however many sessions there are and however slow the client is; a list that
# breaks off is not taken for a whole one.
#
# Broken by: a list that is collected before it is sent; a call that does not
# pause while the client does not read; a list that ends regularly although
# OpenCode's answer was cut; a session of somebody else; a list that goes on
# when its client has left.

use FindBin;
use lib "$FindBin::Bin/lib";

use AgentStream;
use Digest::SHA qw(sha256);

my $json = JSON::PP->new->utf8->canonical->allow_nonref;

my $t = AgentStream->new(timeout => 120,
    location => 'agentstream_owner $http_x_user;');
my ($worker) = $t->workers();
my @alice = (headers => { 'X-User' => 'alice' });

# 20,000 sessions of others, 4,000 of alice's among them; as texts, because
# JSON::PP takes seconds for so many

my (@sessions, @hers);

for my $n (1 .. 24000) {
    my $owner = $n % 6 ? 'bob' : 'alice';
    my $text = sprintf '{"id":"%s","title":"%s","directory":"/workspace",'
                       . '"summary":{"text":"%s"},"time":{"created":%d}}',
                       id_of($owner, $n), $owner, 'x' x 300, $n;

    push @sessions, $text;
    push @hers, $text if $owner eq 'alice';
}

my $all = text(@sessions);
my $hers = text(@hers);
my $size = int(length($all) / 1024);

list($all);

ok($t->request('GET', '/sessions', @alice, timeout => 30)->body() eq $hers,
   'all of hers, in order, whole');

my $before = anonymous();
my $most = $before;

# a client that reads slowly

my $c = $t->open('GET', '/sessions', @alice, rcvbuf => 65536);

for (1 .. 20) {
    sleep(0.05);
    highest();
}

ok(!$c->finished(), 'the list does not fit into the sockets');

until ($t->wait([$c], timeout => 0.02)) {
    highest();
}

ok($c->body() eq $hers, 'a client that reads slowly gets the same');
note("$size kB, $before kB before, at most $most kB");

SKIP: {
    skip 'a sanitized worker keeps what it frees', 1 if $ENV{AGENTSTREAM_ASAN};
    cmp_ok($most - $before, '<', 512, 'and no memory for it (kB)');
}

# ---- many at once

$before = anonymous();
my @clients = map { $t->open('GET', '/sessions', @alice) } 1 .. 8;
ok($t->wait(\@clients, timeout => 60), 'eight at once');
is(scalar(grep { $_->body() eq $hers } @clients), 8, 'get the same');
cmp_ok(anonymous() - $before, '<', 4096, 'and leave nothing (kB)')
    unless $ENV{AGENTSTREAM_ASAN};

# ---- a client that leaves

$c = $t->open('GET', '/sessions', @alice, rcvbuf => 65536);
sleep(0.3);
$c->close();
ok(wait_for(sub { $t->control('stats')->{open} <= 1 }, 10),
   'a client that leaves ends it')
    or diag($json->encode($t->control('stats')));

# ---- lists that break off

$all = text(@sessions[0 .. 1000]);

for (['no end', substr($all, 0, -1)],
     ['no JSON', substr($all, 0, -1) . ',x]'],
     ['a session of 1 MB', substr($all, 0, -1) . ',{"id":"'
                           . 'x' x 1100000 . '"}]'])
{
    my ($what, $body) = @$_;

    list($body);
    $c = $t->request('GET', '/sessions', @alice, timeout => 30);
    is($c->status(), 200, "$what: it has begun");
    is($c->ended(), 'cut', "$what: and has no end");
    isnt(substr($c->body(), -1), ']', "$what: nobody can take it");
}

# a reset may come before or after the first bytes were sent

list($all, cut => length($all) - 1000);
$c = $t->request('GET', '/sessions', @alice, timeout => 30);
ok($c->status() == 502 || $c->ended() eq 'cut', 'a connection that breaks');
isnt(substr($c->body(), -1), ']', 'a broken one: nobody can take it');

# what has not begun has a status

my $one = text($hers[0]);

list(substr($one, 0, -1));
is_error_packet($t->request('GET', '/sessions', @alice)->response(), 502,
                'a short list that breaks off');
list($one);
is($t->request('GET', '/sessions', @alice)->body(), $one, 'a short list');
list(text(@sessions[0 .. 4]));
is($t->request('GET', '/sessions', @alice)->body(), '[]', 'none of hers');

$t->done();


sub text {
    return '[' . join(',', @_) . ']';
}


# what OpenCode answers

sub list {
    my ($body, %rule) = @_;

    $rule{$_} = $json->encode($rule{$_}) for keys %rule;
    $body =~ s/"/\\"/g;

    my $rules = join ',', '"method":"GET","url":"^/session[?]","status":200',
                          (map { "\"$_\":$rule{$_}" } keys %rule),
                          "\"body\":\"$body\"";

    $t->request('POST', '/_test/config', port => $t->{port_opencode},
                body => "{\"rules\":[{$rules}]}");
}


sub highest {
    my $now = anonymous();

    $most = $now if $now > $most;
}


sub anonymous {
    return AgentStream::Process::slurp("/proc/$worker/status")
           =~ /^RssAnon:\s+(\d+)/m ? $1 : -1;
}


# an id that is an owner's: docs/protocol.md, "Names"

sub id_of {
    my ($owner, $n) = @_;

    my $digits = sprintf '%010d', $n;
    my $seal = sha256(join '', map { pack('Q>', length) . $_ }
                               $owner, $digits);

    return "ses_$digits" . digits($seal) . digits(substr($seal, 8));
}


sub digits {
    my $value = unpack 'Q>', $_[0];
    my @alphabet = ('0' .. '9', 'A' .. 'Z', 'a' .. 'z');
    my $text = '';

    for (1 .. 8) {
        $text .= $alphabet[$value % 62];
        $value = ($value - $value % 62) / 62;
    }

    return $text;
}
