package AgentStream;

# The environment of a test: a scripted (or real) OpenCode, an nginx with the
# module, and clients.  It is used like nginx-tests:
#
#     use AgentStream;
#
#     my $t = AgentStream->new(location => 'agentstream_keepalive 1s;');
#     my $c = $t->turn($t->session(), 'replay:text-plain');
#
#     check_turn($c, 'plain text');
#     $t->done();
#
# done() ends every test.  It makes the test fail if there is an alert, a
# report of a sanitizer, a leaked connection, a process that does not exit, or
# a worker that died.

use strict;
use warnings;
use utf8;

use File::Path qw(make_path remove_tree);
use JSON::PP;
use Test::More;
use Time::HiRes qw(sleep time);

use AgentStream::Check;
use AgentStream::Client;
use AgentStream::Nginx;
use AgentStream::OpenCode;
use AgentStream::Process qw(free_ports scaled wait_for);

use Exporter;

our @EXPORT = (@AgentStream::Check::EXPORT, @Test::More::EXPORT,
               qw(scaled wait_for sleep time));

our @ISA = qw(AgentStream::Nginx AgentStream::OpenCode);

my $json = JSON::PP->new->utf8->canonical->allow_nonref;
my $worlds = 0;


sub import {
    strict->import();
    warnings->import();
    utf8->import();

    binmode $_, ':utf8' for map { Test::More->builder->$_() }
                            qw(output failure_output todo_output);

    goto &Exporter::import;
}


# globals, http, server, location, internal: text for these blocks; conf:
# another template; workers, level, tls; opencode: scripted, real, none or a
# port; nginx: 0 to start it later; timeout of the whole test in seconds

sub new {
    my ($class, %args) = @_;
    my ($name) = $0 =~ m{([^/]+?)(?:\.t)?$};
    my $base = $class->build() . "/t/$name";

    my $self = bless { workers => 1, level => $ENV{AGENTSTREAM_LOG} // 'info',
        opencode => 'scripted', nginx => 1, name => $name, sessions => 0,
        %args, dir => "$base.$$." . ++$worlds }, $class;

    local $SIG{__DIE__};
    $SIG{ALRM} = sub { die "$name: the whole test took too long\n" };
    $SIG{PIPE} = 'IGNORE';
    alarm(scaled($self->{timeout} // 60));

    # another test may remove the same directories
    remove_tree((grep { /\.(\d+)\.\d+$/ && !kill 0, $1 } glob "$base.*"),
                { error => \my $gone });
    make_path($self->{dir});

    $self->{port_opencode} = $self->{opencode} eq 'scripted'
        ? $self->start_scripted() : $self->{opencode} eq 'real'
        ? $self->start_real() : $self->{opencode} eq 'none'
        ? (free_ports(1))[0] : $self->{opencode};

    $self->start_nginx() if $self->{nginx};

    return $self;
}


# ---- clients

# a new session for every turn

sub session {
    my ($self) = @_;

    return sprintf 'ses_%012xTest%010d', $$, ++$self->{sessions};
}


# body: bytes, or a hash or list for JSON; headers: {name => value};
# version; port; keepalive

sub http_request {
    my ($self, $method, $path, %args) = @_;
    my $body = $args{body};
    my %headers = (Host => 'localhost', %{ $args{headers} // {} });

    if (ref $body) {
        $body = $json->encode($body);
        $headers{'Content-Type'} //= 'application/json';
    }

    $headers{'Content-Length'} //= length $body if defined $body;
    $headers{Connection} //= 'close' unless $args{keepalive};

    return join '', "$method $path HTTP/" . ($args{version} // '1.1') . "\r\n",
        (map { "$_: $headers{$_}\r\n" } grep { defined $headers{$_} }
         sort keys %headers),
        "\r\n", $body // '';
}


sub open {
    my ($self, $method, $path, %args) = @_;

    return AgentStream::Client->open(port => $args{port} // $self->{port},
        host => $args{port} ? undef : $self->host(),
        rcvbuf => $args{rcvbuf},
        request => $self->http_request($method, $path, %args));
}


sub request {
    my ($self, $method, $path, %args) = @_;
    my $client = $self->open($method, $path, %args);

    $self->wait([$client], %args);

    return $client;
}


# content: text, or a hash for the whole body; path: another path

sub message_request {
    my ($self, $session, $content, %args) = @_;

    return ('POST', $args{path} // "/sessions/$session/send-message", %args,
            headers => { Accept => 'text/event-stream',
                         %{ $args{headers} // {} } },
            body => ref $content ? $content : { content => $content });
}


# starts a turn and leaves its stream open

sub send_message {
    my ($self, @args) = @_;

    return $self->open($self->message_request(@args));
}


# a turn from beginning to end

sub turn {
    my ($self, $session, $content, %args) = @_;
    my $client = $self->send_message($session, $content, %args);

    $self->wait([$client], timeout => 20, %args);

    return $client;
}


# the same with curl, for HTTP/2 and TLS

sub curl_turn {
    my ($self, $session, $content, $base, @args) = @_;

    return AgentStream::Client->curl(@args,
        '-H', 'Content-Type: application/json',
        '-d', $json->encode({ content => $content }),
        "$base/sessions/$session/send-message");
}


sub wait {
    my ($self, $clients, %args) = @_;

    return AgentStream::Client->wait($clients, %args);
}


# ---- the end

sub done {
    my ($self) = @_;

    $self->finish();
    done_testing();
}


# the same for one of several environments of a test

sub finish {
    my ($self) = @_;

    if ($self->{master}) {
        $self->check_connections();
        $self->check_status();
        $self->check_exit();
        $self->check_log();
        $self->check_sanitizer();
    }

    for my $name (qw(proxy fake probe real model)) {
        $self->{$name}->stop('TERM', 10) if $self->{$name};
    }

    alarm(0);

    if (Test::More->builder->is_passing()) {
        remove_tree($self->{dir});

    } else {
        my @log = grep { !/ \[(debug|notice|info)\] / }
                  split /^/, $self->log_text();
        diag("see $self->{dir}\n", @log > 20 ? @log[-20 .. -1] : @log);
    }
}


1;
