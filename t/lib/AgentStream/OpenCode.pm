package AgentStream::OpenCode;

# The OpenCode of a test: the scripted one, which a test controls and queries
# through its control API (opencode.mjs), or the real one.

use strict;
use warnings;

use Cwd qw(abs_path);
use FindBin;
use JSON::PP;
use MIME::Base64 qw(encode_base64);

use AgentStream::Process qw(free_ports slurp wait_for);

my $root = abs_path("$FindBin::Bin/..");
my $json = JSON::PP->new->utf8->canonical->allow_nonref;


sub start_scripted {
    my ($self) = @_;

    return $self->start_server('fake', qr/^listening (\d+)$/m, 'node',
                               "$FindBin::Bin/lib/opencode.mjs");
}


# OpenCode itself, with the scripted model of util/model.mjs behind it

sub start_real {
    my ($self) = @_;
    my ($port) = free_ports(1);

    $self->{port_real} = $port;

    my $url = $self->start_server('model', qr/^model: (\S+)$/m, 'node',
                                  "$root/util/model.mjs", $self->{model_log}
                                  ? ('--log', "$self->{dir}/model.requests")
                                  : ());

    $self->{workspace} = "$self->{dir}/workspace";
    $self->{real_command} = ["$root/util/opencode", '--port', $port,
        '--home', $self->{home} // "$self->{dir}/home",
        '--workspace', $self->{workspace}, '--model-url', $url,
        '--password', $self->{password} // '',
        '--config', $json->encode($self->{config} // {})];

    return $self->serve_real($port);
}


sub serve_real {
    my ($self, $port) = @_;

    $self->start_server('real', qr/listening on \S+?:($port)\b/,
                        @{ $self->{real_command} });

    wait_for(sub {
        ($self->request('GET', '/session', port => $port, headers =>
            $self->password())->status() // 0) == 200
    }, 120) or die "OpenCode does not answer\n";

    return $port;
}


# the header that its password needs

sub password {
    my ($self) = @_;

    return defined $self->{password} ? { Authorization => 'Basic '
        . encode_base64("opencode:$self->{password}", '') } : {};
}


# kills OpenCode, and starts another one with its data

sub restart_real {
    my ($self) = @_;

    $self->{real}->stop('KILL', 5);
    unlink "$self->{dir}/real.log";
    $self->serve_real($self->{port_real});
}


# -> what it prints when it is ready

sub start_server {
    my ($self, $name, $ready, @command) = @_;
    my $log = "$self->{dir}/$name.log";

    $self->{$name} = AgentStream::Process->start(
        command => \@command, out => $log);

    my $said = wait_for(sub { slurp($log) =~ $ready && $1 }, 120)
        or die "@command did not start: " . slurp($log) . "\n";

    return $said;
}


# the proxy in front of OpenCode (proxy.mjs), and requests to it

sub start_proxy {
    my ($self) = @_;

    $self->{port_proxy} = $self->start_server('proxy',
        qr/^listening (\d+)$/m, 'node', "$FindBin::Bin/lib/proxy.mjs",
        $self->{port_opencode});
}


sub proxy {
    my ($self, $op, %args) = @_;

    my $c = $self->request('POST', '/', port => $self->{port_proxy},
                           body => { op => $op, %args }, timeout => 20);

    return $json->decode($c->body());
}


# the scripted OpenCode's control API; a hash or list is sent as JSON

sub control {
    my ($self, $what, $body) = @_;

    my $c = $self->request(defined $body ? 'POST' : 'GET', "/_test/$what",
        port => $self->{port_opencode}, body => $body);

    return $json->decode($c->body());
}


# the requests with a body that the scripted OpenCode has got on paths like this

sub posted {
    my ($self, $path) = @_;

    return grep { $_->{method} eq 'POST' && $_->{url} =~ $path }
           @{ $self->control('log') };
}


# creates a session in OpenCode itself, not through the module

sub create_session {
    my ($self, %args) = @_;

    my $c = $self->request('POST', '/session', port => $self->{port_opencode},
                           body => {}, %args);

    return $json->decode($c->body())->{id};
}


# "METHOD url" of each request that OpenCode received

sub upstream {
    my ($self) = @_;

    return map { "$_->{method} $_->{url}" } @{ $self->control('log') };
}


sub messages {
    my ($self, $session) = @_;

    my $c = $self->request('GET', "/session/$session/message",
                           port => $self->{port_opencode});

    return $json->decode($c->body());
}


1;
