package AgentStream::Nginx;

# The nginx of a test: its configuration, its processes, its log, and the
# checks of all three at the end.

use strict;
use warnings;

use Cwd qw(abs_path);
use File::Path qw(make_path);
use FindBin;
use IO::Socket::INET;
use JSON::PP;
use Test::More;

use AgentStream::Process qw(free_ports slurp wait_for);

my $root = abs_path("$FindBin::Bin/..");

# the start of every configuration, up to its servers

our $HEAD = <<'EOF';
%%globals%%

%%user%%
daemon off;
worker_processes %%workers%%;
error_log %%dir%%/error.log %%level%%;
pid %%dir%%/nginx.pid;

events {
    worker_connections 4096;
}

http {
    access_log off;
    client_body_temp_path %%dir%%/body;
    proxy_temp_path %%dir%%/proxy;
    fastcgi_temp_path %%dir%%/fastcgi;
    uwsgi_temp_path %%dir%%/uwsgi;
    scgi_temp_path %%dir%%/scgi;

    %%http%%

EOF

our $TEMPLATE = $HEAD . <<'EOF';
    server {
        listen %%host%%:%%port%%;
        listen %%host%%:%%port_h2%% http2;
        %%listen_tls%%

        %%server%%

        location /sessions {
            agentstream /opencode/;
            %%location%%
        }

        location /opencode/ {
            internal;
            proxy_pass http://%%host_opencode%%:%%port_opencode%%/;
            proxy_http_version 1.1;
            proxy_set_header Connection "";
            proxy_read_timeout 1h;
            %%internal%%
        }

        location = /_status {
            stub_status;
        }

        location = /_agentstream {
            agentstream_status;
        }
    }
}
EOF


sub conf {
    my ($self) = @_;

    my @ports = free_ports(3);
    $self->{$_} = shift @ports for qw(port port_h2 port_tls);

    my %value = (%$self, host => $self->host(),
        host_opencode => $self->{network} ? $self->{network}{here}
                                          : '127.0.0.1',
        port_opencode => $self->{port_upstream} // $self->{port_opencode},
        user => $> == 0 ? 'user root;' : '',
        globals => (module() ? 'load_module ' . module() . ";\n" : '')
                   . ($self->{globals} // ''),
        listen_tls => $self->{tls} ? $self->listen_tls() : '');

    my $conf = $self->{conf} // $TEMPLATE;

    1 while $conf =~ s/%%(\w+)%%/$value{$1} \/\/ ''/ge;

    return $conf;
}


# where nginx listens; with a network of its own (AgentStream::Netns), there

sub host {
    my ($self) = @_;

    return $self->{network} ? $self->{network}{there} : '127.0.0.1';
}


sub listen_tls {
    my ($self) = @_;
    my $dir = $self->{dir};

    system("openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=test "
           . "-keyout $dir/key.pem -out $dir/cert.pem >/dev/null 2>&1") == 0
        or die "openssl req failed\n";

    return "listen 127.0.0.1:%%port_tls%% ssl http2;\n"
           . "ssl_certificate $dir/cert.pem;\n"
           . "ssl_certificate_key $dir/key.pem;";
}


sub build {
    return $ENV{AGENTSTREAM_BUILD} // "$root/build";
}


# empty when it is linked into nginx

sub module {
    return $ENV{AGENTSTREAM_MODULE}
           // build() . '/ngx_http_agentstream_module.so';
}


sub nginx_command {
    my ($self, @args) = @_;

    return ($ENV{AGENTSTREAM_NGINX} // 'nginx', '-p', $self->{dir},
            '-c', "$self->{dir}/nginx.conf",
            '-e', "$self->{dir}/error.log", @args);
}


# a sanitized nginx writes its reports to a directory of this test

sub nginx_env {
    my ($self) = @_;
    my $preload = $ENV{AGENTSTREAM_PRELOAD};

    my %own = %{ $self->{env} // {} };

    return \%own unless $ENV{AGENTSTREAM_ASAN};

    make_path($self->{asan} = "$self->{dir}/asan");

    return { %own, AGENTSTREAM_ASAN => $self->{asan}, $preload ? (
             LD_PRELOAD => join(' ', $preload, $own{LD_PRELOAD} // ()),
             ASAN_OPTIONS => "detect_leaks=0:log_path=$self->{asan}/report",
             ) : () };
}


sub write_conf {
    my ($self) = @_;

    my $conf = $self->conf();

    open my $fh, '>', "$self->{dir}/nginx.conf" or die "conf: $!\n";
    print $fh $conf;
    close $fh or die "conf: $!\n";
}


# -> the output of nginx -t, and whether the configuration is good

sub test_conf {
    my ($self) = @_;

    $self->write_conf();
    my $out = "$self->{dir}/test.log";
    unlink $out;

    my $process = AgentStream::Process->start(env => $self->nginx_env(),
        command => [$self->nginx_command('-t')], out => $out);
    my $status = wait_for(sub { $process->exited() }) && $process->{status};

    return (slurp($out), defined $status && $status == 0);
}


sub start_nginx {
    my ($self) = @_;

    for my $try (1 .. 3) {
        $self->write_conf();

        my $nginx = AgentStream::Process->start(env => $self->nginx_env(),
            command => [$self->{network}
                        ? $self->{network}->command($self->nginx_command())
                        : $self->nginx_command()],
            out => "$self->{dir}/nginx.out");

        $self->{master} = $nginx;

        wait_for(sub { $nginx->exited() || $self->listening() }, 10);
        last unless $nginx->exited();

        my $log = slurp("$self->{dir}/error.log")
                  . slurp("$self->{dir}/nginx.out");
        die "nginx did not start, status $nginx->{status}: $log\n"
            if $try == 3 || $log !~ /Address already in use/;
        unlink "$self->{dir}/error.log";
    }

    wait_for(sub { $self->workers() == $self->{workers} })
        or die "nginx has no workers\n";

    # the connection that tested whether nginx listens may still be open
    wait_for(sub { ($self->{active} = $self->active()) == 1 }, 5);

    return $self;
}


sub listening {
    my ($self) = @_;

    return -s "$self->{dir}/nginx.pid" && IO::Socket::INET->new(
        PeerAddr => $self->host(), PeerPort => $self->{port});
}


sub workers {
    my ($self) = @_;

    return AgentStream::Process::children($self->{master}{pid});
}


# -> the pids of the workers that must exit now

sub reload {
    my ($self) = @_;
    my @old = $self->workers();
    my %old = map { $_ => 1 } @old;

    $self->{master}->signal('HUP');
    wait_for(sub { $self->{workers} == grep { !$old{$_} } $self->workers() })
        or die "no new workers\n";

    return @old;
}


# stub_status: this request, and what the test has left open

sub active {
    my ($self) = @_;

    return $self->request('GET', '/_status')->body()
           =~ /^Active connections: (\d+)/ ? $1 : -1;
}


# agentstream_status, all workers together

sub status {
    my ($self) = @_;

    return decode_json($self->request('GET', '/_agentstream')->body());
}


sub log_text {
    my ($self) = @_;

    return -e "$self->{dir}/error.log" ? slurp("$self->{dir}/error.log") : '';
}


# ---- the end

sub check_connections {
    my ($self) = @_;

    return if $self->{master}->exited();

    # an idle hub is still open for a while
    my ($left, $hubs);

    ok(wait_for(sub {
        $left = $self->active() - $self->{active};
        $hubs = $self->{fake} ? $self->control('stats')->{open} : 1;

        return $left == 0 || $left == $hubs;
    }, 10), 'no leaked connection') or diag("$left left, $hubs hubs");
}


# every stream and request that was counted must have ended, and so must every
# turn that is not running; an environment with its own configuration may have
# no status

sub check_status {
    my ($self) = @_;

    return if $self->{conf} || $self->{master}->exited();

    my $status;

    ok(wait_for(sub {
        $status = eval { $self->status() } // return 0;

        my $turns = $status->{turns};
        my $ended = 0;

        $ended += $turns->{$_} for qw(completed cancelled failed running);

        return $status->{streams}{open} == 0
               && $status->{opencode}{requests_active} == 0
               && $turns->{started} == $ended;
    }, 10), 'the status adds up') or diag(explain($status // $@));
}


sub check_exit {
    my ($self) = @_;
    my @workers = $self->workers();
    my $gone = $self->{master}->exited();
    my $status = $self->{master}->stop('QUIT', 10);

    ok($gone || defined $status && $status == 0, 'nginx exits by itself')
        or diag('exit status ' . ($status // 'none, killed'));
    ok(wait_for(sub { !grep { kill 0, $_ } @workers }, 1), 'all workers gone');
}


sub check_log {
    my ($self) = @_;

    my @bad = grep { / \[(alert|crit|emerg)\] /
                     || /exited (on signal|with code [1-9])/ }
              grep { !$self->{expected} || !/$self->{expected}/ }
              split /^/, $self->log_text();

    ok(!@bad, 'no alerts') or diag(@bad);
}


sub check_sanitizer {
    my ($self) = @_;

    return unless $self->{asan};

    my @reports = grep { -s } glob "$self->{asan}/*";

    ok(!@reports, 'no sanitizer reports') or diag(map { slurp($_) } @reports);
}


1;
