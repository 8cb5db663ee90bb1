#!/usr/bin/perl

# The examples of docs/access.md for limits: prompts are counted and nothing
# else; streams are counted while they are open, and nothing else; and the
# module's own calls are never counted.
#
# Broken by: calls that run through the limits of the client's location; a
# request that is counted for as long as its turn; a limit that keeps clients
# from interrupting a turn.

use FindBin;
use lib "$FindBin::Bin/lib";

use AgentStream;
use AgentStream::Docs qw(example);

my $t = AgentStream->new(conf => example('access.md', 'limit_req'));
my @status = map { $t->turn($t->session(), 'text:3:8:0')->status() } 1 .. 5;

is("@status", '200 200 200 429 429', 'limit_req: prompts');
is(scalar(grep { $t->request('POST', '/sessions')->status() == 200 } 1 .. 10),
   10, 'limit_req: nothing else');
is(scalar(grep { /prompt_async/ } $t->upstream()), 3,
   'limit_req: OpenCode hears of three');
$t->finish();

$t = AgentStream->new(conf => example('access.md', 'limit_conn'));

my @open = map { $t->send_message($t->session(), 'text:2000:8:10') } 1 .. 2;
$t->wait(\@open, until => sub { $_[0]->packets() > 2 });

is($t->turn($t->session(), 'text:3:8:0')->status(), 429,
   'limit_conn: a third stream');
is($t->request('GET', '/sessions/' . session(1) . '/events')->status(), 429,
   'limit_conn: a third one to watch');
is($t->request('GET', '/sessions/' . session(1) . '/turn')->status(), 200,
   'limit_conn: but it may be asked how a turn stands');
is($t->request('POST', '/sessions/' . session(2) . '/interrupt')->status(), 200,
   'limit_conn: and a turn may be interrupted');

$open[0]->close();
ok(wait_for(sub { $t->turn($t->session(), 'text:3:8:0')->status() == 200 }, 5),
   'limit_conn: one that left is not counted');

$_->close() for @open;
$t->request('POST', '/sessions/' . session($_) . '/interrupt') for 1 .. 2;
$t->finish();

done_testing();


# the name of the test's session of that number

sub session {
    return sprintf 'ses_%012xTest%010d', $$, $_[0];
}
