#!/usr/bin/perl

# The histograms of agentstream_status count what they say, and a real Prometheus
# can use all of it: it scrapes the status with the configuration of
# docs/operations.md, promtool accepts the metrics and the alerts, and every
# alert's and every panel's expression is evaluated and names only metrics that
# there are.
#
# Broken by: a bucket that is not cumulative, or has another bound than it says; a
# time that is not counted, or counted for a replay; a name in the alerts or in the
# dashboard that no metric has; an expression that Prometheus refuses.

use FindBin;
use lib "$FindBin::Bin/lib";

use AgentStream;
use AgentStream::Process qw(free_ports slurp);
use JSON::PP;

my $json = JSON::PP->new->utf8->canonical;
my $top = "$FindBin::Bin/..";
my $t = AgentStream->new(timeout => 120, workers => 2,
                         location => 'agentstream_event_size 32m;');

# three turns: 300 ms to the first packet, 100 ms later the end

$t->control('config', { rules => [{ url => 'prompt_async', delay => 300,
                                    times => 3 }] });
my @c = map { $t->turn($t->session(), 'text:5:8:20') } 1 .. 3;
check_turn($_, 'a turn') for @c;

my $h;
ok(wait_for(sub {
    $h = $t->status()->{histograms};
    return $h->{turn_duration}{count} == 3;
}, 5), 'each turn has a duration');

is($h->{first_packet}{count}, 3, 'each has a first packet');

# the clients know how long it took at most; not longer if the machine is idle

my @took = map { 1000 * (($_->packets())[0]{time} - $_->{started}) } @c;
my $buckets = $h->{first_packet}{buckets_ms};
my ($early, $sum) = (0, 0);

$early += $buckets->{$_} for grep { $_ ne '+Inf' && $_ <= 250 } keys %$buckets;
$sum += $_ for @took;
note(sprintf 'first packets: %s ms', join ', ', map { sprintf '%.0f', $_ } @took);

is($early, 0, 'none within 250 ms') or diag(explain($buckets));
cmp_ok($buckets->{500}, '>=', scalar(grep { $_ < 500 } @took),
       'after 250 to 500 ms') or diag(explain($buckets));
cmp_ok($h->{first_packet}{sum_ms}, '>=', 900, 'the sum of their times');
cmp_ok($h->{first_packet}{sum_ms}, '<=', $sum + 5, 'the sum is not more');
cmp_ok($h->{turn_duration}{sum_ms}, '>', $h->{first_packet}{sum_ms},
       'turns are longer than their beginning');
cmp_ok($h->{delivery_lag}{count}, '>=', 3, 'packets were delivered');
cmp_ok($h->{delivery_lag}{sum_ms} / $h->{delivery_lag}{count}, '<', 100,
       'at once');

for my $name (sort keys %$h) {
    my $sum = 0;
    $sum += $_ for values %{ $h->{$name}{buckets_ms} };
    is($sum, $h->{$name}{count}, "$name: the buckets add up");
}

# a turn that is replayed has no lag, no first packet, no duration

my $before = $json->encode($h);
my $id = ($c[0]->packets())[0]{id} =~ /^(.*):/ ? $1 : '';
my ($session) = $c[0]->body() =~ /"sessionId":"(\w+)"/;
sleep 0.6;
$t->request('GET', "/sessions/$session/events");
is($json->encode($t->status()->{histograms}), $before, 'a replay changes nothing');

# a client that does not read for a while

my $slow = $t->send_message($t->session(), 'text:200:20000:5', rcvbuf => 65536);
$t->wait([$slow], until => sub { $_[0]->packets() > 1 });
sleep 2.5;
$t->wait([$slow], timeout => 30);
check_turn($slow, 'a slow client');
$h = $t->status()->{histograms}{delivery_lag}{buckets_ms};
cmp_ok($h->{1000} + $h->{2500} + $h->{5000} + $h->{500} + $h->{10000}, '>', 0,
       'a slow client: the lag is seen') or diag(explain($h));

# for Prometheus

my $text = $t->request('GET', '/_agentstream?format=prometheus')->body();
my $status = $t->status();

for my $name (sort keys %{ $status->{histograms} }) {
    my $h = $status->{histograms}{$name};
    my @bucket = $text
        =~ /^agentstream_${name}_seconds_bucket\{le="([^"]+)"\} (\d+)$/mg;
    my ($sum, %want) = (0);

    for my $bound (sort { $a <=> $b } grep { $_ ne '+Inf' }
                   keys %{ $h->{buckets_ms} }) {
        $sum += $h->{buckets_ms}{$bound};
        $want{sprintf '%.3f', $bound / 1000} = $sum;
    }

    $want{'+Inf'} = $h->{count};
    is_deeply({ @bucket }, \%want, "$name: cumulative buckets, in seconds");
    like($text, qr/^agentstream_${name}_seconds_count $h->{count}$/m,
         "$name: the count");

    my $seconds = sprintf '%.3f', $h->{sum_ms} / 1000;
    like($text, qr/^agentstream_${name}_seconds_sum \Q$seconds\E$/m,
         "$name: the sum");
}

# the names in alerts and dashboard

my $alerts = slurp("$top/contrib/prometheus-alerts.yml");
my $dashboard = $json->decode(slurp("$top/contrib/grafana-dashboard.json"));
my %metric = map { $_ => 1 } $text =~ /^(\w+)(?:\{.*\})? [\d.]+$/mg;
my @panels = map { $_->{expr} } map { @{ $_->{targets} } }
             @{ $dashboard->{panels} };
my @alerts;

while ($alerts =~ /^ +expr: (?:>\n((?: {10}.*\n)+)|(.*)\n)/mg) {
    push @alerts, ($1 // $2) =~ s/\s+/ /gr;
}

cmp_ok(scalar @alerts, '>', 7, 'there are alerts');
cmp_ok(scalar @panels, '>', 15, 'there are panels');

for my $expr (@alerts, @panels) {
    is_deeply([grep { !$metric{$_} } $expr =~ /(agentstream_\w+)/g], [],
              "only metrics that there are: $expr");
}

# a real Prometheus

my ($bin) = grep { -x "$_/promtool" && -x "$_/prometheus" }
            '/usr/bin', "$top/build/prometheus/usr/bin",
            ($ENV{AGENTSTREAM_BUILD} // '') . '/prometheus/usr/bin';

SKIP: {
    skip('no Prometheus: util/deps test', 1) unless $bin;

    my $port = (free_ports(1))[0];
    my ($conf) = slurp("$top/docs/operations.md")
        =~ /^<!-- example: prometheus -->\n```yaml\n(.*?)^```$/ms;

    $conf =~ s/127\.0\.0\.1:8080/127.0.0.1:$t->{port}/;
    $conf =~ s{metrics_path: /status}{metrics_path: /_agentstream};

    write_file("$t->{dir}/prometheus.yml", "global:\n  scrape_interval: 1s\n"
        . "rule_files: ['$top/contrib/prometheus-alerts.yml']\n$conf");
    write_file("$t->{dir}/metrics", $text);

    is(system("$bin/promtool check config $t->{dir}/prometheus.yml"
              . " >$t->{dir}/promtool.out 2>&1"), 0, 'promtool: configuration')
        or diag(slurp("$t->{dir}/promtool.out"));
    is(system("$bin/promtool check rules $top/contrib/prometheus-alerts.yml"
              . " >$t->{dir}/promtool.out 2>&1"), 0, 'promtool: alerts')
        or diag(slurp("$t->{dir}/promtool.out"));
    is(system("$bin/promtool check metrics <$t->{dir}/metrics"
              . " >$t->{dir}/promtool.out 2>&1") & 255, 0,
       'promtool: metrics are understood');
    unlike(slurp("$t->{dir}/promtool.out"), qr/error|parsing/i,
           'promtool: metrics, no error');

    my $prometheus = AgentStream::Process->start(
        out => "$t->{dir}/prometheus.log",
        command => ["$bin/prometheus",
            "--config.file=$t->{dir}/prometheus.yml",
            "--storage.tsdb.path=$t->{dir}/data",
            "--web.listen-address=127.0.0.1:$port"]);

    my $scraped = wait_for(sub {
        my $r = eval { query($port, 'count(agentstream_turns_started_total'
                             . ' offset 2s) and on() up == 1') };
        return $r && @{ $r->{data}{result} };
    }, 30);

    ok($scraped, 'it scrapes') or diag(slurp("$t->{dir}/prometheus.log"));

    # some alerts count over time

    $t->turn($t->session(), 'text:2:8:0');
    sleep 2;

    my ($quantile) = grep { /0\.95.*first_packet/ } @panels;

    $quantile =~ s/\$__rate_interval/1m/g;
    $quantile =~ s/\$instance/.*/g;
    wait_for(sub { my $r = eval { query($port, $quantile) };
                   $r && @{ $r->{data}{result} } }, 15);

    for my $expr (@alerts, @panels) {
        my $r = query($port, $expr =~ s/\$__rate_interval/30s/gr
                             =~ s/\$instance/.*/gr);
        is($r->{status}, 'success', "evaluated: $expr")
            or diag(explain($r));
    }

    my $r = query($port, $quantile);
    cmp_ok(scalar @{ $r->{data}{result} }, '==', 1, 'a quantile has a value');

    $r = $json->decode(get($port, '/api/v1/rules'));
    my @rules = map { @{ $_->{rules} } } @{ $r->{data}{groups} };
    is(scalar @rules, scalar @alerts, 'all alerts are loaded');
    is_deeply([grep { ($_->{health} // '') eq 'err' } @rules], [],
              'none has an error');

    $prometheus->stop('TERM', 10);
}

$t->done();


sub get {
    my ($port, $path) = @_;

    return $t->request('GET', $path, port => $port, timeout => 10)->body();
}


sub query {
    my ($port, $expr) = @_;
    my $q = $expr =~ s/([^A-Za-z0-9])/sprintf '%%%02X', ord $1/ger;

    return $json->decode(get($port, "/api/v1/query?query=$q"));
}


sub write_file {
    my ($name, $content) = @_;

    CORE::open my $fh, '>', $name or die "$name: $!\n";
    print $fh $content;
    close $fh or die "$name: $!\n";
}
