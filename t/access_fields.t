#!/usr/bin/perl

# The example of docs/access.md for what a client may choose: texts, and nothing
# that gives it power over the agent.
#
# Broken by: an example that allows more than the page says.

use FindBin;
use lib "$FindBin::Bin/lib";

use AgentStream;
use AgentStream::Docs qw(example);

my $t = AgentStream->new(conf => example('access.md', 'fields'));
my $model = { providerID => 'p', modelID => 'm' };

check_turn($t->turn($t->session(), { content => 'text:1:8:0',
                                     client_request_id => 'r' }), 'a text');

my ($prompt) = grep { $_->{url} =~ /prompt_async/ } @{ $t->control('log') };
like($prompt->{body}, qr/"model":\{"providerID":"lab","modelID":"scripted"\}/,
     'with the model that is set');
like($prompt->{body}, qr/"agent":"build"/, 'and the agent');

for my $field (['tools', { bash => \1 }], ['agent', 'plan'],
               ['model', $model], ['system', 'x'], ['variant', 'x'])
{
    my $c = $t->turn($t->session(), { content => 'text:1:8:0', @$field });

    is_error_packet($c->response(), 400, "not $field->[0]");
}

is_error_packet($t->turn($t->session(), { parts => [{ type => 'text',
    text => 'text:1:8:0' }] })->response(), 400, 'not parts');

is($t->request('POST', '/sessions', body => { title => 'x' })->status(), 200,
   'a session with a title');
is_error_packet($t->request('POST', '/sessions',
    body => { agent => 'plan' })->response(), 400, 'not with an agent');

$t->done();
