#!/usr/bin/perl

# The configurations that people begin with, README.md and conf/agentstream.conf:
# turns work with them, and the calls of a turn use the connection of the calls
# before.
#
# Broken by: an example without "keepalive", without "proxy_http_version 1.1" or
# with "Connection: close"; an example that does not parse.

use FindBin;
use lib "$FindBin::Bin/lib";

use AgentStream;
use AgentStream::Nginx;
use AgentStream::Process qw(slurp);

my $top = "$FindBin::Bin/..";

my ($readme) = slurp("$top/README.md") =~ /^```nginx\n(.*?)^```$/ms;

for (['README.md', $readme],
     ['conf/agentstream.conf', slurp("$top/conf/agentstream.conf")])
{
    my ($name, $conf) = @$_;

    $conf =~ s/listen (?:127\.0\.0\.1:)?8080;/listen 127.0.0.1:%%port%%;
        location = \/_status { stub_status; }/;
    $conf =~ s/127\.0\.0\.1:4096/127.0.0.1:%%port_opencode%%/;

    my $t = AgentStream->new(level => 'debug',
                             conf => "$AgentStream::Nginx::HEAD$conf}\n");
    my $id = $t->session();

    check_turn($t->turn($id, 'text:3:5:1'), "$name: turn $_") for 1 .. 4;

    # the event stream has one, and the calls of four turns another

    my $opened = () = $t->log_text() =~ /connect to 127\.0\.0\.1:\d+, fd:/g;
    my $calls = @{ $t->control('log') };

    is($opened, 2, "$name: two connections");
    cmp_ok($calls, '>=', 7, "$name: for $calls requests");

    $t->finish();
}

done_testing();
