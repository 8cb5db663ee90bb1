#!/usr/bin/perl

# Interrupts where only a scripted OpenCode can hold them: before the prompt,
# while it is on its way, while the abort is on its way, when the abort fails
# or takes long.
#
# Broken by: an abort that is sent before OpenCode works on the prompt; a turn
# that ends while its abort is not answered, so that it hits the next one; a
# second abort while the first one is not answered, whoever wants it; an owner
# that does not hear of a mark that another worker made.

use FindBin;
use lib "$FindBin::Bin/lib";

use AgentStream;

my $t = AgentStream->new(timeout => 90, workers => 3, server => '
        location /brief {
            agentstream /opencode/;
            agentstream_turn_timeout 2s;
        }');
my $long = 'text:20000:8:10';

nothing();
before_the_prompt();
prompt_on_its_way();
accepted_but_idle();
abort_on_its_way();
abort_fails();
abort_takes_long();
too_long();
many();

$t->done();


sub nothing {
    is(interrupt($t->session()), '{"interrupted":false}', 'nothing runs');

    my $s = $t->session();
    $t->turn($s, 'text:3:8:0');
    is(interrupt($s), '{"interrupted":false}', 'nothing runs any more');
    is(scalar(grep { /abort/ } $t->upstream()), 0, 'OpenCode is not asked');
}


sub before_the_prompt {
    my $s = $t->session();

    rules({ url => "^/session/$s\$", delay => 1500 });
    my $c = $t->send_message($s, $long);
    $t->wait([$c], timeout => 0.1);
    is(interrupt($s), '{"interrupted":true}', 'before: interrupted');
    cancelled($c, 'before', 2);
    is(scalar(grep { /$s\/(prompt|abort)/ } $t->upstream()), 0,
       'before: nothing is sent');
}


sub prompt_on_its_way {
    my $s = $t->session();

    rules({ url => "^/session/$s/prompt", delay => 500 });
    my $c = $t->send_message($s, $long);
    wait_for(sub { grep { /$s\/prompt/ } $t->upstream() });
    is(interrupt($s), '{"interrupted":true}', 'prompting: interrupted');
    cancelled($c, 'prompting');
    order($s, 'prompting');
    clean($s, 'prompting');
}


# the prompt's 204 comes before anything happens

sub accepted_but_idle {
    my $s = $t->session();

    rules();
    my $c = $t->send_message($s, "$long start=600");
    $t->wait([$c], until => sub { $_[0]->packets() });
    is(interrupt($s), '{"interrupted":true}', 'accepted: interrupted');
    is(interrupt($s), '{"interrupted":true}', 'accepted: and again');
    cancelled($c, 'accepted');
    order($s, 'accepted');

    my ($prompt) = log_of(qr{$s/prompt});
    my ($abort) = log_of(qr{$s/abort});
    cmp_ok($abort->{time} - $prompt->{time}, '>', 0.5,
           'accepted: not before it works on it');
    clean($s, 'accepted');
}


sub abort_on_its_way {
    my $s = $t->session();

    # the turn ends by itself meanwhile

    rules({ url => "^/session/$s/abort", delay => 1000 });
    my $c = $t->send_message($s, 'text:10:8:30');
    $t->wait([$c], until => sub { $_[0]->packets() > 2 });
    is(interrupt($s), '{"interrupted":true}', 'late: interrupted');

    my $busy = $t->request($t->message_request($s, 'text:3:8:0'));
    is($busy->status(), 409, 'late: the session is held');

    $t->wait([$c]);
    check_turn($c, 'late');
    clean($s, 'late');

    my ($abort) = log_of(qr{$s/abort});
    my $next = (log_of(qr{$s/prompt}))[-1];
    cmp_ok($next->{time}, '>=', $abort->{done},
           'late: the next prompt waits for the abort');
}


sub abort_fails {
    my $s = $t->session();

    rules({ url => "^/session/$s/abort", status => 500, body => '{}',
            times => 1 });
    my $c = $t->send_message($s, $long);
    $t->wait([$c], until => sub { $_[0]->packets() > 2 });
    interrupt($s);
    cancelled($c, 'failing');
    is(scalar log_of(qr{$s/abort}), 2, 'failing: it is tried again');
}


# longer than the time after which OpenCode is asked how the turn stands

sub abort_takes_long {
    my $s = $t->session();

    rules({ url => "^/session/$s/abort", delay => 4500, times => 1 });
    my $c = $t->send_message($s, $long);
    $t->wait([$c], until => sub { $_[0]->packets() > 2 });
    interrupt($s);
    cancelled($c, 'slow');
    is(scalar log_of(qr{$s/abort}), 1, 'slow: one abort at a time');
    clean($s, 'slow');
}


# the turn exceeds its time while its abort is on its way: that abort is enough

sub too_long {
    my $s = $t->session();

    rules({ url => "^/session/$s/abort", delay => 3000 });
    my $c = $t->open('POST', "/brief/$s/send-message",
                     body => { content => $long });
    $t->wait([$c], until => sub { $_[0]->packets() > 2 });
    interrupt($s);
    ok($t->wait([$c], timeout => 10), 'too long: it ends');
    is(packet_json(($c->packets())[-1] // {})->{code}, 504,
       'too long: as a turn that exceeded its time');
    is(scalar log_of(qr{$s/abort}), 1, 'too long: one abort');
    clean($s, 'too long');
}


# from any worker, no matter which one owns the turn

sub many {
    rules();

    my @all = map { $t->session() } 1 .. 30;

    # not so fast that a busy machine has no time for anything else
    my %client = map { $_ => $t->send_message($_, 'text:2000:8:100') } @all;

    $t->wait([values %client], until => sub { $_[0]->packets() > 1 });
    my @said = map { interrupt($_) } @all;
    is(scalar(grep { $_ eq '{"interrupted":true}' } @said), 30,
       'many: interrupted');
    $t->wait([values %client], timeout => 30);

    my @reasons = map { packet_json(($_->packets())[-1] // {})->{stopReason}
                        // 'none' } values %client;
    is(scalar(grep { $_ eq 'cancelled' } @reasons), 30, 'many: cancelled')
        or diag("@reasons");

    $_ = $t->send_message($_, 'text:3:8:0') for values @all;
    $t->wait(\@all, timeout => 30);
    check_turn($_, 'many, then', quiet => 1) for @all;
}


# ---- what all of them use

sub rules {
    $t->control('config', { rules => [@_] });
}


sub interrupt {
    my ($session) = @_;

    return $t->request('POST', "/sessions/$session/interrupt")->body();
}


sub cancelled {
    my ($c, $name, $packets) = @_;

    $t->wait([$c]);
    check_turn($c, $name) or diag(join ' ', types($c->packets()));
    is(packet_json(($c->packets())[-1] // {})->{stopReason}, 'cancelled',
       "$name: cancelled");
    is(scalar($c->packets()), $packets, "$name: nothing else") if $packets;
}


sub clean {
    my ($session, $name) = @_;
    my $c = $t->turn($session, 'text:4:8:2');

    check_turn($c, "$name, then");
    is(packet_json(($c->packets())[-1])->{stopReason}, 'end_turn',
       "$name, then: ends well");
}


sub log_of {
    my ($url) = @_;

    return grep { $_->{url} =~ $url } @{ $t->control('log') };
}


sub order {
    my ($session, $name) = @_;
    my @order = map { m{$session/(prompt|abort)} } $t->upstream();

    is("@order", 'prompt abort', "$name: in order");
}
