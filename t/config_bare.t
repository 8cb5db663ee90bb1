#!/usr/bin/perl

# A module that was built where none of the libraries is that parts of it need:
# it needs none of them, does everything else, and a directive whose library is
# missing says which one.
#
# Broken by: a library that is linked in any case, or whose functions are used
# outside of what it was found for (config); a directive without that check.

use FindBin;
use lib "$FindBin::Bin/lib";

use AgentStream;

my $t = AgentStream->new(nginx => 0);
my $module = $t->build() . '/bare/ngx_http_agentstream_module.so';

plan(skip_all => 'no module without libraries: make bare') unless -e $module;

local $ENV{AGENTSTREAM_MODULE} = $module;

unlike(`ldd $module`, qr/crypto|cjson|md4c|hiredis/, 'no library is needed');

for (['agentstream_store redis://127.0.0.1;', '', qr/built without libhiredis/],
     ['', 'agentstream_owner $remote_user;', qr/needs OpenSSL's libcrypto/],
     ['', 'agentstream_chat telegram /opencode/ secret=x;',
      qr/built with OpenSSL's libcrypto and libcjson/])
{
    my ($http, $location, $error) = @$_;
    my ($name) = "$http$location" =~ /(\w+)/;

    $t->{http} = $http;
    $t->{server} = "location /x { agentstream /opencode/; $location }";

    my ($text, $good) = $t->test_conf();

    ok(!$good, "$name: refused");
    like($text, $error, "$name: what is missing");
}

# the errors above are not of this one
unlink "$t->{dir}/error.log";

$t->{http} = $t->{server} = '';
$t->start_nginx();
check_turn($t->turn($t->session(), 'text:3:24:0'), 'a turn');
is_error_packet($t->turn('@name', 'text:3:24:0')->response(), 501, 'a name');

$t->done();
