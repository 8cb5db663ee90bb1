#!/usr/bin/perl

# A prompt whose answer is lost, late or missing: it is never sent twice, it is
# looked for as long as it may still arrive, and events about it count like the
# answer.
#
# Broken by: a turn that ends when its message is not stored yet; a prompt sent
# again; a turn that waits for the answer though its events are there; one that
# is given up without an abort.

use FindBin;
use lib "$FindBin::Bin/lib";

use AgentStream;
use AgentStream::Attach;

my $t = AgentStream->new(timeout => 120, internal => '
            location /opencode/session/ {
                internal;
                proxy_pass http://127.0.0.1:%%port_opencode%%/session/;
                proxy_http_version 1.1;
                proxy_set_header Connection "";
                proxy_read_timeout 2s;
            }');
my ($s, $c, $began);


# the answer is lost, and the message is stored much later

rules({ url => '/prompt_async', lose => 1 });

for my $start (0, 900, 3000) {
    $s = $t->session();
    $c = $t->turn($s, "text:5:24:2 start=$start");
    good($s, $c, "answer lost, stored after $start ms");
}

# the same, and no event tells of it

$t->control('config', { mute => '/workspace/demo' });
$s = $t->session();
$c = $t->send_message($s, 'text:5:24:2 start=1500');
ok($t->wait([$c], timeout => 25), 'answer lost, no events: ends');
good($s, $c, 'answer lost, no events');
$t->control('config', { mute => 'nothing' });

# the answer is later than the turn, and later than nginx waits for it

for my $late (1500, 6000) {
    rules({ url => '/prompt_async', late => $late });
    $s = $t->session();
    $began = time();
    $c = $t->turn($s, 'text:5:24:2');
    good($s, $c, "answer after $late ms");
    cmp_ok(time() - $began, '<', $late / 1000,
           "answer after $late ms: not waited for");
}

# later than nginx waits for it, and nothing is stored before

rules({ url => '/prompt_async', late => 6000 });
$s = $t->session();
$c = $t->turn($s, 'text:5:24:2 start=5000');
good($s, $c, 'answer and message late');

# the look-up of the session is late: nothing was sent, and it says so

rules({ url => '/session/ses_\w+$', late => 6000, times => 1 });
$s = $t->session();
is_error_packet($t->turn($s, 'text:5:24:2')->response(), 504,
                'session looked up late');
is(prompts($t, $s), 0, 'session looked up late: no prompt');

# it never came: looked for while it may, then aborted, lest it comes

rules({ url => '/prompt_async', drop => 1 });
$s = $t->session();
$began = time();
$c = $t->turn($s, 'text:5:24:2', timeout => 40);
rules();
is_error_packet($c->response(), 502, 'it never came');
like(packet_json(($c->packets())[-1])->{message}, qr/answer .* was lost/,
     'it never came: the error says so');
cmp_ok(time() - $began, '>', 10, 'it never came: not given up at once');
is(prompts($t, $s), 1, 'it never came: one prompt');
is(scalar(grep { m{^POST /session/$s/abort} } $t->upstream()), 1,
   'it never came: aborted');
check_turn($t->turn($s, 'text:3:24:0'), 'it never came: the next turn');

$t->done();


sub rules {
    $t->control('config', { rules => [@_] });
}


sub good {
    my ($session, $client, $name) = @_;

    local $Test::Builder::Level = $Test::Builder::Level + 1;

    check_turn($client, $name);
    check_text($client, $t->messages($session), $name);
    is(packet_json(($client->packets())[-1] // {})->{stopReason}, 'end_turn',
       "$name: ends well");
    is(prompts($t, $session), 1, "$name: one prompt");
}
