#!/usr/bin/perl

# The client library's run(), start() and answer() against the module: whole
# answers by name, a response that is lost, a turn that is waited for in pieces,
# an interrupt, a failure.
#
# Broken by: a repeated request without its client_request_id; an answer of the
# session's latest turn instead of the one that was started; a 202 that run()
# takes for the answer; an error that is not thrown.

use FindBin;
use lib "$FindBin::Bin/lib";

use AgentStream;

my $json = JSON::PP->new->utf8->canonical->allow_nonref;
my $t = AgentStream->new(timeout => 60, workers => 2);

my $program = <<'EOF';
const [file, base] = process.argv.slice(1);
const { createClient } = await import(file);
const tell = (name, value) => console.log(JSON.stringify([name, value]));
const client = createClient({ base, minDelay: 20 });

tell("run", await client.run("@a", "text:4:8:20"));

// the connection breaks when the turn has begun

let requests = 0;
const broken = createClient({
  base,
  minDelay: 20,
  fetch: async (url, init) => {
    if (requests++ > 0) {
      return fetch(url, init);
    }

    await fetch(url, {
      ...init,
      headers: { ...init.headers, Prefer: "respond-async" },
    });
    throw new TypeError("fetch failed");
  },
});

tell("lost", await broken.run("@b", "text:6:8:50"));
tell("requests", requests);

const short = await client.run("@c", "text:30:8:100", { wait: 1 });

tell("short", short);
tell("waited", await client.answer(short.sessionId, { turnId: short.turnId }));

const begun = await client.start("@d", "text:6:8:50");
const types = [];

for await (const packet of client.attach(begun.sessionId, {
  lastEventId: `${begun.turnId}:0`,
})) {
  types.push(packet.type);
}

await client.run("@d", "text:2:8:0");
tell("begun", begun);
tell("types", types);
tell("first", await client.answer("@d", { turnId: begun.turnId }));
tell("last", await client.answer("@d"));
tell("none", await client.answer("ses_none0000000000"));

const long = client.run("@e", "text:300:8:100");

while (!(await client.turn("@e")).packets) {
  await new Promise((resolve) => setTimeout(resolve, 50));
}

await client.interrupt("@e");
tell("cancelled", (await long).stopReason);

for (const [session, content] of [["x", "text:1:1:0"], ["@f", []]]) {
  await client.run(session, content).catch(({ name, status, packet }) => {
    tell("refused", [name, status, packet?.type]);
  });
}
EOF

CORE::open my $node, '-|', 'node', '--input-type=module', '-e', $program,
    "$FindBin::Bin/../console/client/agentstream.js",
    "http://127.0.0.1:$t->{port}/sessions" or die "node: $!\n";

my (%told, @refused);

while (<$node>) {
    my ($name, $value) = @{ $json->decode($_) };

    if ($name eq 'refused') {
        push @refused, $value;

    } else {
        $told{$name} = $value;
    }
}

ok(close $node, 'the program ends well');

my @prompts = grep { $_->{url} =~ /prompt_async/ } @{ $t->control('log') };

for my $name (qw(run lost waited first last)) {
    my $turn = $told{$name}{turnId};

    is($told{$name}{stopReason}, 'end_turn', "$name: its end");
    is($told{$name}{text}, $t->control('said', { user => $turn })->{text},
       "$name: its text");
    is(scalar(grep { $_->{json}{messageID} eq $turn } @prompts), 1,
       "$name: one prompt");
}

is(scalar(grep { $_->{url} =~ m{/\Q$told{lost}{sessionId}\E/} } @prompts), 1,
   'a lost response: one prompt');
is($told{requests}, 2, '... and a second request');
is_deeply($told{short}, { turnId => $told{waited}{turnId}, running =>
                          JSON::PP::true, sessionId =>
                          $told{waited}{sessionId} }, 'it waits for a second');
is($told{first}{turnId}, $told{begun}{turnId}, 'the turn that was started');
isnt($told{last}{turnId}, $told{begun}{turnId}, '... is not the last one');
is("$told{types}[0] $told{types}[-1]", 'turn_started prompt_response',
   'its packets');
is($told{none}, undef, 'a session without a turn');
is($told{cancelled}, 'cancelled', 'an interrupted turn');
is_deeply(\@refused, [(['AgentStreamError', 400, 'error']) x 2],
          'what is wrong is thrown');

$t->done();
