package AgentStream::Browser;

# A real browser for a test: headless Chromium with one page.

use strict;
use warnings;

use AgentStream::Process;

use Exporter 'import';

our @EXPORT = qw(browse chromium);


# -> its path, or nothing

sub chromium {
    my ($chromium) = grep { -x } map { "$_/chromium" } split /:/, $ENV{PATH};

    return $chromium;
}


# opens a page; -> the process, which the test must stop

sub browse {
    my ($t, $url) = @_;

    return AgentStream::Process->start(out => "$t->{dir}/chromium.log",
        command => [chromium(), qw(--headless --no-sandbox --disable-gpu
            --disable-quic --no-first-run --disable-background-networking
            --disable-component-update --disable-sync --disable-extensions
            --disable-dev-shm-usage),
            "--user-data-dir=$t->{dir}/chromium", $url]);
}


1;
