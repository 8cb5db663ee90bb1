#!/usr/bin/perl

# Sentinels, and a master that wants user and password, each with its own,
# without and with TLS: two machines find the master and the next one.  A wrong
# password, and a certificate that is not the server's, are not accepted.
#
# Broken by: a login that is sent to the wrong one, or without its user; TLS to
# the master or the Sentinels only; an address that is looked for among the names
# of a certificate, or not at all.

use FindBin;
use lib "$FindBin::Bin/lib";

use AgentStream;
use AgentStream::Attach;
use AgentStream::Machines;
use AgentStream::Process qw(slurp);
use AgentStream::Sentinel;

my ($rights) = slurp("$FindBin::Bin/../docs/machines.md")
               =~ /^  ACL SETUSER agentstream (.*?)^  ```$/ms
    or die "no rights in docs/machines.md\n";

# replicas have users of their own
my %redis = (requirepass => 'master', masterauth => 'master',
             user => ['agentstream', split ' ', $rights]);

# "make test" has one of them
for my $tls ($ENV{AGENTSTREAM_MACHINES} ? 0 : (), 1) {
    my $name = $tls ? 'TLS' : 'plain';
    my $sentinel = AgentStream::Sentinel->new(redis => \%redis,
                       login => 'agentstream:password@');
    my ($m, $address);

    $m = AgentStream::Machines->new(2, tls => $tls, redis => \%redis,
        store => sub { $address = $sentinel->start($_[0]) });

    # without the one where nobody listens: only the first fault is told
    $address =~ s/\@127[^,@]+,/\@/;
    my ($x, $y) = $m->machines();
    my $s = $x->session();
    my $c = $x->turn($s, 'text:3:24:5');

    check_turn($c, "$name: a turn");
    is(join_raw($y->request(events_of($s))), join_raw($c), "$name: elsewhere");
    like($m->redis('CLIENT', 'LIST'), qr/user=agentstream/, "$name: the user");

    refused($m, $name, 'another password', $address =~ s/:password@/:wrong@/r,
            qr/:$m->{port} is lost: WRONGPASS/);
    refused($m, $name, 'another user', $address =~ s/agentstream:/nobody:/r,
            qr/:$m->{port} is lost: WRONGPASS/);
    refused($m, $name, "another password of the Sentinels",
            $address =~ s/=:open/=:closed/r,
            qr/:$sentinel->{port} is lost: WRONGPASS/);

    certificates($m, $address) if $tls;
    fails_over($m, $sentinel, $name);

    $sentinel->stop();
    $m->finish();
}

done_testing();


# a machine that does not get through

sub refused {
    my ($m, $name, $what, $address, $why) = @_;
    my $t = AgentStream->new(nginx => 0, workers => 1,
                             opencode => $m->{first}{port_opencode});

    $t->{http} = "agentstream_store $address;";
    $t->{fake} = $m->{first}{fake};
    $t->start_nginx();
    ok(wait_for(sub { $t->log_text() =~ $why }, 10), "$name, $what: told");
    is($t->status()->{store}{connected}, 0, "$name, $what: not connected");
    unlike($t->log_text(), qr/:wrong|closed@/, "$name, $what: not in the log");

    delete $t->{fake};
    $t->{active} = $t->active();
    $t->check_exit();
    $t->check_log();
}


# the address of the servers is not in the certificate that is trusted, or they
# are called by a name that is not in it

sub certificates {
    my ($m, $address) = @_;

    refused($m, 'TLS', 'a name', $address =~ s/127\.0\.0\.1:/localhost:/gr,
            qr/localhost:\d+ is lost: its certificate is not accepted/);

    my $other = bless { dir => "$m->{dir}/other" }, 'AgentStream::Machines';
    mkdir $other->{dir};
    $other->make_certificate();
    refused($m, 'TLS', 'not trusted', $address =~ s/\Q$m->{cert}/$other->{cert}/r,
            qr/is lost: its certificate is not accepted/);
}


sub fails_over {
    my ($m, $sentinel, $name) = @_;
    my ($x, $y) = $m->machines();
    my $s = $x->session();
    my $c = $x->send_message($s, 'text:50:24:100');

    hear($x, $c, 4);
    my $d = $y->open(events_of($s));
    hear($y, $d, 5);
    $m->{redis}->stop('KILL', 5);
    $m->{port} = $sentinel->{port_replica};

    ok(wait_for(sub { 2 == grep { $_->log_text()
                                  =~ /connected to \S+:$m->{port}\b/ } $x, $y },
                30), "$name: both machines use the next master");
    ok($x->wait([$c, $d], timeout => 20), "$name: both end");
    is(join_raw($d), join_raw($c), "$name: the same over the failover");
    is($y->turn($s, 'text:1:24:0')->status(), 200, "$name: the next turn");
}
