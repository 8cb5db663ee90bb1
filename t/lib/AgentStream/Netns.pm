package AgentStream::Netns;

# A network of its own for one machine of a test: a namespace with one cable to
# the network of the test.  A cable that is cut carries nothing in both
# directions, and nobody is told: no connection ends.
#
#     my $net = AgentStream::Netns->new() or …;     # where it is not permitted
#     $net->{here}, $net->{there}                   # the addresses at both ends
#     $net->command('nginx', …)                     # how to start a program there
#     $net->cut();  $net->mend();
#
# Addresses are link-local ones, which are not routed anywhere.

use strict;
use warnings;

my $owner = $$;
my $number = 0;
my (%networks, $permitted);


# -> undef: the machine does not permit it

sub new {
    my ($class) = @_;

    return if defined $permitted && !$permitted;

    my $name = "as$$-" . ++$number;
    my $self = bless { name => $name, end => "as" . $$ % 1e6 . "v$number" },
               $class;

    @$self{qw(here there)} = $self->free_network();
    $networks{$name} = $self;

    $permitted = $> == 0 && ip('netns', 'add', $name)
        && ip('link', 'add', $self->{end}, 'type', 'veth', 'peer', 'name',
              'eth0', 'netns', $name)
        && ip('addr', 'add', "$self->{here}/30", 'dev', $self->{end})
        && ip('-n', $name, 'addr', 'add', "$self->{there}/30", 'dev', 'eth0')
        && ip('link', 'set', $self->{end}, 'up')
        && ip('-n', $name, 'link', 'set', 'eth0', 'up')
        && ip('-n', $name, 'link', 'set', 'lo', 'up');

    if (!$permitted) {
        $self->remove();
        return;
    }

    return $self;
}


sub command {
    my ($self, @command) = @_;

    return ('ip', 'netns', 'exec', $self->{name}, @command);
}


# both ends send to an Ethernet address that nobody has

sub cut {
    my ($self) = @_;
    my @nobody = qw(lladdr 02:00:00:00:00:99 nud permanent);

    ip('neigh', 'replace', $self->{there}, 'dev', $self->{end}, @nobody)
        && ip('-n', $self->{name}, 'neigh', 'replace', $self->{here}, 'dev',
              'eth0', @nobody)
        or die "$self->{name}: cannot be cut\n";
}


sub mend {
    my ($self) = @_;

    ip('neigh', 'del', $self->{there}, 'dev', $self->{end});
    ip('-n', $self->{name}, 'neigh', 'del', $self->{here}, 'dev', 'eth0');
}


# with it both ends of the cable go

sub remove {
    my ($self) = @_;

    ip('netns', 'del', $self->{name}) if delete $networks{ $self->{name} };
}


# -> the addresses of both ends, in one of 16,000 networks: tests that run at the
# same time have other process ids, so they have other networks

sub free_network {
    my ($self) = @_;
    my $used = `ip -o addr 2>/dev/null` // '';

    for my $i (0 .. 1999) {
        my $n = (8 * ($$ + $i) + $number) % 16_000;
        my ($net, $at) = ('169.254.' . (1 + int($n / 64)), $n % 64 * 4);
        my @ends = map { "$net." . ($at + $_) } 1, 2;

        return @ends if $used !~ m{\b\Q$ends[0]\E/};
    }

    die "no free network\n";
}


sub ip {
    my @args = @_;

    open my $old, '>&', \*STDERR or die "stderr: $!\n";
    open STDERR, '>', '/dev/null';
    my $rc = system('ip', @args);
    open STDERR, '>&', $old;

    return $rc == 0;
}


END {
    my $status = $?;

    if ($$ == $owner) {
        $_->remove() for values %networks;
    }

    $? = $status;
}


1;
