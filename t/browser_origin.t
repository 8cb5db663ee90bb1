#!/usr/bin/perl

# A real browser, headless Chromium, with a page of another origin: whatever
# it sends, it cannot interrupt a turn.  What needs no preflight is refused
# here, and what is preflighted is refused by the browser.  The same page of
# this origin can.
#
# Broken by: a request without a body that is taken without a look at its
# Origin; an OPTIONS that is answered as if it allowed something.

use FindBin;
use lib "$FindBin::Bin/lib";

use AgentStream;
use AgentStream::Browser;
use AgentStream::Process qw(slurp);

plan(skip_all => 'no chromium') unless chromium();

# in all the ways a page has

my $PAGE = <<'EOF_PAGE';
<!doctype html>
<iframe name="frame"></iframe>
<form method="post" target="frame" enctype="text/plain">
<input name='{"a":"' value='"}'>
</form>
<script>
const [host, session] = location.hash.slice(1).split('/');
const base = `http://${host}/sessions/${session}`;
const url = `${base}/interrupt`;
const json = { 'Content-Type': 'application/json' };

(async () => {
    for (const [to, options] of [
        [url, { mode: 'no-cors' }],
        [url, {}],
        [url, { body: '{}' }],
        [url, { headers: json, body: '{}' }],
        [url, { headers: json, body: '{}', mode: 'no-cors' }],
        [base, { method: 'DELETE' }],
    ]) {
        await fetch(to, { method: 'POST', ...options }).catch(() => {});
    }

    navigator.sendBeacon(url);
    navigator.sendBeacon(url, new Blob(['{}'], { type: 'application/json' }));

    document.forms[0].action = url;
    frames.frame.onunload = () => setTimeout(() => fetch('/done'), 300);
    document.forms[0].submit();
})();
</script>
EOF_PAGE

my $t = AgentStream->new(server => '
        location = /page.html {
            root %%dir%%;
            default_type text/html;
        }
        location = /done {
            access_log %%dir%%/access.log short;
            return 204;
        }',
    location => 'access_log %%dir%%/access.log short;',
    http => 'log_format short "$request_method $uri $status";');

open my $fh, '>', "$t->{dir}/page.html" or die "page: $!\n";
print $fh $PAGE;
close $fh;

my $s = $t->session();
my $turn = $t->send_message($s, 'text:1200:8:50');

$t->wait([$turn], until => sub { $_[0]->packets() > 1 });

my %seen = visit('localhost');

is($seen{"POST /sessions/$s/interrupt 200"}, undef, 'it cannot interrupt');
cmp_ok($seen{"POST /sessions/$s/interrupt 403"} // 0, '>=', 4,
       'what needs no preflight is refused');
cmp_ok($seen{"OPTIONS /sessions/$s/interrupt 405"} // 0, '>=', 1,
       'it is told so before it sends JSON');
cmp_ok($seen{"OPTIONS /sessions/$s 405"} // 0, '>=', 1,
       'and before it deletes');
is(scalar(grep { /^DELETE/ } keys %seen), 0, 'it does not delete');
like($t->request('GET', "/sessions/$s/turn")->body(), qr/"running":true/,
     'the turn runs');

%seen = visit('127.0.0.1');

cmp_ok($seen{"POST /sessions/$s/interrupt 200"} // 0, '>=', 5,
       'the same page of this origin can interrupt');
is($seen{"POST /sessions/$s/interrupt 403"}, undef, 'nothing is refused');
is($seen{"DELETE /sessions/$s 200"}, 1, 'it can delete');

$t->wait([$turn]);
check_turn($turn, 'the turn');
is(packet_json(($turn->packets())[-1])->{stopReason}, 'cancelled',
   'it was interrupted');

$t->done();


# -> how often each request came while the page was open

sub visit {
    my ($host) = @_;
    my $log = "$t->{dir}/access.log";
    my %seen;

    truncate($log, 0);

    my $browser = browse($t, "http://$host:$t->{port}/page.html"
                             . "#127.0.0.1:$t->{port}/$s");

    ok(wait_for(sub { slurp($log) =~ m{^GET /done}m }, 30),
       "a page of $host has tried");
    $browser->stop('TERM', 5);
    $seen{$_}++ for split /\n/, slurp($log);
    note(map { "$seen{$_} $_\n" } sort keys %seen);

    return %seen;
}
