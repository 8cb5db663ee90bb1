package AgentStream::Attach;

# Clients that reconnect: GET …/events with a cursor, on a chosen worker; a
# reload with another configuration; the memory of a worker.
#
#     my $t = AgentStream->new(attach(workers => 2));
#     my ($a, $b) = $t->workers();
#     my $c = on_worker($t, $a, send_to($s, 'text:5:24:0'));
#     my $d = on_worker($t, $b, events_of($s, $id));

use strict;
use warnings;

use JSON::PP;
use Test::More;

use AgentStream::Client;
use AgentStream::Process qw(free_ports slurp wait_for);

use Exporter 'import';

our @EXPORT = qw(attach change_conf cpu cut_after done_killed events events_of
                 files hear join_raw kill_worker nothing_left on_worker
                 prompt_numbers prompts restart_nginx rss send_to turn_state);

my $json = JSON::PP->new->utf8->canonical;


# Arguments for an environment whose workers can be told apart.  Each worker
# has its own listening socket, so that connections are distributed over all of
# them.

sub attach {
    my (%args) = @_;
    my ($port) = free_ports(1);

    $args{listen} //= '';
    $args{server} = ($args{server} // '') . "
        listen 127.0.0.1:$port reuseport $args{listen};
        location = /_pid { return 200 \$pid; }";
    $args{location} = ($args{location} // '') . '
            add_header X-Worker $pid always;';

    return (workers => 2, port_pid => $port, %args);
}


# the arguments of open() for these requests

sub events_of {
    my ($session, $id, %args) = @_;
    my $query = $args{query} ? "?$args{query}" : '';

    return ('GET', "/sessions/$session/events$query", headers => {
            Accept => 'text/event-stream',
            defined $id ? ('Last-Event-ID' => $id) : () });
}


sub send_to {
    my ($session, $content, %args) = @_;

    return ('POST', "/sessions/$session/send-message", headers => {
            Accept => 'text/event-stream' },
            body => ref $content ? $content : { content => $content, %args });
}


sub events {
    my ($t, @args) = @_;

    return $t->open(events_of(@args));
}


# sends a request on a connection that this worker has accepted

sub on_worker {
    my ($t, $pid, $method, $path, %args) = @_;
    my $request = $t->http_request($method, $path, %args);
    my $pid_request = $t->http_request('GET', '/_pid', keepalive => 1);

    # The addresses of both sides decide which worker gets a connection.  The
    # kernel may offer the same port again and again, so that the client's
    # address must change.

    for my $try (1 .. 200) {
        my $c = AgentStream::Client->open(port => $t->{port_pid},
                                          from => '127.0.0.' . int 1 + rand 254,
                                          request => $pid_request);
        $t->wait([$c], timeout => 5);

        if (($c->body() // '') eq $pid) {
            $c->{responses} = [];
            return $c->send($request);
        }

        $c->close();
    }

    die "worker $pid accepts nothing\n";
}


sub hear {
    my ($t, $client, $n) = @_;

    return $t->wait([$client], until => sub { $_[0]->packets() >= $n });
}


# Breaks the connection after n packets; what arrived after them was never
# read. -> the cursor for the next connection

sub cut_after {
    my ($t, $client, $n) = @_;

    hear($t, $client, $n);
    $client->close();

    my $packets = $client->response()->{packets};
    splice @$packets, $n if @$packets > $n;

    return $packets->[-1]{id};
}


# what several connections received, as one stream

sub join_raw {
    return join "\n", map { $_->{raw} } map { $_->packets() } @_;
}


# the prompts that OpenCode received for this session

sub prompts {
    my ($t, $session) = @_;

    return scalar grep { m{^POST /session/\Q$session\E/prompt_async} }
                  $t->upstream();
}


# the numbers n=… in these prompts, in order

sub prompt_numbers {
    my ($t, $session) = @_;

    return map { $_->{body} =~ /n=(\d+)/ } grep {
        $_->{url} =~ m{/session/\Q$session\E/prompt_async} }
        @{ $t->control('log') };
}


sub turn_state {
    my ($t, $session) = @_;

    return $json->decode($t->request('GET', "/sessions/$session/turn")
                           ->body());
}


# keeps the ports and changes the text: [pattern => replacement], …

sub change_conf {
    my ($t, @changes) = @_;
    my $file = "$t->{dir}/nginx.conf";
    my $conf = slurp($file);

    for (@changes) {
        my ($pattern, $text) = @$_;
        $conf =~ s/$pattern/$text/ or die "no $pattern in $file\n";
    }

    open my $fh, '>', $file or die "$file: $!\n";
    print $fh $conf;
    close $fh or die "$file: $!\n";
}


# Kills a worker like the kernel would, and waits for its successor.  The
# master's message about that is not an alert of the module. nginx's own count
# of connections is wrong from now on, so it is restarted. -> the pid of the
# new worker

sub kill_worker {
    my ($t, $pid) = @_;
    my %old = map { $_ => 1 } $t->workers();
    my $log = "$t->{dir}/error.log";
    my $new;

    kill 'KILL', $pid or die "no worker $pid\n";

    wait_for(sub { ($new) = grep { !$old{$_} } $t->workers() })
        or die "no new worker\n";
    wait_for(sub { slurp($log) =~ /process $pid exited on signal 9/ })
        or die "nobody missed $pid\n";

    my $text = slurp($log);
    $text =~ s/^.*(process|locked by) $pid\b.*\n//mg;

    open my $fh, '+<', $log or die "$log: $!\n";
    truncate $fh, 0;
    print $fh $text;
    close $fh;

    return $new;
}


sub done_killed {
    my ($t) = @_;

    $t->{active} = $t->active() - $t->control('stats')->{open};
    $t->done();
}


# starts a new nginx on the same ports, as after a crash

sub restart_nginx {
    my ($t) = @_;

    $t->{master}->stop('TERM', 5);

    $t->{master} = AgentStream::Process->start(env => $t->nginx_env(),
        command => [$t->nginx_command()], out => "$t->{dir}/nginx.out");

    wait_for(sub { $t->workers() == $t->{workers} && $t->listening() }, 10)
        or die "nginx did not come back\n";
}


# memory of a process in kilobytes, without what it shares with others

sub rss {
    my ($pid) = @_;

    return slurp("/proc/$pid/status") =~ /^RssAnon:\s+(\d+) kB/m ? $1 : 0;
}


# CPU time of a process, in seconds

sub cpu {
    my ($pid) = @_;
    my @stat = split ' ', slurp("/proc/$pid/stat") =~ s/^.*\) //r;

    return ($stat[11] + $stat[12]) / 100;
}


# the number of descriptors of a process

sub files {
    my ($pid) = @_;
    my @fds = glob "/proc/$pid/fd/*";

    return scalar @fds;
}


# checks that nginx has as many connections, and the worker as many
# descriptors, as at the start

sub nothing_left {
    my ($t, $worker, $files, $name) = @_;
    my ($active, $now);

    ok(wait_for(sub {
        ($active, $now) = ($t->active(), files($worker));
        return $active <= $t->{active} && $now <= $files;
    }, 10), "$name: nothing is left")
        or diag("$active connections, $now descriptors of $files");
}


1;
