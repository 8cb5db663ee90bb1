#!/usr/bin/perl

# The EventSource of a real browser, headless Chromium with a page of ten
# lines: when nginx closes its connection in the middle of a turn, a worker is
# killed, or a reload does not wait, it reconnects by itself and misses
# nothing; at the end it is told to stop, and stops.  One that follows the
# session continues with the next turn.
#
# Broken by: an id the browser does not send back, a wrong Content-Type, a
# clean end in the middle of a turn without a way on, 200 instead of 204 after
# the last packet.

use FindBin;
use lib "$FindBin::Bin/lib";

use AgentStream;
use AgentStream::Attach;
use AgentStream::Browser;
use AgentStream::Process qw(slurp);
use JSON::PP;

my $json = JSON::PP->new->utf8;

plan(skip_all => 'no chromium') unless chromium();

my $PAGE = <<'EOF_PAGE';
<!doctype html>
<script>
const url = `/sessions/${location.hash.slice(1)}/events`;
const record = {};
const start = setInterval(async () => {
    if ((await fetch('/go')).ok && !record.once) {
        clearInterval(start);
        listen('once', new EventSource(url));
        listen('follow', new EventSource(url + '?follow=1'));
    }
}, 100);

function listen(name, source) {
    const r = record[name] = { opened: 0, errors: 0, packets: [] };

    source.onopen = () => r.opened++;
    source.onerror = () => r.errors++;
    source.onmessage = (e) => r.packets.push([e.lastEventId, e.data]);
    setInterval(() => { r.state = source.readyState; }, 50);
}

/* how it stands, and all of it when that is asked for */

setInterval(async () => {
    const state = Object.entries(record).map(([name, r]) => [name,
        { ...r, packets: r.packets.length, last: r.packets.at(-1)?.[0] }]);
    const res = await fetch('/_report?' + encodeURIComponent(
        JSON.stringify(Object.fromEntries(state))));

    if (res.ok) {
        fetch('/_record', { method: 'POST', body: JSON.stringify(record) });
    }
}, 200);
</script>
EOF_PAGE

my $t = AgentStream->new(attach(timeout => 120, server => '
        location = /page.html {
            root %%dir%%;
            default_type text/html;
        }
        location = /go { root %%dir%%; }
        location = /_report {
            access_log %%dir%%/report.log args;
            root %%dir%%;
        }
        location = /_record {
            proxy_pass http://127.0.0.1:%%port_opencode%%;
        }',
    http => 'log_format args escape=none $args;',
    globals => 'worker_shutdown_timeout 1s;'));

open my $fh, '>', "$t->{dir}/page.html" or die "page: $!\n";
print $fh $PAGE;
close $fh;

my $s = $t->session();
my $browser = browse($t, "http://127.0.0.1:$t->{port}/page.html#$s");

ok(told(30, sub { 1 }), 'the browser is there');

my $turn = $t->send_message($s, 'text:170:24:100');
hear($t, $turn, 1);
touch('go');

ok(told(10, sub { ($_[0]{once}{packets} // 0) > 5
                  && $_[0]{follow}{packets} > 5 }), 'it reads');

# both workers are killed, one after the other

my ($a, $b) = $t->workers();
kill_worker($t, $a);
kill_worker($t, $b);
ok(told(20, sub { $_[0]{once}{errors} >= 1 && $_[0]{once}{opened} >= 2
                  && $_[0]{follow}{opened} >= 2 }),
   'killed: it comes back by itself');

# the turn goes on in new workers, which are not to wait for it

my $seen = told();
$t->reload();
ok(told(20, sub { $_[0]{once}{opened} > $seen->{once}{opened}
                  || $_[0]{once}{state} == 2 }),
   'reload: it comes back by itself');

# to the end

ok(wait_for(sub { !turn_state($t, $s)->{running} }, 30), 'the turn ends');
ok(told(20, sub { $_[0]{once}{state} == 2 }), 'it stops by itself');

my $all = $t->request(events_of($s));
check_turn($all, 'the turn');

my $got = record(sub { $_[0]{once}{state} == 2 });
is_deeply($got->{once}{packets}, packets_of($all),
          'it got every packet once, in order');
cmp_ok($got->{once}{opened}, '>=', 3, 'it was dropped twice');

# the follower is still there

isnt($got->{follow}{state}, 2, 'follow: did not stop');
my $next = $t->turn($s, 'text:5:24:20');
my $end = ($next->packets())[-1]{id};
ok(told(10, sub { ($_[0]{follow}{last} // '') eq $end }),
   'follow: the next turn');
$got = record(sub { $_[0]{follow}{packets}[-1][0] eq $end });
is_deeply($got->{follow}{packets},
          [@{ packets_of($all) }, @{ packets_of($next) }],
          'follow: both turns, every packet once, in order');
is($got->{once}{state}, 2, 'the other one stays closed');

$browser->stop('TERM', 5);
done_killed($t);


# how the page says it stands, when that is so

sub told {
    my ($seconds, $condition) = @_;
    my $state;

    my $true = wait_for(sub {
        my ($last) = slurp("$t->{dir}/report.log") =~ /(\S+)\n\z/ or return;

        $last =~ s/%([0-9A-F]{2})/chr hex $1/ge;
        $state = $json->decode($last);

        return !$condition || $condition->($state);
    }, $seconds // 5);

    return $condition ? $true : $state;
}


# all it got, when that is so

sub record {
    my ($condition) = @_;
    my $record;

    touch('_report');
    wait_for(sub {
        ($record) = map { $_->{json} } grep { $_->{url} eq '/_record' }
                    reverse @{ $t->control('log') };

        return $record && $condition->($record);
    });
    unlink "$t->{dir}/_report";

    return $record;
}


sub touch {
    my ($name) = @_;

    open my $fh, '>', "$t->{dir}/$name" or die "$name: $!\n";
    close $fh;
}


# as the browser tells them

sub packets_of {
    my ($client) = @_;

    return [map { [$_->{id}, decoded($_->{data})] } $client->packets()];
}


sub decoded {
    my ($bytes) = @_;

    utf8::decode($bytes);

    return $bytes;
}
