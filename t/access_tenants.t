#!/usr/bin/perl

# The example of docs/access.md for tenants: two OpenCode servers behind one
# location; the sessions of one tenant do not exist for the other.
#
# Broken by: a turn, a hub or a waiting question that is named without the
# route; a call that takes another route than its turn.

use FindBin;
use lib "$FindBin::Bin/lib";

use AgentStream;
use AgentStream::Docs qw(example);

my $json = JSON::PP->new->utf8->canonical->allow_nonref;

my %tenant = (alice => 'Basic YWxpY2U6c2VjcmV0', bob => 'Basic Ym9iOnNlY3JldA==',
              carol => 'Basic Y2Fyb2w6c2VjcmV0');

my $t = AgentStream->new(conf => example('access.md', 'tenants'), nginx => 0,
                         workers => 2);

CORE::open my $fh, '>', "$t->{dir}/agentstream.htpasswd" or die;
print $fh "$_:\$apr1\$abc\$PZF73YJz5hJ9yyI.7OP.R.\n" for keys %tenant;
close $fh;

$t->{port_second} = $t->start_server('fake2', qr/^listening (\d+)$/m, 'node',
                                     "$FindBin::Bin/lib/opencode.mjs");
$t->start_nginx();

like($t->{conf}, qr{agentstream_route \$tenant;.*\$agentstream_route}s,
     'the server is chosen by the route');

is(as('carol', 'GET', '/sessions')->status(), 401, 'no server, no service');
is($t->request('GET', '/sessions')->status(), 401, 'nor without a name');

my $made = $json->decode(as('alice', 'POST', '/sessions')->body());
is($made->{directory}, '/work/alice', 'a directory of her own');
is(scalar(grep { /POST/ } upstream('bob')), 0, 'not on his server');

my @hers = @{ $json->decode(as('alice', 'GET', '/sessions')->body()) };
my @his = @{ $json->decode(as('bob', 'GET', '/sessions')->body()) };
is(scalar(grep { $_->{id} eq $made->{id} } @hers), 1, 'she sees her session');
is(scalar(grep { $_->{id} eq $made->{id} } @his), 0, 'he does not');

# the same id with both of them: two turns that know nothing of each other

my $s = $t->session();
my %client = map { $_ => $t->send_message($s, 'text:2000:8:10',
                       headers => { Authorization => $tenant{$_} }) }
             qw(alice bob);

$t->wait([values %client], until => sub { $_[0]->packets() > 3 });
is(join(' ', map { $_->status() } values %client), '200 200',
   'one session id, two turns');

$t->control('emit', { event => { type => 'question.asked', properties => {
    sessionID => $s, id => 'que_hers', questions => [] } } });
$t->wait([$client{alice}], until => sub {
    grep { $_ eq 'question_asked' } types($_[0]->packets()) });

is(as('bob', 'POST', "/sessions/$s/questions/que_hers/reject")->status(), 404,
   'he cannot answer for her');
is(scalar(grep { /question/ } upstream('alice'), upstream('bob')), 0,
   'nor does anybody hear of it');
is(as('alice', 'POST', "/sessions/$s/questions/que_hers/reject")->status(),
   200, 'she can');

is(as('bob', 'POST', "/sessions/$s/interrupt")->body(),
   '{"interrupted":true}', 'he interrupts');
$t->wait([$client{bob}]);
check_turn($client{bob}, 'his');
my $n = $client{alice}->packets();
$t->wait([$client{alice}], timeout => 0.3);
cmp_ok(scalar($client{alice}->packets()), '>', $n, 'hers goes on');
is(as('bob', 'POST', "/sessions/$s/interrupt")->body(),
   '{"interrupted":false}', 'which he cannot interrupt');
is(scalar(grep { /abort/ } upstream('alice')), 0, 'her server hears nothing');

as('alice', 'POST', "/sessions/$s/interrupt");
$t->wait([$client{alice}]);
check_turn($client{alice}, 'hers');

my @mixed = grep { !m{/event|/work/alice|/session} } upstream('alice');
is("@mixed", "POST /question/que_hers/reject?directory=%2Fworkspace%2Fdemo",
   'all of hers on her server');

$t->finish();
$t->{fake2}->stop('TERM', 10);
done_testing();


sub as {
    my ($who, $method, $path) = @_;

    return $t->request($method, $path,
                       headers => { Authorization => $tenant{$who} });
}


sub upstream {
    my ($who) = @_;
    local $t->{port_opencode} = $who eq 'bob' ? $t->{port_second}
                                              : $t->{port_opencode};

    return $t->upstream();
}
