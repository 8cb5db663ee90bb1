#!/usr/bin/perl

# agentstream_status: every event is counted once, whichever worker handled it,
# in JSON and for Prometheus; when a worker dies, its gauges disappear but its
# counters remain.  At the end of every test the harness checks the sums.
#
# Broken by: a place that counts left out or passed twice, a gauge that is not
# taken back, counters cleared with the slot, slots of dead workers added to the
# gauges, a metric left out of one format, a method or format not refused.

use FindBin;
use lib "$FindBin::Bin/lib";

use AgentStream;
use AgentStream::Attach;

my $t = AgentStream->new(attach(timeout => 90, http => 'agentstream_zone 1m;',
    location => 'agentstream_event_size 1m;', server => '
        location /small {
            agentstream /opencode/;
            agentstream_turn_size 32k;
        }'));
my @workers = $t->workers();
my ($c, $s, $d);

my $last;

ok(working(2), 'two workers');
is($last->{zone}{size_bytes}, 1 << 20, 'the size of the zone');
cmp_ok($last->{zone}{free_bytes}, '>', 1 << 19, 'most of it is free');
is_deeply([grep { $last->{$_->[0]}{$_->[1]} } all()],
          [['workers', 'running'], ['zone', 'free_bytes'],
           ['zone', 'size_bytes']], 'nothing else has happened');

# a turn on each worker

my @c = map { on_worker($t, $_, send_to($t->session(), 'text:5:24:0')) }
        @workers;
$t->wait(\@c);
check_turn($_, 'a turn') for @c;

my @packets = map { $_->packets() } @c;
my $bytes = 0;

# the JSON alone, whatever stands around it

$bytes += length($_->{raw} =~ /^data: (.*)$/m ? $1 : '') for @packets;

grown('two turns', 'turns.started' => 2, 'turns.completed' => 2,
      'turns.finished' => 2, 'packets.written' => scalar @packets,
      'packets.bytes' => $bytes, 'streams.opened' => 2,
      'opencode.subscriptions' => 2,
      'opencode.requests' => scalar(grep { !m{^GET /event} } $t->upstream()),
      'opencode.events' => sub { $_[0] >= 10 },
      'zone.free_bytes' => sub { $_[0] < 0 });

# watched by two, then interrupted

$s = $t->session();
@c = (on_worker($t, $workers[0], send_to($s, 'text:500:24:20')));
hear($t, $c[0], 2);
push @c, on_worker($t, $workers[1], events_of($s));
hear($t, $c[1], 2);

grown('watched by two', 'turns.started' => 1,
      'opencode.subscriptions' => sub { $_[0] <= 0 }, 'turns.running' => 1,
      'streams.open' => 2, 'streams.opened' => 2,
      map { $_ => sub { 1 } } qw(packets.written packets.bytes opencode.events
                                 opencode.requests zone.free_bytes));

$t->request('POST', "/sessions/$s/interrupt");
$t->wait(\@c);

grown('interrupted', 'opencode.subscriptions' => sub { $_[0] <= 0 },
      'turns.running' => -1, 'turns.finished' => 1,
      'turns.cancelled' => 1, 'streams.open' => -2,
      'opencode.requests' => sub { $_[0] >= 1 },
      'opencode.reconciliations' => sub { 1 },
      map { $_ => sub { 1 } } qw(packets.written packets.bytes opencode.events
                                 zone.free_bytes));

# OpenCode fails the prompt

$s = $t->session();
$t->control('config', { rules => [{ url => "$s/prompt_async", times => 1,
                                    status => 500 }] });
is($t->turn($s, 'text:2:24:0')->status(), 500, 'a prompt that fails');
$t->control('config', { rules => [] });

grown('failed', 'opencode.subscriptions' => sub { $_[0] <= 0 },
      'turns.started' => 1, 'turns.failed' => 1,
      'turns.finished' => 1, 'opencode.requests_failed' => 1,
      'opencode.requests' => sub { $_[0] >= 2 }, 'packets.written' => 1,
      'streams.opened' => 1,
      map { $_ => sub { 1 } } qw(packets.bytes opencode.events
                                 zone.free_bytes));

# a history, and one that fails

$s = $t->session();
$t->control('config', { rules => [{ url => "$s/message", status => 500 }] });
is($t->request('GET', "/sessions/$s/messages")->status(), 502,
   'a history that fails');
$t->control('config', { rules => [] });
is($t->request('GET', "/sessions/$s/messages")->status(), 200, 'a history');

grown('histories', 'opencode.events' => sub { 1 }, 'opencode.requests' => 2,
      'opencode.requests_failed' => 1,
      'opencode.subscriptions' => sub { $_[0] <= 0 });

# an event too many, and a stream that ends

$s = $t->session();
$c = on_worker($t, $workers[0], send_to($s, 'text:20:24:20 fault=giant'));
hear($t, $c, 3);
$t->control('close', {});
$t->wait([$c]);
check_turn($c, 'with a giant, on two streams');

grown('lost and skipped', 'turns.started' => 1, 'turns.completed' => 1,
      'turns.finished' => 1, 'streams.opened' => 1,
      'opencode.events_skipped' => sub { $_[0] == 1 || $_[0] == 2 },
      'opencode.subscriptions_lost' => 1,
      'opencode.subscriptions' => sub { $_[0] <= 0 },
      'opencode.reconciliations' => sub { $_[0] >= 1 },
      map { $_ => sub { 1 } } qw(packets.written packets.bytes opencode.events
                                 opencode.requests zone.free_bytes));

# packets are dropped, and a client that needs them gets the turn again

$s = $t->session();
$c = $t->request('POST', "/small/$s/send-message",
                 body => { content => 'text:150:500:5' }, timeout => 20);
$d = $t->request(events_of($s, ($c->packets())[4]{id}), timeout => 10);
is((types($d->packets()))[0], 'stream_reset', 'too old');

grown('dropped', 'turns.started' => 1, 'turns.completed' => 1,
      'streams.opened' => 2, 'streams.resets' => 1,
      'packets.dropped' => sub { $_[0] > 50 && $_[0] < 150 },
      'opencode.reconciliations' => sub { 1 },
      map { $_ => sub { 1 } } qw(packets.written packets.bytes opencode.events
                                 opencode.requests opencode.subscriptions
                                 zone.free_bytes turns.finished));

# more finished turns than there is room for

for (1 .. 8) {
    $t->wait([map { $t->send_message($t->session(), 'text:4:4000:0') } 1 .. 8]);
}

my $evicted = $t->status()->{turns}{evicted};

cmp_ok($evicted, '>', 5, 'the oldest were evicted');
is($t->status()->{turns}{finished}, 6 + 64 - $evicted, 'the others are kept');
grown('evicted', 'turns.started' => 64, 'turns.completed' => 64,
      'streams.opened' => 64, 'turns.evicted' => $evicted,
      map { $_ => sub { 1 } } qw(packets.written packets.bytes opencode.events
                                 opencode.requests opencode.subscriptions
                                 zone.free_bytes turns.finished));

# A worker is killed: its counters stay, its gauges disappear, its turn is
# taken over, and sent again from its beginning, because its first packets are
# gone.

$s = $t->session();
$c = on_worker($t, $workers[0], 'POST', "/small/$s/send-message",
               body => { content => 'text:300:250:20' });
hear($t, $c, 3);
$d = on_worker($t, $workers[1], events_of($s));
hear($t, $d, 120);
is($t->status()->{streams}{open}, 2, 'both have a stream');

my $started = $t->status()->{turns}{started};

$workers[0] = kill_worker($t, $workers[0]);
is($t->status()->{streams}{open}, 1, 'killed: its stream is gone');
is($t->status()->{turns}{started}, $started, 'killed: its counters are not');
ok(working(2), 'killed: there is a new one');

$t->wait([$d], timeout => 20);
is((types($d->packets()))[-1], 'prompt_response', 'killed: the turn ends');
grown('killed', 'turns.started' => 1, 'turns.completed' => 1,
      'turns.adopted' => 1, 'streams.opened' => 2, 'streams.resets' => 1,
      map { $_ => sub { 1 } } qw(packets.written packets.bytes opencode.events
                                 opencode.requests opencode.subscriptions
                                 opencode.reconciliations zone.free_bytes
                                 packets.dropped turns.finished
                                 turns.evicted));

# event streams without turns are closed

ok(wait_for(sub { $t->status()->{opencode}{subscriptions} == 0 }, 20),
   'no subscription is left');
$last->{opencode}{subscriptions} = 0;

# a reload keeps it all

my @old = $t->reload();
ok(wait_for(sub { !grep { kill 0, $_ } @old }, 10), 'the old workers leave');
ok(working(2), 'the new ones are there');
grown('reloaded', 'opencode.events' => sub { 1 });

# Prometheus

$c = $t->request('GET', '/_agentstream?format=prometheus');
$last = $t->status();
is($c->header('Content-Type'), 'text/plain; version=0.0.4', 'its type');

my @lines = grep { !/^(?:# \w+ )?agentstream_\w+_seconds(?!_total)/ }
            split /\n/, $c->body();
my (%help, %type, %value);

is_deeply([splice @lines, 0, 3],
          ['# HELP agentstream_build_info The version of the module.',
           '# TYPE agentstream_build_info gauge',
           "agentstream_build_info{version=\"$last->{version}\"} 1"],
          'the version');

for (@lines) {
    /^# HELP (\w+) \S/ ? $help{$1}++
    : /^# TYPE (\w+) (counter|gauge)$/ ? $type{$1} = $2
    : /^(\w+) (\d+)$/ ? $value{$1} = $2 : fail("a line: $_");
}

is(scalar(@lines), 3 * all(), 'as many metrics as in JSON');

for (all()) {
    my ($group, $name) = @$_;
    my ($full) = grep { exists $value{$_} }
                 map { "agentstream_${group}_$_" } $name, "${name}_total";

    is($value{$full // ''}, $last->{$group}{$name}, "$group.$name");
    is(($full =~ /_total$/ ? 'counter' : 'gauge') . ($help{$full} // 0),
       "$type{$full}1", "$group.$name: its type, help");
}

# the docs

open my $fh, '<', "$FindBin::Bin/../docs/operations.md" or die $!;
is_deeply([map { /^\| `(\w+\.\w+)` \| (gauge|counter) \|/ ? "$1 $2" : () }
           <$fh>],
          [map { /^# TYPE agentstream_([^_]+)_(\w+?)(?:_total)? (\w+)$/
                 ? "$1.$2 $3" : () } @lines], 'each has its row');

# requests

is($t->request('GET', '/_agentstream?format=json')->body(),
   $t->request('GET', '/_agentstream')->body(), 'JSON is the default');
is($t->request('GET', '/_agentstream')->header('Content-Type'),
   'application/json', 'its type');
$c = $t->request('HEAD', '/_agentstream',
                 until => sub { $_[0]->response()->{status} });
is($c->status() . ' ' . $c->body(), '200 ', 'HEAD');
$c->close();
is($t->request('POST', '/_agentstream', body => {})->status(), 405, 'POST');

for my $format ('', 'xml', 'jso', 'jsonx', 'prometheus2') {
    $c = $t->request('GET', "/_agentstream?format=$format");
    is($c->status(), 400, "format=$format");
    like($c->body(), qr/"json" or "prometheus"/, "format=$format: says why");
}

done_killed($t);


# so many workers are there, and have said so

sub working {
    my ($n) = @_;
    my $status;

    my $there = wait_for(sub {
        $status = $t->status();
        return $status->{workers}{running} == $n;
    });
    $last //= $status;

    return $there;
}


# [group, name] of all there is

sub all {
    return map { my $g = $_; map { [$g, $_] } sort keys %{ $last->{$g} } }
           sort grep { ref $last->{$_} && $_ ne 'histograms' } keys %$last;
}


# what has changed since the last time, to the digit or as a function says

sub grown {
    my ($name, %want) = @_;
    my ($now, %seen);

    my $right = wait_for(sub {
        $now = $t->status();
        %seen = ();

        for (all()) {
            my ($group, $key) = @$_;
            my $more = $now->{$group}{$key} - $last->{$group}{$key};
            my $want = $want{"$group.$key"} // 0;

            $seen{"$group.$key"} = $more
                unless ref $want ? $want->($more) : $more == $want;
        }

        return !%seen;
    }, 5);

    ok($right, $name)
        or diag(map { "$_: $seen{$_}\n" } sort keys %seen);
    $last = $now;
}
