#!/usr/bin/perl

# What OpenCode itself tells of a provider that fails: the packets, live and in
# the history, have the error's name, message and status, and nothing of the
# provider's answer: no header, no body, no address.
#
# Broken by: details with all of OpenCode's error (error_details() without its
# list); a message that ends with the body, or is JSON (error_message()).

use FindBin;
use lib "$FindBin::Bin/lib";

use AgentStream;

my $json = JSON::PP->new->utf8->canonical;

my $t = AgentStream->new(opencode => 'real', timeout => 120);

# the provider's answer => [status, body, message]

my %answers = (
    'of a form that is known' =>
        [401, { error => { message => 'No key', org => 'SECRET' } }, 'No key'],
    'of an unknown form' =>
        [400, { detail => [{ input => 'SECRET' }] }, 'Bad Request'],
    'that has a message in another place' =>
        [403, { message => 'Not here', org => 'SECRET' },
         'Forbidden: Not here'],
    'retried' =>
        [503, { detail => [{ input => 'SECRET' }] }, 'Service Unavailable'],
);

for my $name (sort keys %answers) {
    my ($status, $body, $message) = @{ $answers{$name} };
    my $retried = $status == 503;

    my $reply = $json->encode({ body => $body, headers => {
            'x-request-id' => 'SECRET',
            $retried ? ('retry-after-ms' => 100) : () },
        $retried ? (times => 1) : () });
    my $session = $json->decode($t->request('POST', '/sessions',
                                            body => {})->body())->{id};
    my $c = $t->turn($session, "!http $status $reply\n!say \"At last.\"");
    my @packets = map { packet_json($_) } $c->packets();

    if ($retried) {
        my ($packet) = grep { $_->{type} eq 'session_status' } @packets;

        is($packet->{message}, $message, "$name: message");

    } else {
        is($packets[-1]{message}, $message, "$name: message");
        is($packets[-1]{code}, $status, "$name: code");
        is_deeply($packets[-1]{details},
                  { name => 'APIError', message => $message,
                    statusCode => $status, isRetryable => JSON::PP::false },
                  "$name: details");
    }

    # the prompt has it, too, but no prompt is told live

    unlike($c->body(), qr/SECRET|127\.0\.0\.1/, "$name: nothing else");

    my $history = $json->decode($t->request('GET',
                                   "/sessions/$session/messages")->body());

    unlike($json->encode([grep { $_->{type} ne 'user_message_chunk' }
                          @$history]),
           qr/SECRET|127\.0\.0\.1/, "$name: nothing else in the history");
}

$t->done();
