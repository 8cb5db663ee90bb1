#!/usr/bin/perl

# Each recipe of docs/recipes.md works as it is printed there: TLS and HTTP/2, a
# proxy in front, several OpenCode servers, and the unit for OpenCode.
#
# Broken by: a configuration that nginx refuses or warns about; packets that a
# proxy collects; a turn that goes to another server than its path says.

use FindBin;
use lib "$FindBin::Bin/lib";

use AgentStream;
use AgentStream::Docs qw(example);
use AgentStream::Process qw(free_ports slurp);

my $page = slurp("$FindBin::Bin/../docs/recipes.md");
my %tested = map { $_ => 1 } qw(tls proxy servers);

is_deeply([grep { !$tested{$_} } $page =~ /^<!-- example: (\w+) -->$/mg], [],
          'every example has a test');

# TLS and HTTP/2

my ($tls) = free_ports(1);
my $t = AgentStream->new(nginx => 0, port_8443 => $tls,
    conf => example('recipes.md', 'tls') =~ s/listen 8443/listen 127.0.0.1:$tls/r);

$t->listen_tls();
$t->start_nginx();
quiet($t, 'tls');
my $c = $t->curl_turn($t->session(), 'text:5:8:0', "https://127.0.0.1:$tls",
                      '-k', '--http2');
$t->wait([$c], timeout => 20);
check_turn($c, 'tls: a turn with HTTP/2');
check_turn($t->turn($t->session(), 'text:5:8:0'), 'tls: a turn without');
$t->finish();

# behind a proxy: the first packets arrive while the turn is running

my ($inner) = free_ports(1);
$t = AgentStream->new(conf => example('recipes.md', 'proxy')
                              =~ s/127\.0\.0\.1:8081/127.0.0.1:$inner/gr);
quiet($t, 'proxy');

$c = $t->send_message($t->session(), 'text:40:8:50');
$t->wait([$c], until => sub { $_[0]->packets() > 3 });
ok(!$c->ended(), 'proxy: packets are not collected');
$t->wait([$c], timeout => 20);
check_turn($c, 'proxy: a turn');
$t->finish();

# many servers

$t = AgentStream->new(nginx => 0, conf => example('recipes.md', 'servers'));
my $second = AgentStream->new(nginx => 0);

$t->{port_second} = $second->{port_opencode};
$t->start_nginx();
quiet($t, 'servers');

my $s = $t->session();
check_turn($t->turn($s, 'text:5:8:0', path => "/two/sessions/$s/send-message"),
           'servers: a turn');
is(scalar(grep { /prompt_async/ } $second->upstream()), 1,
   'servers: on the second one');
is(scalar($t->upstream()), 0, 'servers: and not on the first');
$t->finish();
$second->finish();

# the unit

my ($unit) = $page =~ /^<!-- unit: opencode\.service -->\n```ini\n(.*?)^```$/ms;

like($unit, qr/^ExecStart=\S+ serve --hostname 127\.0\.0\.1 --port 4096$/m,
     'the unit: OpenCode listens on the loopback interface');

SKIP: {
    skip('no systemd-analyze', 1)
        if system('systemd-analyze --version >/dev/null 2>&1');

    my $said = `mkdir -p $t->{dir} && cd $t->{dir} && cat >opencode.service <<'END'
@{[$unit =~ s{^ExecStart=\S+}{ExecStart=/bin/true}mr]}END
systemd-analyze verify ./opencode.service 2>&1`;

    unlike($said, qr/opencode\.service:\d+: (?!.*(?:User|user))/,
           'the unit: systemd understands it') or diag($said);
}

done_testing();


sub quiet {
    my ($t, $name) = @_;

    unlike($t->log_text(), qr/\[(?:warn|emerg|alert)\]/,
           "$name: nothing to warn about") or diag($t->log_text());
}
