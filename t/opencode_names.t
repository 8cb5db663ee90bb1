#!/usr/bin/perl

# Names and owners on OpenCode itself: a task that is continued by its name
# after nginx and OpenCode were started again, and two users who have nothing of
# each other.
#
# Broken by: a session that is created anew although it exists; a session that
# is not an ordinary one (no history, no generated title, not deleted); a
# directory that does not reach OpenCode; a question or permission request that
# the other user can answer.

use FindBin;
use lib "$FindBin::Bin/lib";

use AgentStream;
use AgentStream::Attach qw(restart_nginx);
use File::Path qw(make_path);

my $json = JSON::PP->new->utf8->canonical->allow_nonref;

my $t = AgentStream->new(opencode => 'real', timeout => 600, workers => 2,
    config => { permission => { bash => 'ask' } },
    server => <<'EOF');
        location /tasks {
            agentstream /opencode/;
            agentstream_directory $arg_directory;
        }

        location /users {
            agentstream /opencode/;
            agentstream_owner $http_x_user;
        }
EOF

my @alice = (headers => { 'X-User' => 'alice' });
my @bob = (headers => { 'X-User' => 'bob' });

task();
crowd();
directories();
users();

$t->done();


sub task {
    my $c = send_to('/sessions/@task-42', '!say "First answer."');

    says($c, 'First answer.', 'a task');

    my $id = started($c);
    my $s;

    wait_for(sub {
        $s = $json->decode($t->request('GET', '/sessions/@task-42')->body());
        return $s->{title} !~ /^New session/;
    }, 20);

    is($s->{id}, $id, 'the session of that name');
    unlike($s->{title}, qr/^New session/, 'OpenCode gives it a title');

    restart_nginx($t);
    $t->restart_real();

    $c = send_to('/sessions/@task-42', '!say "Second answer."');
    says($c, 'Second answer.', 'after both were started again');
    is(started($c), $id, 'the same session');

    my @texts = map { $_->{content}{text} }
                grep { $_->{type} eq 'agent_message_chunk' }
                @{ $json->decode($t->request('GET',
                                             '/sessions/@task-42/messages')
                                   ->body()) };

    is(join('', @texts), 'First answer.Second answer.', 'with its history');

    $s = $json->decode($t->request('POST', '/sessions',
                           body => { name => 'task-42', title => 'Renamed' })
                         ->body());
    is("$s->{id} $s->{title}", "$id Renamed", 'POST finds it, and renames it');

    is($t->request('DELETE', '/sessions/@task-42')->body(), 'true', 'deleted');
    is($t->request('GET', '/sessions/@task-42')->status(), 404, 'it is gone');
    is($t->request('GET', '/sessions/@task-42/messages')->status(), 404,
       'and its history');

    $c = send_to('/sessions/@task-42', '!say "Third answer."');
    says($c, 'Third answer.', 'made anew');
    is(started($c), $id, 'with the same id');
}


sub crowd {
    my @all = map {
        $t->open('POST', '/sessions',
                 body => { name => 'crowd', title => 'C' })
    } 1 .. 10;

    $t->wait(\@all);

    my %ids = map { $json->decode($_->body())->{id} => 1 } @all;

    is(scalar keys %ids, 1, 'ten at once get one session');
}


sub directories {
    my $place = "$t->{dir}/task-7";
    make_path($place);

    my $c = send_to('/tasks/@x', '!say "There."', "?directory=$place");

    says($c, 'There.', 'a directory of its own');
    is($json->decode($t->request('GET', "/tasks/\@x?directory=$place")->body())
         ->{directory}, $place, 'is where the session is');
    isnt(started(send_to('/tasks/@x', '!say "Here."')), started($c),
         'without it the name is another session');
}


sub users {
    my $ask = '!call bash {"command":"echo x","description":"x"}';

    my $s = $json->decode($t->request('POST', '/users', @alice)->body());
    my $c = $t->open('POST', "/users/$s->{id}/send-message", @alice,
                     body => { content => "$ask\n!next\n!say \"Done.\"" });

    $t->wait([$c], timeout => 90, until => sub {
        grep { /"request_permission"/ } map { $_->{data} } $_[0]->packets();
    });

    my ($p) = map { packet_json($_) }
              grep { $_->{data} =~ /"request_permission"/ } $c->packets();
    my $reply = "permissions/$p->{permissionId}/reply";
    my $bobs = $json->decode($t->request('POST', '/users', @bob)->body());

    for my $session ($s->{id}, $bobs->{id}, '@x') {
        is($t->request('POST', "/users/$session/$reply", @bob,
                       body => { reply => 'once' })->status(), 404,
           'bob cannot allow it');
    }

    is($t->request('GET', "/users/$s->{id}/messages", @bob)->status(), 404,
       'nor read it');
    is($t->request('DELETE', "/users/$s->{id}", @bob)->status(), 404,
       'nor delete it');
    is($t->request('POST', "/users/$s->{id}/$reply", @alice,
                   body => { reply => 'once' })->body(), 'true',
       'alice can');
    $t->wait([$c], timeout => 90);
    says($c, 'Done.', 'her turn');

    is_deeply([map { $_->{id} } @{ $json->decode($t->request('GET', '/users',
                                                  @alice)->body()) }],
              [$s->{id}], 'she sees her session only');
    is_deeply([map { $_->{id} } @{ $json->decode($t->request('GET', '/users',
                                                  @bob)->body()) }],
              [$bobs->{id}], 'he sees his');
}


sub send_to {
    my ($path, $content, $args) = @_;

    my $c = $t->open('POST', "$path/send-message" . ($args // ''),
                     body => { content => $content });

    $t->wait([$c], timeout => 90);

    return $c;
}


sub says {
    my ($c, $text, $name) = @_;

    check_turn($c, $name);
    is(joined_text($c), $text, "$name: its text");
}


sub started {
    my ($c) = @_;

    return packet_json(($c->packets())[0])->{sessionId};
}
