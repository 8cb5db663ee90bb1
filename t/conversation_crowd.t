#!/usr/bin/perl

# A turn that asks many more questions than anybody can answer: 64 questions
# wait, the others are reported and rejected at once; the waiting ones can be
# answered, and each answer makes room for another.
#
# Broken by: a list in the zone without an end (zone_ask_locked()); one that is
# not made shorter by an answer; a question that is neither kept nor rejected.

use FindBin;
use lib "$FindBin::Bin/lib";

use AgentStream;
use AgentStream::Attach;

my $t = AgentStream->new(attach(timeout => 60, workers => 1));
my $s = $t->session();
my $c = $t->send_message($s, 'text:200:24:1000');

hear($t, $c, 3);

my @ids = map { sprintf 'que_%08dAsk', $_ } 1 .. 400;
emit($_, 'asked', 'id', ', "questions":[{"question":"Which?","header":"W",'
                        . '"options":[{"label":"A","description":""}]}]')
    for @ids;

ok($t->wait([$c], timeout => 20, until => sub {
    400 == grep { $_ eq 'question_asked' } types($_[0]->packets()) }),
   'all are told');
my @kept = @{ turn_state($t, $s)->{questions} };
is(join(' ', @kept), join(' ', @ids[0 .. 63]), 'the first ones wait');
ok(wait_for(sub { 336 == (my @r = rejected()) }, 20), 'the others are rejected')
    or diag(scalar(my @r = rejected()));
is(join(' ', rejected()), join(' ', @ids[64 .. 399]), 'and only these');
my @lines = $t->log_text() =~ /^(.*cannot wait for an answer.*)$/mg;
is(scalar @lines, 1, 'said once in the log') or diag(@lines);

emit($_, 'rejected', 'requestID') for @ids[64 .. 399];
emit($ids[5], 'replied', 'requestID', ',"answers":[["A"]]');
ok($t->wait([$c], timeout => 20, until => sub {
    337 == grep { $_ eq 'question_resolved' } types($_[0]->packets()) }),
   'and resolved');
emit('que_99999999Ask', 'asked', 'id', ',"questions":[{"question":"Which?",'
     . '"header":"W","options":[{"label":"A","description":""}]}]');
ok(wait_for(sub { turn_state($t, $s)->{questions}[-1] eq 'que_99999999Ask' },
            5), 'there is room for another one');
is(scalar @{ turn_state($t, $s)->{questions} }, 64, 'instead of the answered');
is($t->request('POST', "/sessions/$s/questions/$ids[0]/reply",
               body => { answers => [['A']] })->status(), 200,
   'who waits can be answered');

$t->request('POST', "/sessions/$s/interrupt");
$t->wait([$c], timeout => 20);
check_turn($c, 'the turn');

$t->done();


sub emit {
    my ($id, $what, $name, $more) = @_;

    $more //= '';
    $t->control('emit', { line => qq({"id":"evt_x","type":"question.$what",)
        . qq("properties":{"sessionID":"$s","$name":"$id"$more}}) });
}


# the questions that OpenCode was told to reject

# a slow machine has some rejected again, after five seconds without an event

sub rejected {
    my %ids = map { $_ => 1 } map { $_->{url} =~ m{^/question/(\w+)/reject} }
              @{ $t->control('log') };

    return sort keys %ids;
}
