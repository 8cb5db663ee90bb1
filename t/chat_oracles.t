#!/usr/bin/perl

# Libraries that others have written judge the module: whether a webhook is
# genuine says Bolt's request verifier for Slack, whatsapp-api-js for WhatsApp
# and grammY for Telegram; and whether a body has the right members and types
# says TypeScript, with the types of grammY and of Slack's own library.
#
# Broken by: a signature over other bytes, a time that is compared with another
# limit, a member of a body that has another name or type.

use strict;
use warnings;

use Cwd qw(abs_path);
use FindBin;

my $root = abs_path("$FindBin::Bin/..");
my $build = $ENV{AGENTSTREAM_BUILD} // "$root/build";
my $program = "$build/unit/chat_bodies";

if (!-x $program) {
    print "1..0 # SKIP $program is not built (make units)\n";
    exit;
}

exec 'node', "$FindBin::Bin/lib/chat/oracles.mjs", $program,
     "$build/npm-chat" or die "node: $!\n";
