package AgentStream::FaultPlan;

# Decides which faults occur in a run, and where.  Everything follows from a
# random seed.
#
# A room is, for the module, a separate OpenCode: an event stream and one to
# three turns on it.  Its faults are rules of the proxy (proxy.mjs) and orders
# to the scripted OpenCode (opencode.mjs).  Each says how the turns may end:
#
#     well     with a prompt_response and all the text that OpenCode stored:
#              what was lost can be made up for
#     any      well, or with an error, and then with a part of that text
#     error    with an error

use strict;
use warnings;
use utf8;

use Digest::MD5 qw(md5);
use Exporter 'import';

our @EXPORT_OK = qw(deal fault_names plan_room);

my %RANK = (well => 0, any => 1, error => 2);
my $HTML = '<!doctype html><html><body>data: nothing here</body></html>';

my @REPLAYS = qw(text-plain text-reasoning text-escapes text-interleaved
                 tools-sequence bash-ok bash-streaming read-ok edit-ok
                 glob-grep todowrite task-one);
my @ASKS = qw(question-single question-several permission-once
              permission-always question-reject permission-reject);
my @CONTENT = qw(lostdelta nodeltas deltafirst deltaorphan wrongfinal
                 dupevents dupidle staleidle lateidle);


# ---- random numbers, the same everywhere

sub rng {
    my ($seed) = @_;
    my $x = unpack('N', md5($seed)) || 1;

    return sub {
        $x ^= ($x << 13) & 0xffffffff;
        $x ^= $x >> 17;
        $x ^= ($x << 5) & 0xffffffff;

        return $x / 4294967296;
    };
}


sub between {
    my ($r, $from, $to) = @_;

    return $from + int($r->() * ($to - $from + 1));
}


sub pick {
    my ($r, @list) = @_;

    return $list[$r->() * @list];
}


# ---- the faults

# a fault of the event stream, in the middle of a turn

sub mid {
    my ($r, $do, %args) = @_;

    return { on => 'event', do => $do, bytes => between($r, 0, 7000),
             part => sprintf('%.3f', $r->()), %args };
}


# the stream cannot be opened: at first, or again after it was lost

sub reopen {
    my ($r, @answer) = @_;
    my $times = between($r, 1, 3);

    return { rules => [{ on => 'event', @answer }], expect => 'any' }
        if $r->() < 0.3;

    return { rules => [mid($r, 'reset'), { on => 'event', then => 1,
                                           times => $times, @answer }] };
}


sub answer {
    my ($status, $body, $type) = @_;

    return (do => 'answer', status => $status,
            body => $body // qq({"name":"UnknownError","data":{}}),
            $type ? (type => $type) : ());
}


# The same when something is asked: the fault replaces the event that reports
# the question, follows it, or replaces the event that reports the answer.

sub asked {
    my ($r, $mark, @how) = @_;

    return { on => 'event', mark => $mark, do => pick($r, @how),
             part => sprintf('%.3f', $r->()) };
}


sub killed {
    my ($r, @when) = @_;

    return map { { worker => between($r, 0, 9), %$_ } } @when;
}


# what can be wrong with a short answer

sub wrong {
    my ($r) = @_;
    my $at = sprintf '%.3f', $r->();

    return @{ pick($r,
        [answer(500)], [answer(503, 'busy', 'text/plain')],
        [answer(200, $HTML, 'text/html')], [answer(200, '{"a":')],
        [answer(200, '[[[')], [answer(200, '')], [do => 'raw', body => 'x'],
        [do => 'drop', how => 'reset'], [do => 'drop', how => 'fin'],
        [do => 'lose', how => 'reset'], [do => 'reset', at => $at],
        [do => 'fin', at => $at], [do => 'corrupt', how => 'utf8'],
        [do => 'slow', ms => between($r, 50, 800)],
        [do => 'stall', at => $at, ms => between($r, 50, 1500)]) };
}


# name => [where it is possible, what happens]

my %FAULT = (
    'none' => [both => sub { {} }],

    # the event stream

    'stream-refused' => [both => sub { my ($r) = @_;
        return $r->() < 0.3
            ? { rules => [{ on => 'session', do => 'down', how => 'none',
                            at => 0, ms => between($r, 200, 900) }],
                expect => 'any' }
            : { rules => [mid($r, 'down', ms => between($r, 100, 1500))] } }],
    'stream-reset' => [both => sub { { rules => [mid($_[0], 'reset')] } }],
    'stream-cut' => [both => sub { { rules => [mid($_[0], 'fin')] } }],
    'stream-half-closed' => [both => sub {
        { rules => [mid($_[0], 'half')] } }],
    'stream-half-dead' => [both => sub {
        { rules => [mid($_[0], 'stall', ms => 0)], seconds => 90 } }],
    'stream-closed' => [both => sub { { rules => [mid($_[0], 'close')] } }],
    'stream-401' => [both => sub { reopen($_[0], answer(401)) }],
    'stream-404' => [both => sub { reopen($_[0], answer(404)) }],
    'stream-500' => [both => sub { reopen($_[0], answer(500)) }],
    'stream-html' => [both => sub {
        reopen($_[0], answer(200, $HTML, 'text/html')) }],
    'stream-garbage' => [both => sub {
        reopen($_[0], do => 'raw', body => "\x16\x03\x01garbage\r\n\r\n") }],
    'stream-truncated' => [both => sub { my ($r) = @_;
        { rules => [mid($r, 'truncate',
                        how => pick($r, qw(reset fin close)))] } }],
    'stream-huge-event' => [both => sub { my ($r) = @_;
        { rules => [mid($r, 'inject', what => 'huge',
                        size => between($r, 1_200_000, 6_000_000))] } }],
    'stream-bad-json' => [both => sub { my ($r) = @_;
        { rules => [$r->() < 0.5 ? mid($r, 'inject', what => 'json')
                                 : mid($r, 'corrupt', how => 'json')] } }],
    'stream-bad-utf8' => [both => sub { my ($r) = @_;
        { rules => [$r->() < 0.5 ? mid($r, 'inject', what => 'utf8')
                                 : mid($r, 'corrupt', how => 'utf8')] } }],
    'stream-bad-chunk' => [both => sub {
        { rules => [mid($_[0], 'corrupt', how => 'chunk')] } }],
    'stream-flood' => [both => sub { my ($r) = @_;
        { rules => [mid($r, 'inject', what => 'flood',
                        size => between($r, 500, 4000))] } }],
    'stream-stalled' => [both => sub { my ($r) = @_;
        { rules => [mid($r, 'stall', ms => between($r, 100, 2500))] } }],
    'stream-trickled' => [both => sub { my ($r) = @_;
        { rules => [mid($r, 'trickle', count => between($r, 50, 600))] } }],
    'stream-late' => [both => sub { my ($r) = @_;
        { rules => [{ on => 'event', do => 'slow', $r->() < 0.5 ? 'ms' : 'late',
                      between($r, 100, 1500) }] } }],
    'stream-lost-often' => [both => sub { my ($r) = @_;
        { rules => [map { { %{ mid($r, pick($r, qw(reset close truncate))) },
                            skip => $_, bytes => between($r, 0, 2500) } }
                    0 .. between($r, 2, 6)] } }],

    # OpenCode

    'down-before' => [both => sub { { before => 60000, expect => 'error',
                                      prompts => 0 } }],
    'down-during' => [both => sub { my ($r) = @_;
        { rules => [mid($r, 'down', ms => between($r, 200, 4000))] } }],
    'down-after' => [both => sub { my ($r) = @_;
        { after => between($r, 100, 600) } }],
    'down-long' => [both => sub { my ($r) = @_;
        { rules => [mid($r, 'down', ms => 40000)], expect => 'any',
          seconds => 90, rare => 1 } }],
    'restarted' => [scripted => sub { my ($r) = @_;
        { rules => [mid($r, 'down', ms => between($r, 100, 1500), die => 1)],
          expect => 'any' } }],
    'disposed' => [scripted => sub { my ($r) = @_;
        { rules => [mid($r, 'down', ms => between($r, 1, 300), how => 'fin',
                        dispose => 'abort')], expect => 'any' } }],
    'disposed-event' => [both => sub {
        { rules => [mid($_[0], 'inject', what => 'disposed')] } }],
    'slow-answers' => [both => sub { my ($r) = @_;
        { rules => [(map { { on => $_, do => 'slow', times => 99,
                             ms => between($r, 50, 1200) } }
                     qw(session prompt message)), mid($r, 'reset'),
                    map { { on => $_, do => 'slow', times => 99,
                            late => between($r, 50, 1200) } }
                     qw(status messages)] } }],
    'session-wrong' => [both => sub { my ($r) = @_;
        { rules => [{ on => 'session', wrong($r) }], expect => 'any' } }],
    'prompt-4xx' => [both => sub { my ($r) = @_;
        my $status = pick($r, 400, 404, 409, 413, 429);
        { rules => [{ on => 'prompt', answer($status) }], expect => 'error',
          code => $status, prompts => 0 } }],
    'prompt-5xx' => [both => sub { my ($r) = @_;
        my $status = pick($r, 500, 502, 503, 504);
        { rules => [{ on => 'prompt', answer($status) }], expect => 'error',
          code => $status, prompts => 0 } }],
    'prompt-lost' => [both => sub { my ($r) = @_;
        { rules => [{ on => 'prompt', do => 'drop',
                      how => pick($r, qw(reset fin)) }], expect => 'error',
          prompts => 0 } }],
    'prompt-answer-lost' => [both => sub { my ($r) = @_;
        { rules => [{ on => 'prompt', do => 'lose',
                      how => pick($r, qw(reset fin)) }] } }],
    'prompt-fate-unknown' => [both => sub { my ($r) = @_;
        { rules => [{ on => 'prompt', do => 'lose', how => 'reset' },
                    { on => 'message', times => between($r, 1, 2),
                      wrong($r) }] } }],
    'prompt-answer-late' => [both => sub { my ($r) = @_;
        { rules => [{ on => 'prompt', do => 'slow',
                      late => between($r, 300, 3000) }] } }],
    'prompt-answer-never' => [both => sub { my ($r) = @_;
        { rules => [{ on => 'prompt', do => 'lose', how => 'hang' }],
          seconds => 90, rare => 1 } }],
    'abort-wrong' => [both => sub { my ($r) = @_;
        { rules => [{ on => 'abort', wrong($r) }], client => 'interrupt',
          expect => 'any' } }],
    'reads-wrong' => [both => sub { my ($r) = @_;
        { rules => [mid($r, 'reset'), map { { on => $_, wrong($r),
                    times => between($r, 1, 2) } } qw(status messages)] } }],
    'reads-fail' => [both => sub { my ($r) = @_;
        { rules => [mid($r, 'reset'), { on => pick($r, qw(status messages)),
                    times => 999, answer(500) }], expect => 'any',
          seconds => 90, rare => 1 } }],
    'disk-full' => [scripted => sub { my ($r) = @_;
        $r->() < 0.5 ? { option => 'fault=diskfull', expect => 'error' }
            : { rules => [{ on => 'prompt', answer(500,
                '{"name":"UnknownError","data":{"message":'
                . '"SQLiteError: database or disk is full"}}') }],
                expect => 'error', code => 500 } }],

    # while a question or a permission request waits

    'ask-lost' => [both => sub { my ($r) = @_;
        { asks => 1, rules => [asked($r, 'asked',
                               qw(reset fin close truncate corrupt))] } }],
    'ask-cut' => [both => sub { my ($r) = @_;
        { asks => 1, rules => [{ %{ asked($r, 'behind',
                                 qw(reset fin half close stall)) }, ms => 0 }],
          seconds => 90 } }],
    'ask-down' => [both => sub { my ($r) = @_;
        { asks => 1, rules => [{ %{ asked($r, 'behind', 'down') },
                                 ms => between($r, 100, 3000) }] } }],
    'ask-resolved-lost' => [both => sub { my ($r) = @_;
        { asks => 1, rules => [asked($r, 'resolved',
                               qw(reset fin close truncate corrupt))] } }],
    'ask-reply-wrong' => [both => sub { my ($r) = @_;
        { asks => 1, rules => [{ on => 'reply', times => between($r, 1, 2),
                                 wrong($r) }] } }],
    'ask-reply-lost' => [both => sub { my ($r) = @_;
        { asks => 1, rules => [{ on => 'reply', do => 'lose',
                                 how => pick($r, qw(reset fin)) },
                               $r->() < 0.5 ? asked($r, 'resolved', 'reset')
                                            : ()] } }],
    'ask-lists-wrong' => [both => sub { my ($r) = @_;
        { asks => 1, rules => [asked($r, pick($r, qw(asked behind)), 'reset'),
                               { on => 'asks', times => between($r, 1, 3),
                                 wrong($r) }] } }],
    'ask-restarted' => [scripted => sub { my ($r) = @_;
        { asks => 1, rules => [{ %{ asked($r, 'behind', 'down') }, die => 1,
                                 ms => between($r, 100, 1500) }],
          expect => 'any' } }],

    # the worker

    'worker-killed' => [both => sub { my ($r) = @_;
        { kills => [killed($r, { packets => between($r, 1, 15) })] } }],
    'worker-killed-early' => [both => sub { my ($r) = @_;
        { kills => [killed($r, { ms => between($r, 0, 60) })] } }],
    'worker-killed-twice' => [both => sub { my ($r) = @_;
        { kills => [killed($r, { packets => between($r, 1, 6) },
                               { packets => between($r, 5, 15) })] } }],
    'worker-killed-asked' => [both => sub { my ($r) = @_;
        { asks => 1, kills => [killed($r, { asked => 1,
                                            ms => between($r, 0, 600) })] } }],

    # the content of the events

    map { my $fault = $_; ("event-$fault" => [scripted => sub {
        { option => "fault=$fault" } }]) } @CONTENT,
);


# the faults of a deck: "kill", "ask", or all but those of "kill"

sub fault_names {
    my ($side, $deck) = @_;
    my $of = !$deck ? qr/^(?!worker-)/ : $deck eq 'ask' ? qr/^ask-/
                                       : qr/^worker-/;

    return sort grep { $FAULT{$_}[0] =~ /^(both|$side)$/ && /$of/ }
                keys %FAULT;
}


# deals every fault in turn, in an order that the seed determines

sub deal {
    my ($seed, $side, $n, $deck) = @_;
    my @names = fault_names($side, $deck);
    my $round = int($n / @names);
    my $r = rng("$seed $side deck $round");

    for my $i (reverse 1 .. $#names) {
        my $j = int($r->() * ($i + 1));
        @names[$i, $j] = @names[$j, $i];
    }

    return $names[$n % @names];
}


# ---- rooms

# -> {number, faults, rules, turns, expect, seconds, …}; names: instead of
# those that are dealt

sub plan_room {
    my ($seed, $side, $number, @names) = @_;
    my $r = rng("$seed $side room $number");

    if (!@names) {
        my ($deck, $n) = $number =~ /^(?:(\w+)-)?(\d+)$/;

        @names = deal($seed, $side, $n, $deck);
        my $other = deal($seed, $side, between($r, 0, 9999));

        push @names, $other if $r->() < 0.25 && $other =~ /^stream-/
            && $names[0] =~ /^(stream|event|prompt|ask|worker)-/
            && $names[0] ne $other;
    }

    my %plan = (number => $number, faults => \@names, rules => [],
                expect => 'well', before => 0, after => 0,
                seconds => $side eq 'real' ? 90 : 60, options => '');

    for my $name (@names) {
        my $fault = $FAULT{$name}[1]->($r);
        my @rules = map { { name => $name, %$_ } } @{ $fault->{rules} // [] };

        # with two faults of one stream, the second one hits the next
        # connection
        if (@{ $plan{rules} }) {
            my $last = 0;

            for (grep { $_->{on} eq 'event' } @{ $plan{rules} }) {
                my $end = ($_->{skip} // 0) + ($_->{times} // 1);
                $last = $end if $end > $last;
            }

            $_->{skip} += $last for grep { $_->{on} eq 'event' && !$_->{then} }
                                    @rules;
        }

        push @{ $plan{rules} }, @rules;
        $plan{options} .= " $fault->{option}" if $fault->{option};

        for my $key (qw(before after client code prompts rare asks kills)) {
            $plan{$key} = $fault->{$key} if defined $fault->{$key};
        }

        for ([expect => \%RANK], [seconds => {}]) {
            my ($key, $rank) = @$_;
            my $value = $fault->{$key} // next;

            $plan{$key} = $value if ($rank->{$value} // $value)
                > ($rank->{ $plan{$key} } // $plan{$key});
        }
    }

    # if one fault must cause an error, a second one may come first
    $plan{expect} = 'any' if @names > 1 && $plan{expect} eq 'error';
    delete @plan{qw(code prompts)} if @names > 1;

    my $turns = $plan{expect} eq 'well' && $r->() < 0.3 ? between($r, 2, 3)
                                                        : 1;

    $plan{turns} = [map { plan_turn($r, $side, $plan{options}, $plan{asks}) }
                    1 .. $turns];
    $plan{turns}[0]{kills} = $plan{kills} if $plan{kills};

    if ($plan{client}) {
        # early enough for a short turn
        @{$_}{qw(client gone)} = ($plan{client}, $_->{gone} % 2)
            for @{ $plan{turns} };
    }

    return \%plan;
}


sub plan_turn {
    my ($r, $side, $options, $asks) = @_;
    my %turn = (start => between($r, 0, 200));
    my $kind = $r->();

    if ($asks) {
        @turn{qw(asks answer)} = (1, between($r, 0, 600));
    }

    if ($side eq 'real') {
        $asks ? real_asks($r, \%turn) : real_orders($r, \%turn);

    } elsif ($asks) {
        $turn{order} = 'replay:' . pick($r, @ASKS) . "$options wait=1 delay="
                       . between($r, 0, 12);

    } elsif ($options !~ /diskfull/ && $r->() < 0.3) {
        $turn{order} = 'replay:' . pick($r, @REPLAYS) . $options
                       . ' delay=' . between($r, 0, 12);

    } else {
        $turn{order} = sprintf 'text:%d:%d:%d%s', between($r, 5, 40),
            between($r, 8, 60), between($r, 2, 40), $options;
    }

    # the time from the answer to the first event, similar to the real OpenCode
    $turn{order} .= ' start=' . between($r, 2, 900)
        if $side ne 'real' && $r->() < 0.5;

    $turn{order} .= ' chunk=' . pick($r, 'event', 'event', 'bytes:7',
                                     'newline', 'utf8', 'escape')
        if $side ne 'real';

    $turn{client} = $kind < 0.45 ? 'plain' : $kind < 0.75 ? 'reconnect'
                    : $kind < 0.87 ? 'watch' : 'gone';
    $turn{cuts} = [map { between($r, 1, 12) } 1 .. between($r, 1, 4)];
    $turn{wait} = between($r, 0, 400);
    $turn{gone} = between($r, 0, 6);

    # a client that is gone cannot answer
    $turn{client} = 'reconnect' if $asks && $turn{client} eq 'gone';

    return \%turn;
}


# orders for util/model.mjs; the text is everything it says

sub real_orders {
    my ($r, $turn) = @_;
    my @words = qw(harbor saffron brook spruce ember otter delta maple beacon
                   é✓😀 naïve "quoted" back\\slash);
    my @orders = ('!pace ' . between($r, 0, 25));
    my $text = '';

    for my $step (1 .. between($r, 1, 2)) {
        my $say = join '', map { pick($r, @words) . ' ' }
                           1 .. between($r, 3, 40);
        my $json = $say =~ s/(["\\])/\\$1/gr;

        push @orders, '!next' if $step > 1;
        push @orders, '!think "Beacon maple delta otter."' if $r->() < 0.3;
        push @orders, "!say \"$json\"";
        push @orders, '!call bash {"command":"echo one; sleep 0.2; echo two",'
                      . '"description":"x"}' if $step == 1 && $r->() < 0.5;
        $text .= $say;

        # after a call the model continues, whether it is told to or not
        last unless $orders[-1] =~ /^!call/;

        push @orders, '!next', '!say "Done."' and $text .= 'Done.'
            and last if $r->() < 0.5;
    }

    push @orders, '!next', '!say "Done."' and $text .= 'Done.'
        if $orders[-1] =~ /^!call/;

    @{$turn}{qw(order text)} = (join("\n", 'turn', @orders), $text);
}


# the same, with one or two questions or permission requests

sub real_asks {
    my ($r, $turn) = @_;
    my @orders = ('!pace ' . between($r, 0, 25));
    my $text = '';

    for my $step (1 .. between($r, 1, 2)) {
        push @orders, "!say \"Ember $step. \"", $r->() < 0.5
            ? '!call bash {"command":"echo asked","description":"x"}'
            : '!call question {"questions":[{"question":"Which?","header":'
              . '"One","options":[{"label":"Brook","description":"x"},'
              . '{"label":"Otter","description":"x"}]}]}', '!next';
        $text .= "Ember $step. ";
    }

    @{$turn}{qw(order text)} = (join("\n", 'turn', @orders, '!say "Done."'),
                                "${text}Done.");
}


1;
