package AgentStream::Schema;

# Compares packets with ACP's JSON schema, with util/acp-validate.mjs, and
# knows the accepted deviations: t/data/acp-deviations.json.

use strict;
use warnings;

use File::Temp;
use FindBin;
use JSON::PP;
use Test::More;

use AgentStream::Nginx;
use AgentStream::Process qw(slurp);

use Exporter 'import';

our @EXPORT = qw(check_schema known_deviations schema_report);

my $json = JSON::PP->new->utf8->canonical;


# -> {deviations => {"packet path problem" => why}, own => {packet => why}}

sub known_deviations {
    my $known = $json->decode(slurp("$FindBin::Bin/data/acp-deviations.json"));

    return {
        deviations => { map { deviation($_) => $_->{why} }
                        @{ $known->{deviations} } },
        own => { map { $_->{packet} => $_->{why} } @{ $known->{own} } },
    };
}


sub deviation {
    my ($d) = @_;

    return "$d->{packet} $d->{path} $d->{problem}";
}


# packets as bytes -> {seen => {type => n}, own => [type],
#                      deviations => {"packet path problem" => example}}

sub schema_report {
    my (@data) = @_;
    my $npm = AgentStream::Nginx::build() . '/npm';

    -e "$npm/.version" or die "no $npm: try \"make deps-test\"\n";

    my $file = File::Temp->new();
    print $file map { "$_\n" } @data;
    $file->flush();

    open my $node, '-|', "node $FindBin::Bin/../util/acp-validate.mjs $npm"
                         . " <$file" or die "node: $!\n";
    local $/;
    my $report = $json->decode(scalar <$node> || '{}');

    close $node or die "acp-validate failed: $?\n";
    $report->{deviations} = { map { deviation($_) => $_->{example} }
                              @{ $report->{deviations} } };

    return $report;
}


# checks that there are no deviations except the known ones

sub check_schema {
    my ($name, @data) = @_;

    local $Test::Builder::Level = $Test::Builder::Level + 1;

    my $report = schema_report(@data);
    my $known = known_deviations();
    my @new = grep { !exists $known->{deviations}{$_} }
              sort keys %{ $report->{deviations} };
    my @own = grep { !exists $known->{own}{$_} } @{ $report->{own} };

    ok(!@new, "$name: as ACP's schema has it")
        or diag(map { "$_: $report->{deviations}{$_}\n" } @new);
    is("@own", '', "$name: every packet without a shape in ACP is known");

    return $report;
}


1;
