#!/usr/bin/perl

# agentstream_fields, agentstream_agent, agentstream_model: a client can send
# only the fields that the location allows, and the fields it may not choose
# are set for it, in prompts and in new sessions.
#
# Broken by: a field that is passed on though it is not listed, a value that is
# set only in one of the two, or beside the client's, a value that is not
# escaped, an agent or model chosen by way of a part.

use FindBin;
use lib "$FindBin::Bin/lib";

use AgentStream;

my $json = JSON::PP->new->utf8->canonical->allow_nonref;

my $http = <<'EOF';
    map $arg_who $who {
        default "";
        odd     'a "b" \ é';
        plan    plan;
    }

    map $arg_which $which {
        default "";
        good    lab/vendor/m-1;
        bad     fast;
    }
EOF

my $server = <<'EOF';
        agentstream_fields all;

        location /few {
            agentstream /opencode/;
            agentstream_fields content client_request_id;

            location /few/more {
                agentstream /opencode/;
                agentstream_fields content title tools;
            }
        }

        location /inherited {
            agentstream /opencode/;
        }

        location /set {
            agentstream /opencode/;
            agentstream_agent plan;
            agentstream_model lab/fast;
        }

        location /vary {
            agentstream /opencode/;
            agentstream_agent $who;
            agentstream_model $which;
        }
EOF

utf8::encode($http);

my $t = AgentStream->new(http => $http, server => $server);
my $model = { providerID => 'p', modelID => 'm' };
my $hi = { content => 'text:1:24:0' };

# what is not listed

refused('/few', { %$hi, $_->[0] => $_->[1] }, $_->[0])
    for ['model', $model], ['agent', 'a'], ['system', 's'], ['variant', 'v'],
        ['tools', {}], ['tools', 'not even looked at'];
refused('/few', { parts => [{ type => 'text', text => 'x' }] }, 'parts');
is_deeply(sent('/few', { %$hi, client_request_id => 'r' }),
          { parts => [{ type => 'text', text => $hi->{content} }] },
          'what is listed is passed on');

is_error_packet(create('/few', { title => 'x' })->response(), 400,
                'no title');
is_error_packet(create('/few', { agent => 'x' })->response(), 400, 'no agent');
is(create('/few')->status(), 200, 'but a session');
is(create('/few', {})->status(), 200, 'also with a body');

refused('/few/more', { %$hi, client_request_id => 'r' }, 'client_request_id');
is(create('/few/more', { title => 'x' })->status(), 200, 'a title is listed');
ok(exists sent('/few/more', { %$hi, tools => { a => \0 } })->{tools}{a},
   'tools are');

is(sent('/inherited', { %$hi, agent => 'x' })->{agent}, 'x', 'all of them');

# what is set

my $got = sent('/set', $hi);
is($got->{agent}, 'plan', 'the agent');
is_deeply($got->{model}, { providerID => 'lab', modelID => 'fast' },
          'the model');

refused('/set', { %$hi, agent => 'plan' }, 'agent');
refused('/set', { %$hi, model => $model }, 'model');
refused('/set', { parts => [{ type => $_ }] }, 'parts[0].type')
    for qw(agent subtask);

for my $body (undef, {}, { title => 'x' }) {
    my $new = created('/set', $body);

    is($new->{agent}, 'plan', 'the agent of a session');
    is_deeply($new->{model}, { providerID => 'lab', id => 'fast' },
              'and its model');
    is($new->{title}, $body ? $body->{title} : undef, 'and its title');
}

is_error_packet(create('/set', { agent => 'x' })->response(), 400,
                'not chosen for a session');
is_error_packet(create('/set', { model => $model })->response(), 400,
                'nor is the model');

# by variables

$got = sent('/vary', { %$hi, agent => 'x', model => $model });
is($got->{agent}, 'x', 'empty: the client chooses the agent');
is_deeply($got->{model}, $model, 'and the model');

$got = sent('/vary', $hi, '?who=odd&which=good');
is($got->{agent}, 'a "b" \\ é', 'an agent, escaped');
is_deeply($got->{model}, { providerID => 'lab', modelID => 'vendor/m-1' },
          'a model with a slash');
is(created('/vary', undef, '?who=odd')->{agent}, 'a "b" \\ é',
   'also for a session');

refused('/vary', { parts => [{ type => 'subtask', prompt => 'x',
    description => 'x', agent => 'x', model => $model }] }, 'parts[0].model',
    '?which=good');

for my $r (post('/vary', $hi, '?which=bad'),
           create('/vary', undef, '?which=bad'))
{
    is_error_packet($r->response(), 500, 'a model that is none');
}

like($t->log_text(), qr/\[error\].*"agentstream_model" is not "provider/,
     'is logged');

$t->done();


sub post {
    my ($location, $body, $args) = @_;

    return $t->request('POST', "$location/" . $t->session() . '/send-message'
                       . ($args // ''), body => $body);
}


sub create {
    my ($location, $body, $args) = @_;

    return $t->request('POST', $location . ($args // ''),
                       $body ? (body => $body) : ());
}


sub refused {
    my ($location, $body, $field, $args) = @_;
    my $before = () = $t->upstream();
    my $p = is_error_packet(post($location, $body, $args)->response(), 400,
                            "$location: no $field");

    like($p->{message} // '', qr/^"\Q$field\E" must not be/,
         "$location: names $field");

    my $after = () = $t->upstream();

    is($after, $before, "$location: OpenCode is not asked");
}


# what OpenCode received, without the id

sub sent {
    my ($location, $body, $args) = @_;

    check_turn(post($location, $body, $args), "$location: a turn");

    my $got = last_body(qr{/prompt_async});
    delete $got->{messageID};

    return $got;
}


sub created {
    my ($location, $body, $args) = @_;

    is(create($location, $body, $args)->status(), 200, "$location: a session");

    return last_body(qr{^/session(\?|$)});
}


sub last_body {
    my ($url) = @_;
    my @log = grep { $_->{method} eq 'POST' && $_->{url} =~ $url }
              @{ $t->control('log') };
    my $bytes = $log[-1]{body};

    utf8::encode($bytes) if utf8::is_utf8($bytes);

    return $json->decode($bytes);
}
