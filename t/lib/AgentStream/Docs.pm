package AgentStream::Docs;

# Takes configurations from the documentation, so that the documented examples
# are tested: a block after "<!-- example: NAME -->".

use strict;
use warnings;

use Cwd qw(abs_path);
use FindBin;

use AgentStream::Nginx;
use AgentStream::Process qw(slurp);

use Exporter 'import';

our @EXPORT_OK = qw(example);

my $docs = abs_path("$FindBin::Bin/../docs");


# -> a template for AgentStream->new(conf => …); ports and files of the example
# are replaced with those of the test

sub example {
    my ($page, $name) = @_;
    my ($block) = slurp("$docs/$page") =~
        /^<!-- example: \Q$name\E -->\n```nginx\n(.*?)^```$/ms
        or die "no example $name in $page\n";

    $block =~ s/listen 8080;/listen 127.0.0.1:%%port%%;
        location = \/_status { allow all; stub_status; }/g;
    $block =~ s/127\.0\.0\.1:4096/127.0.0.1:%%port_opencode%%/g;
    $block =~ s/127\.0\.0\.1:4097/127.0.0.1:%%port_second%%/g;
    $block =~ s/127\.0\.0\.1:4098/127.0.0.1:%%port_login%%/g;
    $block =~ s{/(?:etc|var/log)/nginx/}{%%dir%%/}g;

    return "$AgentStream::Nginx::HEAD$block}\n";
}


1;
