#!/usr/bin/perl

# The example of docs/access.md for several users: one OpenCode, one location,
# a password and a directory each.
#
# Broken by: an owner that is not the user who has logged in; a directory that
# is not the owner's; a session of one user that the other one can use.

use FindBin;
use lib "$FindBin::Bin/lib";

use AgentStream;
use AgentStream::Docs qw(example);
use MIME::Base64 qw(encode_base64);

my $json = JSON::PP->new->utf8->canonical->allow_nonref;
my $t = AgentStream->new(conf => example('access.md', 'owners'), nginx => 0);

CORE::open my $fh, '>', "$t->{dir}/agentstream.htpasswd" or die;
print $fh "alice:{PLAIN}one\nbob:{PLAIN}two\n";
close $fh;

$t->start_nginx();
$t->control('config', { strict => JSON::PP::true });

my @alice = user('alice', 'one');
my @bob = user('bob', 'two');

is($t->request('GET', '/sessions')->status(), 401, 'nobody without a password');

my $c = $t->request('POST', '/sessions/@task/send-message', @alice,
                    body => { content => 'text:3:5:1' });
check_turn($c, 'alice');

my $id = packet_json(($c->packets())[0])->{sessionId};

is((grep { $_->{url} eq '/api/session' } @{ $t->control('log') })[0]
     {json}{location}{directory}, '/work/alice', 'in her directory');
is($t->request('GET', "/sessions/$id", @alice)->status(), 200, 'she finds it');
is($t->request('GET', "/sessions/$id", @bob)->status(), 404, 'bob does not');
is($t->request('GET', '/sessions/@task', @bob)->status(), 404,
   'nor by its name');
is(scalar @{ $json->decode($t->request('GET', '/sessions', @alice)->body()) },
   1, 'she sees one session');
is($t->request('GET', '/sessions', @bob)->body(), '[]', 'he sees none');

$t->done();


sub user {
    my ($name, $password) = @_;

    return (headers => { Authorization => 'Basic '
                         . encode_base64("$name:$password", '') });
}
