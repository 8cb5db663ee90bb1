#!/usr/bin/perl

# One turn per session over all workers: two senders at the same instant are
# one 200 and one 409 that names the running turn, and OpenCode gets one prompt.
# With "attach" both see the one turn.  Other sessions go on beside it.
#
# Broken by: a check and an insert under two locks, a session known to one
# worker only, a session left busy by a turn that failed or whose client left, a
# refusal that is taken for a sender that waits.

use FindBin;
use lib "$FindBin::Bin/lib";

use AgentStream;
use AgentStream::Attach;

my $t = AgentStream->new(attach(timeout => 90, server => '
        location /attached {
            agentstream /opencode/;
            agentstream_busy attach;
        }
        location /limited {
            agentstream /opencode/;
            limit_rate 150;
        }'));
my @workers = $t->workers();


# 50 times two at once, one on each worker

my @pairs;

for my $n (1 .. 50) {
    my $s = $t->session();
    my @c = map { on_worker($t, $_, 'GET', '/_pid', keepalive => 1) }
            $n % 2 ? @workers : reverse @workers;

    $t->wait(\@c);
    $_->{responses} = [] for @c;

    my @request = map { $t->http_request(send_to($s, "text:$_:24:40")) } 3, 5;
    $_->send(shift @request) for @c;
    push @pairs, { session => $s, clients => \@c };
}

$t->wait([map { @{ $_->{clients} } } @pairs]);

my ($won, $lost, $named, $once) = (0) x 4;

for my $pair (@pairs) {
    my ($winner, $loser) = sort { $a->status() <=> $b->status() }
                           @{ $pair->{clients} };

    $won++ if $winner->status() == 200
              && check_turn($winner, 'winner', quiet => 1);
    $lost++ if $loser->status() == 409;
    $once++ if prompts($t, $pair->{session}) == 1;

    my ($error) = map { packet_json($_) } $loser->packets();
    $named++ if ($error->{details}{turnId} // '') eq turn_id($winner)
                && $error->{code} == 409 && $error->{type} eq 'error';
}

is($won, 50, 'one has its turn');
is($lost, 50, 'one is refused with 409');
is($named, 50, 'and told which turn runs');
is($once, 50, 'OpenCode got one prompt each');

# ten at once, any worker

my $s = $t->session();
my @c = map { $t->send_message($s, 'text:5:24:40') } 1 .. 10;
$t->wait(\@c);
is(join(' ', sort map { $_->status() } @c), join(' ', 200, (409) x 9),
   'ten at once: one 200');
is_error_packet((grep { $_->status() == 409 } @c)[0]->response(), 409,
                'an error packet');
is(prompts($t, $s), 1, 'one prompt');

# while it runs without its client, and right after its end

$s = $t->session();
my $first = $t->send_message($s, 'text:10:24:50');
hear($t, $first, 2);
$first->close();
is($t->turn($s, 'text:3:24:0')->status(), 409, 'its client left: still 409');
is(prompts($t, $t->session()), 0, 'nothing was sent');
ok($t->wait([my $tail = events($t, $s, ($first->packets())[-1]{id})]),
   'it ends');
my @next = map { my $c = on_worker($t, $_, send_to($s, 'text:3:24:0'));
                 $t->wait([$c]); $c } @workers;
is(join(' ', map { $_->status() } @next), '200 200',
   'then the session is free');

# a turn that failed, in each of its phases, leaves the session free

for my $rule ({ url => '/prompt_async', status => 400, body => '{}' },
              { url => '/prompt_async', drop => 1 },
              { url => '/session/ses_\w+$', status => 500, body => '{}' },
              { url => '/session/ses_\w+$', status => 404, body => '{}' })
{
    $s = $t->session();
    $t->control('config', { rules => [{ %$rule, times => 1 }] });
    my $status = $t->turn($s, 'text:3:24:0', timeout => 40)->status();
    cmp_ok($status, '>=', 400, "fails with $status");
    is($t->turn($s, 'text:3:24:0')->status(), 200, 'and the session is free');
}

$t->control('config', { rules => [] });

# a refusal that cannot be sent at once is sent as soon as it can be

$s = $t->session();
$first = $t->send_message($s, 'text:100:24:50');
hear($t, $first, 2);
my $slow = $t->open('POST', "/limited/$s/send-message",
                    body => { content => 'say:no' });
ok($t->wait([$slow], timeout => 10), 'a slow refusal ends');
is_error_packet($slow->response(), 409, 'a slow refusal');
$first->close();
$t->request('POST', "/sessions/$s/interrupt");

# attach: the sender gets the running turn, from its beginning

$s = $t->session();
my @attach = ('POST', "/attached/$s/send-message");
my $one = on_worker($t, $workers[0], @attach,
                    body => { content => 'text:10:24:50' });
hear($t, $one, 3);
my @more = map { on_worker($t, $_, @attach, body => { content => 'say:no' }) }
           @workers;
$t->wait([$one, @more]);
is(join_raw($_), join_raw($one), 'attach: the same packets') for @more;
is(prompts($t, $s), 1, 'attach: one prompt');

# /attached and /sessions lead to the same OpenCode: the same session

$s = $t->session();
$one = $t->send_message($s, 'text:10:24:30');
hear($t, $one, 1);
@more = ($t->open('POST', "/attached/$s/send-message",
                  body => { content => 'say:no' }));
$t->wait([$one, @more]);
is(join_raw(@more), join_raw($one), 'two locations, one session');

# all at once: 5 senders each into 20 sessions with attach

my @sessions = map { $t->session() } 1 .. 20;
my @all = map { my $s = $_;
    map { $t->open('POST', "/attached/$s/send-message",
                   body => { content => 'text:5:24:20' }) } 1 .. 5 } @sessions;
$t->wait(\@all, timeout => 20);
is(scalar(grep { check_turn($_, 'attached', quiet => 1) } @all), 100,
   'attach: a hundred senders, all have a whole turn');
is(scalar(grep { prompts($t, $_) != 1 } @sessions), 0,
   'attach: one prompt in each of twenty sessions');

$t->done();
