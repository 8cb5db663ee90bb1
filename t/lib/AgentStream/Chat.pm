package AgentStream::Chat;

# The chat platforms of a test (chat.mjs), and the people who chat there.

use strict;
use warnings;

use FindBin;
use HTTP::Tiny;
use JSON::PP;

use AgentStream::Process qw(slurp wait_for);

my $json = JSON::PP->new->utf8->canonical->allow_nonref;


# dir => where its output goes

sub start {
    my ($class, %args) = @_;

    my $self = bless { log => "$args{dir}/chat.log" }, $class;

    $self->{process} = AgentStream::Process->start(
        command => ['node', "$FindBin::Bin/lib/chat.mjs"],
        out => $self->{log});

    wait_for(sub { slurp($self->{log}) =~ /^listening (\d+) (\d+)$/m
                   && (@$self{qw(control api)} = ($1, $2)) }, 30)
        or die 'chat.mjs did not start: ' . slurp($self->{log}) . "\n";

    return $self;
}


sub stop {
    my ($self) = @_;

    return $self->{process}->stop();
}


# The internal locations /telegram-api/, /slack-api/ and /whatsapp-api/, which
# lead to the platforms, as docs/chats.md shows them.  more: directives for each
# of them

sub locations {
    my ($self, $more) = @_;

    my $at = "http://127.0.0.1:$self->{api}";
    my $common = "internal; proxy_http_version 1.1; " . ($more // '');

    return join '', map {
        my ($location, $to, $token) = @$_;

        "location $location { $common proxy_pass $at/$to;"
        . ($token ? " proxy_set_header Authorization \"Bearer $token\";" : '')
        . " }\n"
    } ['/telegram-api/', 'telegram/bot42:AAtest-token/'],
      ['/telegram-api/file/', 'telegram/file/bot42:AAtest-token/'],
      ['/slack-api/', 'slack/api/', 'xoxb-test-token'],
      ['/slack-api/file/', 'slack/files/', 'xoxb-test-token'],
      ['/whatsapp-api/', 'whatsapp/v23.0/', 'EAAtest-token'],
      ['/whatsapp-api/file/', 'whatsapp/lookaside/', 'EAAtest-token'];
}


# secrets and verify words, as chat.mjs has them

sub secret {
    my ($self, $platform) = @_;

    return { telegram => 'telegram-s3cret', slack => 'slack-s1gning-secret',
             whatsapp => 'whatsapp-app-secret',
             verify => 'whatsapp-verify-word' }->{$platform};
}


sub http {
    my ($method, $url, $body, %headers) = @_;

    return HTTP::Tiny->new(timeout => 60, max_redirect => 0)->request($method,
        $url, { headers => { 'Content-Type' => 'application/json', %headers },
                defined $body ? (content => ref $body ? $json->encode($body)
                                                      : $body) : () });
}


# a call to a platform's API, as the bot makes it: the path after the platform
# -> status, JSON

sub api {
    my ($self, $path, $body) = @_;

    my $token = { slack => 'xoxb-test-token',
                  whatsapp => 'EAAtest-token' }->{ ($path =~ /(\w+)/)[0] };

    my $res = http(defined $body ? 'POST' : 'GET',
                   "http://127.0.0.1:$self->{api}/$path", $body,
                   $token ? (Authorization => "Bearer $token") : ());

    return ($res->{status}, eval { $json->decode($res->{content}) }
                            // $res->{content});
}


# the control API; a hash is sent as JSON

sub control {
    my ($self, $what, $body) = @_;

    my $res = http(defined $body ? 'POST' : 'GET',
                   "http://127.0.0.1:$self->{control}/_test/$what", $body);

    $res->{success} or die "_test/$what: $res->{status} $res->{content}\n";

    return $json->decode($res->{content});
}


sub config { my ($self, %args) = @_; return $self->control('config', \%args) }
sub say { my ($self, %args) = @_; return $self->control('say', \%args) }
sub press { my ($self, %args) = @_; return $self->control('press', \%args) }
sub again { my ($self, %args) = @_; return $self->control('again', \%args) }
sub state { my ($self) = @_; return $self->control('state') }


# the messages of a chat; with bot => 1: only those of the bot

sub messages {
    my ($self, $platform, $chat, %args) = @_;

    my @messages = @{ $self->control("chat?platform=$platform&chat=$chat") };

    return $args{bot} ? grep { $_->{bot} } @messages : @messages;
}


# waits for a message of the bot that matches

sub wait_message {
    my ($self, $platform, $chat, $regex, $seconds) = @_;

    return wait_for(sub {
        my ($m) = grep { $_->{text} =~ $regex }
                       $self->messages($platform, $chat, bot => 1);
        $m;
    }, $seconds // 10);
}


# calls of the bot: all of them, or those of a method

sub calls {
    my ($self, $platform, $method) = @_;

    return grep { (!$platform || $_->{platform} eq $platform)
                  && (!$method || $_->{method} eq $method) }
                @{ $self->control('log') };
}


1;
