#!/usr/bin/perl

# Two users of one real OpenCode and one location: whatever one of them has - a
# session, a name, a turn that runs, a question, a permission request - the
# other one gets 404 for it on every route, in both directions, and nothing of
# it is changed; then each of them does with it what the other could not.
#
# Broken by: a route that does not look at the owner; a question or permission
# request that is found by its own id alone; a cursor that leads into the turn
# of somebody else; a name that is the same session for both.

use FindBin;
use lib "$FindBin::Bin/lib";

use AgentStream;

my $json = JSON::PP->new->utf8->canonical->allow_nonref;

my $t = AgentStream->new(opencode => 'real', timeout => 300, workers => 2,
    config => { permission => { bash => 'ask' } },
    location => 'agentstream_owner $http_x_user;');

my $ask = '!call question {"questions":[{"question":"Which?","header":"Which",'
          . '"options":[{"label":"A","description":"a"}]}]}';
my $bash = '!call bash {"command":"echo x","description":"x"}';

my %user = map { $_ => world($_) } qw(alice bob);

for (['alice', 'bob'], ['bob', 'alice']) {
    foreign(@$_);
}

own($_) for sort keys %user;

$t->done();


sub call {
    my ($user, $method, $path, $body, %headers) = @_;

    return $t->request($method, "/sessions$path", timeout => 60,
        headers => { 'X-User' => $user, %headers },
        $body ? (body => $body) : ());
}


# a session whose turn waits for an answer, by its id, and one by its name whose
# turn waits for a permission

sub world {
    my ($user) = @_;
    my %world;

    for (['question', $json->decode(call($user, 'POST', '', {})->body())->{id},
          "$ask\n!next\n!say \"Asked.\""],
         ['permission', "\@$user-task", "$bash\n!next\n!say \"Allowed.\""])
    {
        my ($kind, $session, $content) = @$_;
        my $c = $t->open('POST', "/sessions/$session/send-message",
                         headers => { 'X-User' => $user },
                         body => { content => $content });
        my $type = $kind eq 'question' ? 'question_asked'
                                       : 'request_permission';
        my $found;

        $t->wait([$c], timeout => 90, until => sub {
            ($found) = grep { $_->{type} eq $type }
                       map { packet_json($_) } $_[0]->packets();
        });

        my $first = packet_json(($c->packets())[0]);

        $world{$kind} = { stream => $c, session => $first->{sessionId},
            turn => $first->{turnId}, path => $session,
            id => $found->{"${kind}Id"} };
        ok($world{$kind}{id}, "$user: a $kind");
    }

    return \%world;
}


# every route, for `who` with what is `whose`

sub foreign {
    my ($who, $whose) = @_;
    my ($his, $hers) = @user{$who, $whose};

    for my $kind ('question', 'permission') {
        my ($q, $p) = map { $hers->{$_}{id} } qw(question permission);
        my %paths = ("their id" => $hers->{$kind}{session},
                     "their name" => "\@$whose-task");

        for my $what (sort keys %paths) {
            for (['GET', ''], ['DELETE', ''], ['GET', '/messages'],
                 ['GET', '/events'],
                 ['GET', "/events?last_event_id=$hers->{$kind}{turn}:1"],
                 ['POST', '/interrupt'],
                 ['POST', "/questions/$q/reply", { answers => [['A']] }],
                 ['POST', "/questions/$q/reject"],
                 ['POST', "/permissions/$p/reply", { reply => 'once' }])
            {
                my ($method, $path, $body) = @$_;
                my $status = call($who, $method, "/$paths{$what}$path", $body)
                               ->status();

                # a name of one's own that nobody has used: nothing to
                # interrupt, no turn

                my $free = $what eq 'their name'
                           && $path =~ m{^/(interrupt|events)};

                ok($status == 404 || $free && $status =~ /^20[04]$/,
                   "$who: $kind: $what: $method " . $path =~ s/\w{12,}/…/gr
                   . ": $status");
            }

            unlike(call($who, 'GET', "/$paths{$what}/turn")->body(),
                   qr/$hers->{$kind}{turn}/, "$who: $kind: $what: no turn");
        }

        is(call($who, 'POST', "/$hers->{$kind}{session}/send-message",
                { content => 'x' }, Accept => 'application/json')->status(),
           404, "$who: $kind: their id: no prompt");

        # what is theirs, in a session of one's own

        for my $own ($his->{question}{path}, $his->{permission}{path}) {
            for (["/questions/$q/reply", { answers => [['A']] }],
                 ["/questions/$q/reject", undef],
                 ["/permissions/$p/reply", { reply => 'always' }])
            {
                is(call($who, 'POST', "/$own$_->[0]", $_->[1])->status(), 404,
                   "$who: $kind: answered in a session of one's own");
            }

            my $c = $t->open('GET', "/sessions/$own/events"
                                    . "?last_event_id=$hers->{$kind}{turn}:1",
                             headers => { 'X-User' => $who });

            $t->wait([$c], timeout => 20, until => sub { $_[0]->packets() });
            unlike($c->body(), qr/$hers->{$kind}{turn}/,
                   "$who: $kind: a cursor of theirs");
            $c->close();
        }
    }

    my %listed = map { $_->{id} => 1 }
                 @{ $json->decode(call($who, 'GET', '')->body()) };

    is_deeply(\%listed, { map { $his->{$_}{session} => 1 } keys %$his },
              "$who: the list has one's own, and nothing else");
}


sub own {
    my ($user) = @_;
    my ($q, $p) = @{ $user{$user} }{qw(question permission)};

    for ($q, $p) {
        like(call($user, 'GET', "/$_->{path}/turn")->body(),
             qr/$_->{turn}.*"running":true.*"$_->{id}"/,
             "$user: it runs, and waits");
    }

    is(call($user, 'POST', "/$q->{path}/questions/$q->{id}/reply",
            { answers => [['A']] })->body(), 'true', "$user: answered");
    is(call($user, 'POST', "/$p->{path}/permissions/$p->{id}/reply",
            { reply => 'once' })->body(), 'true', "$user: allowed");

    ok($t->wait([map { $_->{stream} } $q, $p], timeout => 90),
       "$user: both turns end");
    check_turn($_->{stream}, "$user: a turn") for $q, $p;
    is(joined_text($q->{stream}) . joined_text($p->{stream}),
       'Asked.Allowed.', "$user: what they say");
    is(call($user, 'DELETE', "/$_->{path}")->body(), 'true', "$user: deleted")
        for $q, $p;
}
