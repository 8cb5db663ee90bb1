#!/usr/bin/perl

# Three machines with one Redis are one service: one turn at a time in a
# session, one turn for a client_request_id, the same bytes for readers on all
# of them, queues, questions, interrupts and streams that stay open.
#
# Broken by: a turn that begins without asking Redis; a copy that misses or
# doubles a packet, or never ends; a repeated prompt that is answered before
# its turn is copied; a turn of which Redis has not said yet whether it begins
# that is read, or is in the way; a sender in the queue that wakes itself when
# Redis refuses its turn (turn_created()); an interrupt or a queue that only one
# machine knows.

use FindBin;
use lib "$FindBin::Bin/lib";

use AgentStream;
use AgentStream::Attach;
use AgentStream::Machines;
use Time::HiRes qw(sleep);

my $m = AgentStream::Machines->new(3, tunnels => 1, server => '
        location /queue {
            agentstream /opencode/;
            agentstream_busy queue;
        }
        location /attach {
            agentstream /opencode/;
            agentstream_busy attach;
        }
        location /abort {
            agentstream /opencode/;
            agentstream_on_disconnect abort;
        }');
my ($x, $y, $z) = $m->machines();
my @all = ($x, $y, $z);

at_once();
same_request();
undecided();
watchers();
follow();
queue();
woken();
attach_elsewhere();
interrupt();
question();
abort();

$m->done();


sub at_once {
    for my $try (1 .. 5) {
        my $s = $x->session();
        
        # the first is to run when the last one comes
        my @c = map { $_->send_message($s, 'text:20:24:50') } @all;

        ok($x->wait(\@c), 'at once: all are answered');
        is(join(' ', sort map { $_->status() } @c), '200 409 409',
           'at once: one begins');
        is(prompts($x, $s), 1, 'at once: one prompt');

        # the next begins at once on any machine
        my $c = $all[$try % 3]->turn($s, 'text:2:24:0');
        is($c->status(), 200, 'at once: the next one begins');
    }
}


sub same_request {
    my $s = $x->session();
    my @c = map { $_->send_message($s, { content => 'text:20:24:20',
                                         client_request_id => 'one' }) } @all;

    ok($x->wait(\@c), 'same request: all end');
    check_turn($_, 'same request') for @c;
    is(join_raw($_), join_raw($c[0]), 'same request: the same bytes') for @c;
    is(prompts($x, $s), 1, 'same request: one prompt');

    # after it has ended, too
    my $c = $y->turn($s, { content => 'x', client_request_id => 'one' });
    is(join_raw($c), join_raw($c[0]), 'same request, later: the same bytes');
    is(prompts($x, $s), 1, 'same request, later: one prompt');
}


# 20 readers on all machines, each cut several times and back elsewhere

# Redis is silent while two prompts reach the second machine; the first machine
# has begun the turn

sub undecided {
    for my $how ([ 'sessions', 200 ], [ 'attach', 200 ], [ 'reject', 409 ]) {
        my ($name, $status) = @$how;
        my $location = $name eq 'attach' ? '/attach' : '/sessions';
        my $id = $name eq 'sessions' ? 'two' : undef;
        my $s = $x->session();

        my $c = $x->send_message($s, { content => 'text:60:24:50',
                                       client_request_id => 'two' });
        hear($x, $c, 2);

        $m->tunnel('hold', 'redis2');
        my @c = map { $y->send_message($s,
                          { content => 'text:2:24:0',
                            $id ? (client_request_id => $id) : () },
                          path => "$location/$s/send-message") } 1 .. 4;
        sleep(0.3);
        $m->tunnel('up', 'redis2');

        ok($y->wait(\@c), "undecided, $name: all are answered");
        is(join(' ', map { $_->status() } @c), join(' ', ($status) x 4),
           "undecided, $name: as if Redis had answered at once");
        ok($x->wait([$c]), "undecided, $name: the turn ends");

        if ($status == 200) {
            is(join_raw($_), join_raw($c),
               "undecided, $name: the bytes of the turn") for @c;
        }

        is(prompts($x, $s), 1, "undecided, $name: one prompt");
    }
}


sub watchers {
    my $s = $x->session();
    my $sender = $x->send_message($s, 'text:80:24:25');
    hear($x, $sender, 2);

    my @w = map { { n => $_, c => [$all[$_ % 3]->open(events_of($s))] } }
            1 .. 20;

    for my $cut (1 .. 4) {
        for my $w (@w) {
            my $c = $w->{c}[-1];
            next if $c->ended();
            my $n = 5 + $w->{n} % 7;
            my $id = cut_after($x, $c, $n);
            my $next = $all[($w->{n} + $cut) % 3];
            push @{ $w->{c} }, $next->open(events_of($s, $id));
        }
    }

    ok($x->wait([$sender, map { $_->{c}[-1] } @w], timeout => 20),
       'watchers: all end');
    check_turn($sender, 'watchers: the sender');

    is(scalar(grep { join_raw(@{ $_->{c} }) ne join_raw($sender) } @w), 0,
       'watchers: all have the same bytes');
    $m->check_all('watchers', [$sender], map { $_->{c} } @w);
}


# a stream that stays open gets the turns of all machines

sub follow {
    my $s = $x->session();
    my $f = $y->open(events_of($s, undef, query => 'follow=1'));
    my @want;

    $y->wait([$f], until => sub { $_[0]->status() });

    for my $t ($x, $z, $y) {
        my $c = $t->turn($s, 'text:3:24:10');
        push @want, $c->packets();
        $y->wait([$f], timeout => 5,
                 until => sub { $_[0]->packets() >= @want });
    }

    is(join_raw($f), join("\n", map { $_->{raw} } @want),
       'follow: the turns of all machines');
    $f->close();
}


sub queue {
    my $s = $x->session();
    my @c;

    # the next one comes when Redis knows that the one before waits; the first
    # turn lasts until all of them do

    for my $i (1 .. 6) {
        push @c, $all[$i % 3]->send_message($s, ($i == 1 ? 'text:30:24:100'
                                                         : 'text:2:24:50')
            . " n=$i", path => "/queue/$s/send-message");
        ok(wait_for(sub { prompts($x, $s) + waiting($s) >= $i }),
           "queue: $i has come");
    }

    ok($x->wait(\@c, timeout => 20), 'queue: all end');
    check_turn($_, 'queue') for @c;
    is(join(' ', prompt_numbers($x, $s)), '1 2 3 4 5 6',
       'queue: in the order of arrival');
}


# how many wait for this session, as Redis has it

sub waiting {
    my ($s) = @_;
    my ($key) = grep { /\Q$s\E/ } split /\n/, $m->redis('KEYS', 'as1:*:q')
        or return 0;

    return $m->redis('LLEN', $key) + 0;
}


# a sender in the queue is woken, while another machine has the turn

sub woken {
    my $s = $x->session();
    my $c = $x->send_message($s, 'text:80:24:100');
    hear($x, $c, 3);

    my @to = (path => "/queue/$s/send-message");
    my $d = $y->send_message($s, 'text:2:24:0', @to);
    ok(wait_for(sub { waiting($s) == 1 }), 'woken: one waits');
    my $e = $y->send_message($s, 'text:2:24:0', @to);
    ok(wait_for(sub { waiting($s) == 2 }), 'woken: two wait');
    $e->close();
    ok(wait_for(sub { waiting($s) == 1 }), 'woken: one has left');

    my $before = $m->scripts();
    sleep(1);
    cmp_ok($m->scripts() - $before, '<', 100,
           'woken: Redis is not asked all the time');
    ok($x->wait([$c, $d], timeout => 30), 'woken: all end');
}


sub attach_elsewhere {
    my $s = $x->session();
    my $c = $x->send_message($s, 'text:20:24:30');
    hear($x, $c, 2);
    my $d = $y->send_message($s, 'text:1:1:1', path => "/attach/$s/send-message");

    ok($x->wait([$c, $d]), 'attach: both end');
    is(join_raw($d), join_raw($c), 'attach: the turn of the other machine');
    is(prompts($x, $s), 1, 'attach: one prompt');
}


sub interrupt {
    my $s = $x->session();
    my $c = $x->send_message($s, 'text:200:24:50');
    hear($x, $c, 4);
    my $r = $z->request('POST', "/sessions/$s/interrupt");
    like($r->body(), qr/"interrupted":true/, 'interrupt: from elsewhere');
    ok($x->wait([$c], timeout => 5), 'interrupt: the turn ends');
    like(last_of($c), qr{"stopReason":"cancelled"}, 'interrupt: cancelled');
    is(turn_state($y, $s)->{running}, JSON::PP::false,
       'interrupt: the third machine knows');
}


sub question {
    my $s = $x->session();
    my $c = $x->send_message($s, 'replay:question-single wait=1');
    my $asked = sub { (grep { $_->{data} =~ /"type":"question_asked"/ }
                       $_[0]->packets())[0] };
    $x->wait([$c], until => $asked);
    my ($id) = $asked->($c)->{data} =~ /"questionId":"(\w+)"/;

    like(JSON::PP::encode_json(turn_state($y, $s)), qr/"$id"/,
         'question: it waits');
    my $r = $z->request('POST', "/sessions/$s/questions/$id/reply",
                        body => { answers => [['Blue']] });
    is($r->status(), 200, 'question: answered elsewhere');
    ok($x->wait([$c], timeout => 10), 'question: the turn ends');
    check_turn($c, 'question');
}


# a reader on another machine keeps the turn, and the last one ends it

sub abort {
    my $s = $x->session();
    my $c = $x->send_message($s, 'text:200:24:100',
                             path => "/abort/$s/send-message");
    hear($x, $c, 3);
    my $d = $y->open(events_of($s));
    hear($y, $d, 3);
    sleep(0.7);
    $c->close();
    sleep(2.5);
    is(turn_state($y, $s)->{running}, JSON::PP::true, 'abort: still read');
    $d->close();
    ok(wait_for(sub { !turn_state($z, $s)->{running} }, 15),
       'abort: the last reader has left');
}


sub last_of {
    return ($_[0]->packets())[-1]{data};
}
