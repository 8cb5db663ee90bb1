#!/usr/bin/perl

# Files that a prompt names must lie in its session's directory, which OpenCode
# tells: otherwise the turn fails with 400 and the name of the field, and
# nothing of it reaches OpenCode.
#
# Broken by: a prompt that is sent before the directory is known, a directory
# whose name only begins like the session's, a session that stays taken, an
# answer without its status.

use FindBin;
use lib "$FindBin::Bin/lib";

use AgentStream;
use AgentStream::Attach;

my $t = AgentStream->new(location => 'agentstream_busy queue;');
my $s = $t->session();

$t->control('config', { sessions => { $s => '/work/a' } });

# name, path, whether it is inside

my @cases = (
    ['a file', '/work/a/b.txt', 1], ['one further down', '/work/a/b/c', 1],
    ['the directory', '/work/a', 1], ['with a slash', '/work/a/', 1],
    ['encoded', '/%77ork/a/b%20c', 1], ['some lines', '/work/a/b?start=2', 1],
    ['a neighbour', '/work/ab', 0], ['its file', '/work/ab/c', 0],
    ['the parent', '/work', 0], ['the root', '/', 0],
    ['elsewhere', '/etc/passwd', 0], ['another case', '/Work/a/b', 0],
    ['encoded, elsewhere', '/work/a%20/b', 0],
);

for my $case (@cases) {
    my ($name, $path, $inside) = @$case;

    for my $how (
        ['link', 'content[1].uri', { content => [
            { type => 'text', text => 'text:1:24:0' },
            { type => 'resource_link', uri => "file://$path" }] }],
        ['part', 'parts[2].url', { parts => [
            { type => 'text', text => 'text:1:24:0' },
            { type => 'file', mime => 'text/plain',
              url => 'file:///work/a/first' },
            { type => 'file', mime => 'text/plain',
              url => "file://localhost$path" }] }])
    {
        my ($kind, $field, $body) = @$how;
        my $before = prompts($t, $s);
        my $c = $t->turn($s, $body);

        if ($inside) {
            check_turn($c, "$kind, $name");
            is(prompts($t, $s), $before + 1, "$kind, $name: sent");
            next;
        }

        my $p = is_error_packet($c->response(), 400, "$kind, $name");
        is($p->{message}, qq("$field" must lie in the session's directory),
           "$kind, $name: names the field");
        is(prompts($t, $s), $before, "$kind, $name: not sent");
    }
}

# many of them, and one bad

my @links = map { { type => 'resource_link', uri => "file:///work/a/$_" } }
            1 .. 300;
check_turn($t->turn($s, { content => [{ type => 'text',
    text => 'text:1:24:0' }, @links] }), 'many');
is_error_packet($t->turn($s, { content => [@links,
    { type => 'resource_link', uri => 'file:///work/x' }] })->response(), 400,
    'many, and one outside');

# one that waits in a queue has its place, and is told when it has its turn

my $first = $t->send_message($s, 'text:10:24:30');
hear($t, $first, 1);
my $c = $t->turn($s, { content => [{ type => 'resource_link',
    uri => 'file:///etc/passwd' }] });
is_error_packet($c->response(), 400, 'queued');
$t->wait([$first]);
check_turn($first, 'the one in front');
check_turn($t->turn($s, 'text:1:24:0'), 'and after it');

$t->done();
