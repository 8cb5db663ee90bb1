#!/usr/bin/perl

# The files that a prompt can make OpenCode itself read, without any
# permission: files in the session's directory, and nothing else.  Each known
# way to read a file elsewhere, or to write into another session, is refused.
#
# Broken by: a spelling of a path that OpenCode's parser reads differently, a
# member of a part that makes it read something else, an @path in what a
# subagent is told, a part with the id of somebody else's.

use FindBin;
use lib "$FindBin::Bin/lib";

use AgentStream;
use MIME::Base64 qw(encode_base64);

my $json = JSON::PP->new->utf8->canonical->allow_nonref;
my $t = AgentStream->new(opencode => 'real', timeout => 180);
my $dir = $t->{workspace};
my $order = { type => 'text', text => '!say "Well."' };
my $secret = 'Quince-and-marrow';

put("$t->{dir}/secret.txt", "$secret\n");
put("$dir/inside file.txt", "one\nGooseberry\nthree\n");

# what is in the directory is read

my %inside = (
    'a link' => { content => [$order, { type => 'resource_link',
        uri => "file://$dir/inside%20file.txt" }] },
    'a part' => { parts => [$order, file("file://$dir/inside%20file.txt")] },
    'a part that is not encoded' => { parts => [$order,
        file("file://localhost$dir/inside file.txt")] },
    'some lines' => { parts => [$order,
        file("file://$dir/inside%20file.txt?start=2&end=2")] },
);

for my $name (sort keys %inside) {
    my $s = $t->create_session();
    my $c = $t->turn($s, $inside{$name}, timeout => 40);

    check_turn($c, $name);
    like(stored($s), qr/Gooseberry/, "$name: read into the prompt");
}

# what is not, is not

my $up = "file://$t->{dir}/secret.txt";
my %outside = (
    'a link' => { content => [$order, { type => 'resource_link',
                                        uri => $up }] },
    'as bytes' => { parts => [$order, { %{ file($up) },
                                        mime => 'image/png' }] },
    'a directory' => { parts => [$order, file("file://$t->{dir}")] },
    'a subtask' => { parts => [{ type => 'subtask', description => 'x',
        agent => 'general',
        prompt => "!say \"Well.\"\n\@$t->{dir}/secret.txt" }] },
    'an MCP resource' => { parts => [$order, { %{ file('data:,x') },
        source => { type => 'resource', clientName => 'x', uri => $up,
                    text => { value => 'x', start => 0, end => 1 } } }] },
    'http' => { parts => [$order,
        file("http://127.0.0.1:$t->{port_opencode}/session")] },
    map { ("a part, $_" => { parts => [$order, file($_)] }) }
        $up, " $up", "\t$up", ucfirst $up, "$up?start=1", "$up#x",
        "file:$t->{dir}/secret.txt", "file:" . substr("$t->{dir}/secret.txt", 1),
        "file://LocalHost$t->{dir}/secret.txt",
        "file://%6cocalhost$t->{dir}/secret.txt",
        (map { "file://$dir/$_" } '../secret.txt', '%2e%2e/secret.txt',
         '.%2E/secret.txt', ".\t./secret.txt", "..\\secret.txt"),
);

for my $name (sort keys %outside) {
    my $s = $t->create_session();
    my $c = $t->turn($s, $outside{$name}, timeout => 40);
    my $p = is_error_packet($c->response(), 400, $name);

    like($p->{message} // '', qr/"(content|parts)\[\d\]\./,
         "$name: names the field");

    my $all = stored($s, $c);
    unlike($all, qr/$secret/, "$name: not read");
    is(index($all, substr encode_base64($secret, ''), 0, 16), -1,
       "$name: nor as bytes");
}

# a part that takes the place of another session's

my $victim = $t->create_session();
check_turn($t->turn($victim, "mine\n!say \"Well.\"", timeout => 40), 'victim');
my $part = $t->messages($victim)->[0]{parts}[0]{id};

my $s = $t->create_session();
my $c = $t->turn($s, { parts => [{ %$order, id => $part }] }, timeout => 40);
is_error_packet($c->response(), 400, "another session's part");
is($t->messages($victim)->[0]{parts}[0]{text}, "mine\n!say \"Well.\"",
   "another session's part: is as it was");

$t->done();


sub file {
    my ($url) = @_;

    return { type => 'file', mime => 'text/plain', url => $url,
             filename => 'x' };
}


sub put {
    my ($path, $text) = @_;

    open my $fh, '>', $path or die "$path: $!\n";
    print $fh $text;
    close $fh;
}


# all that OpenCode has of the session, and of the subagents of its turn

sub stored {
    my ($session, $client) = @_;
    my @children = map { $_->{subagent_session_id} // () }
                   map { packet_json($_) } $client ? $client->packets() : ();

    return join "\n", map { $json->encode($t->messages($_)) } $session,
                      @children;
}
