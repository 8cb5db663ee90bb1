// The client against a server that fails on purpose.

import assert from "node:assert/strict";
import { once } from "node:events";
import { test } from "node:test";

import { AgentStreamError, createClient, parseEvents } from "../agentstream.js";
import { chunk, ended, mock, started } from "./mock.mjs";

const words = ["Hi ", "there, ", "all ", "is ", "well."];
const turn = [started, ...words.flatMap((word) => [3, chunk(word)]), ended];

async function collect(iterator) {
  const packets = [];

  for await (const packet of iterator) {
    packets.push(packet);
  }

  return packets;
}

const textOf = (packets) =>
  packets
    .filter((packet) => packet.type === "agent_message_chunk")
    .map((packet) => packet.content.text)
    .join("");

function world(t, options, settings) {
  return mock(options).then((server) => {
    t.after(() => server.close());

    return {
      server,
      client: createClient({
        base: server.base,
        minDelay: 5,
        retries: 4,
        ...settings,
      }),
    };
  });
}

const body = (...pieces) =>
  new ReadableStream({
    start(controller) {
      pieces.forEach((piece) =>
        controller.enqueue(
          typeof piece === "string" ? new TextEncoder().encode(piece) : piece,
        ),
      );
      controller.close();
    },
  });

test("parser: line ends, comments, several data lines, split bytes", async () => {
  const bytes = new TextEncoder().encode('data: {"t":"é😀"}\n\n');

  assert.deepEqual(
    await collect(
      parseEvents(
        body(
          "\uFEFF: hello\r\n\r\nid: a:1\r",
          '\nda',
          'ta: {"n":\r\ndata:1}\r\n\r\n: keepalive\n\nevent: message\r',
          'data: {"n":2}\r\r',
          bytes.slice(0, 13),
          bytes.slice(13, 15),
          bytes.slice(15),
          'id: a:9\ndata: {"cut":',
        ),
      ),
    ),
    [
      { n: 1, id: "a:1" },
      { n: 2, id: "a:1" },
      { t: "é😀", id: "a:1" },
    ],
  );
});

test("send: all packets, in order, with ids, as they come", async (t) => {
  const { server, client } = await world(t, { turn });
  const states = [];
  const packets = await collect(
    client.sendMessage("ses_1", "Hello", {
      agent: "build",
      onConnection: (state) => states.push(state),
    }),
  );

  assert.equal(textOf(packets), words.join(""));
  assert.equal(packets[0].id, "msg_turn1:1");
  assert.equal(packets.at(-1).type, "prompt_response");
  assert.deepEqual(states, ["live"]);
  assert.equal(server.log.length, 1);

  const { client_request_id: id, ...rest } = server.log[0].body;

  assert.match(id, /^[\d-]{8,}$/);
  assert.deepEqual(rest, { content: "Hello", agent: "build" });
});

test("send: blocks, and a whole body", async (t) => {
  const { server, client } = await world(t, { turn });
  const blocks = [{ type: "text", text: "x" }];
  const parts = { parts: blocks, client_request_id: "mine" };

  await collect(client.sendMessage("ses_1", blocks));
  await collect(client.sendMessage("ses_1", parts));
  assert.deepEqual(server.log[0].body.content, blocks);
  assert.deepEqual(server.log[1].body, parts);
});

test("send: a stream that breaks goes on behind the last packet", async (t) => {
  const { server, client } = await world(t, {
    turn,
    faults: [
      (_, response, { read, start, body }) =>
        read(response, start(body.client_request_id), 0, 2) && true,
      (_, response) => response.destroy(),
      (_, response, { json }) => json(response, 502, {}) || true,
      (_, response, { read, turns }) => read(response, turns[0], 2, 3) && true,
    ],
  });
  const states = [];
  const packets = await collect(
    client.sendMessage("ses_1", "Hello", {
      onConnection: (state) => states.push(state),
    }),
  );

  assert.equal(textOf(packets), words.join(""));
  assert.equal(server.turns.length, 1);
  assert.deepEqual(
    server.log.map(({ key, last }) => [key.replace(/\/sess.*1/, ""), last]),
    [
      ["POST /send-message", undefined],
      ["GET /events", "msg_turn1:2"],
      ["GET /events", "msg_turn1:2"],
      ["GET /events", "msg_turn1:2"],
      ["GET /events", "msg_turn1:5"],
    ],
  );
  assert.deepEqual(states, [
    "live",
    "resuming",
    "resuming",
    "resuming",
    "live",
    "resuming",
    "live",
  ]);
});

test("send: a repeated POST never starts a second turn", async (t) => {
  const { server, client } = await world(t, {
    turn,
    faults: [
      // the turn begins, its answer is lost
      (_, response, { start, body }) => {
        start(body.client_request_id);
        response.destroy();
        return true;
      },
    ],
  });

  assert.equal(
    textOf(await collect(client.sendMessage("ses_1", "Hello"))),
    words.join(""),
  );
  assert.equal(server.turns.length, 1);
  assert.deepEqual(server.log[0].body, server.log[1].body);
});

test("4xx is final, with its packet, as JSON or as SSE", async (t) => {
  const packet = { type: "error", message: "Busy", code: 409, details: null };
  const { server, client } = await world(t, {
    faults: [
      (_, response, { json }) => json(response, 409, packet) || true,
      (_, response) => {
        response.writeHead(404, { "Content-Type": "text/event-stream" });
        response.end(`event: message\ndata: ${JSON.stringify(packet)}\n\n`);
        return true;
      },
      (_, response) => response.writeHead(400).end("<html>"),
    ],
  });

  for (const status of [409, 404]) {
    await assert.rejects(collect(client.sendMessage("ses_1", "x")), (error) => {
      assert.ok(error instanceof AgentStreamError);
      assert.equal(error.status, status);
      assert.equal(error.message, "Busy");
      assert.deepEqual(error.packet, packet);
      return true;
    });
  }

  await assert.rejects(client.turn("ses_1"), { message: "HTTP 400" });
  assert.equal(server.log.length, 3);
});

test("the server's own 5xx to a send is final; a proxy's is not", async (t) => {
  const packet = { type: "error", message: "No OpenCode", code: 502 };
  const { server, client } = await world(t, {
    turn,
    faults: [
      (_, response, { json }) => json(response, 502, packet) || true,
      (_, response) => response.writeHead(502).end("<html>"),
    ],
  });

  await assert.rejects(collect(client.sendMessage("ses_1", "x")), {
    status: 502,
    message: "No OpenCode",
  });
  assert.equal(
    textOf(await collect(client.sendMessage("ses_1", "x"))),
    words.join(""),
  );
  assert.equal(server.log.length, 3);
});

test("it gives up after so many failures in a row", async (t) => {
  const { server, client } = await world(t, {
    faults: Array(9).fill((_, response) => response.destroy()),
  });
  const delays = [];

  await assert.rejects(
    collect(
      client.attach("ses_1", {
        onConnection: (state, { delay }) => delays.push(delay),
      }),
    ),
    /Connection lost/,
  );
  assert.equal(server.log.length, 5);
  delays.forEach((delay, i) => {
    assert.ok(delay >= 2.5 * 2 ** i && delay <= 5 * 2 ** i, `${delay}`);
  });
});

test("attach: replays, resumes where told, and 204 is the end", async (t) => {
  const { client } = await world(t, { turn });

  assert.deepEqual(await collect(client.attach("ses_1")), []);

  const all = await collect(client.sendMessage("ses_1", "x"));

  assert.deepEqual(await collect(client.attach("ses_1")), all);
  assert.deepEqual(
    await collect(client.attach("ses_1", { lastEventId: all[3].id })),
    all.slice(4),
  );
  assert.deepEqual(
    await collect(client.attach("ses_1", { lastEventId: all.at(-1).id })),
    [],
  );
});

test("attach: follow goes on behind a terminal packet", async (t) => {
  const { server, client } = await world(t, { turn });

  await collect(client.sendMessage("ses_1", "x"));

  const packets = await collect(client.attach("ses_1", { follow: true }));

  assert.equal(textOf(packets), words.join(""));
  assert.equal(server.log.at(-1).key, "GET /sessions/ses_1/events?follow=1");
  assert.equal(server.log.at(-1).last, packets.at(-1).id);
});

test("a send does not go on with somebody else's turn", async (t) => {
  const { client } = await world(t, {
    turn,
    faults: [
      (_, response, { read, start, body }) =>
        read(response, start(body.client_request_id), 0, 2) && true,
      (_, response, { read, start }) =>
        read(response, start("other"), 0) && true,
    ],
  });

  await assert.rejects(collect(client.sendMessage("ses_1", "x")), {
    status: 410,
  });
});

test("abort: before, while reading, while waiting", async (t) => {
  const { server, client } = await world(
    t,
    { turn: [started, chunk("a"), 10000] },
    { minDelay: 60000 },
  );

  await assert.rejects(
    collect(client.sendMessage("ses_1", "x", { signal: AbortSignal.abort() })),
    { name: "AbortError" },
  );
  assert.equal(server.log.length, 0);

  const reading = new AbortController();

  await assert.rejects(
    (async () => {
      const { signal } = reading;

      for await (const packet of client.sendMessage("ses_1", "x", { signal })) {
        if (packet.type === "agent_message_chunk") {
          reading.abort();
        }
      }
    })(),
    { name: "AbortError" },
  );

  const waiting = new AbortController();
  const dead = createClient({ base: "http://127.0.0.1:1", minDelay: 60000 });

  await assert.rejects(
    collect(
      dead.attach("ses_1", {
        signal: waiting.signal,
        onConnection: () => setTimeout(() => waiting.abort(), 5),
      }),
    ),
    { name: "AbortError" },
  );
});

test("leaving the loop closes the connection", async (t) => {
  let closed;
  const { client } = await world(t, {
    turn: [started, chunk("a"), 10000],
    faults: [
      (request) => {
        closed = once(request.socket, "close");
      },
    ],
  });

  for await (const packet of client.sendMessage("ses_1", "x")) {
    if (packet.type === "agent_message_chunk") {
      break;
    }
  }

  await closed;
});

test("a silent connection is given up and resumed", async (t) => {
  const { server, client } = await world(
    t,
    {
      turn,
      faults: [
        (_, response, { start, body, turns }) => {
          start(body.client_request_id);
          response.writeHead(200, { "Content-Type": "text/event-stream" });
          response.write(turns[0].events[0]);
          return true;
        },
      ],
    },
    { silence: 400 },
  );

  assert.equal(
    textOf(await collect(client.sendMessage("ses_1", "x"))),
    words.join(""),
  );
  assert.equal(server.log[1].last, "msg_turn1:1");
});

test("the other calls", async (t) => {
  const { server, client } = await world(
    t,
    { history: [chunk("a")] },
    { headers: async () => ({ Authorization: "Bearer x" }) },
  );

  await client.createSession({ title: "x" });
  await client.listSessions();
  await client.getSession("ses_1");
  await client.renameSession("ses_1", "New");
  await client.deleteSession("ses_1");
  await client.models();
  await client.agents();
  await client.turn("ses_1");
  await client.interrupt("ses_1");
  await client.answerQuestion("ses_1", "que_1", [["Blue"]]);
  await client.rejectQuestion("ses_1", "que_1");
  await client.answerPermission("ses_1", "per_1", "reject", "No");
  assert.deepEqual(await client.messages("ses_1"), [chunk("a")]);

  assert.deepEqual(
    server.log.map(({ key, body }) => [
      key.replace("/sessions", ""),
      ...(body ? [body] : []),
    ]),
    [
      ["POST ", { title: "x" }],
      ["GET "],
      ["GET /ses_1"],
      ["PATCH /ses_1", { title: "New" }],
      ["DELETE /ses_1"],
      ["GET /models"],
      ["GET /agents"],
      ["GET /ses_1/turn"],
      ["POST /ses_1/interrupt", {}],
      ["POST /ses_1/questions/que_1/reply", { answers: [["Blue"]] }],
      ["POST /ses_1/questions/que_1/reject", {}],
      [
        "POST /ses_1/permissions/per_1/reply",
        { reply: "reject", message: "No" },
      ],
      ["GET /ses_1/messages"],
    ],
  );
  assert.ok(server.log.every((r) => r.headers.authorization === "Bearer x"));

  // pages of another origin may change nothing without this type

  for (const { key, headers } of server.log) {
    const type = key.startsWith("GET") ? undefined : "application/json";

    assert.equal(headers["content-type"], type, key);
  }
});

test("names: wherever an id is taken, and nothing else in a path", async (t) => {
  const { server, client } = await world(t, { turn });

  await client.createSession({ name: "task-42" });
  await client.getSession("@telegram:-7:~x");
  await client.answerQuestion("@task-42", "que_1", [["x"]]);
  await collect(client.sendMessage("@task-42", "Hello"));
  await client.deleteSession("@a/../b?c#d");

  assert.deepEqual(server.log[0].body, { name: "task-42" });
  assert.deepEqual(
    server.log.map(({ key }) => key),
    [
      "POST /sessions",
      "GET /sessions/@telegram:-7:~x",
      "POST /sessions/@task-42/questions/que_1/reply",
      "POST /sessions/@task-42/send-message",
      "DELETE /sessions/@a%2F..%2Fb%3Fc%23d",
    ],
  );
});

const slow = [started, 1000, chunk("Done."), ended];

test("run: the whole answer, in one request", async (t) => {
  const { server, client } = await world(t, { turn });
  const answer = await client.run("@task", "Hello", { agent: "build" });
  const [{ key, body, headers }] = server.log;

  assert.equal(answer.text, words.join(""));
  assert.equal(answer.stopReason, "end_turn");
  assert.equal(key, "POST /sessions/@task/send-message");
  assert.equal(headers.accept, "application/json");
  assert.equal(headers.prefer, "wait=30");
  assert.match(body.client_request_id, /^[\d-]{8,}$/);
  assert.equal(body.agent, "build");
  assert.deepEqual(Object.keys(body).sort(), [
    "agent",
    "client_request_id",
    "content",
  ]);
  assert.equal(server.log.length, 1);
});

test("run: a lost response is asked for again, one turn", async (t) => {
  const { server, client } = await world(t, {
    turn,
    faults: [
      (_, response, { start, body }) => {
        start(body.client_request_id);
        response.destroy();
        return true;
      },
      (_, response) => response.writeHead(504).end("<html>"),
      (_, response) => {
        response.writeHead(200, { "Content-Length": 100 });
        response.write('{"turnId":');
        setTimeout(() => response.destroy(), 5);
        return true;
      },
    ],
  });
  const states = [];
  const answer = await client.run("ses_1", "Hello", {
    client_request_id: "mine",
    onConnection: (state) => states.push(state),
  });

  assert.equal(answer.text, words.join(""));
  assert.equal(server.turns.length, 1);
  assert.equal(server.log.length, 4);
  assert.ok(server.log.every(({ body }) => body.client_request_id === "mine"));
  assert.deepEqual(states, Array(3).fill("resuming"));
});

test("run: a long turn is waited for in pieces, the same one", async (t) => {
  const { server, client } = await world(t, { turn: slow });
  const answer = await client.run("@task", "Hello");

  assert.equal(answer.text, "Done.");

  const [sent, ...asked] = server.log.map(({ key, last }) => [
    key.replace("/sessions", ""),
    last,
  ]);

  assert.deepEqual(sent, ["POST /@task/send-message", undefined]);
  assert.ok(asked.length > 0);
  asked.forEach((each) =>
    assert.deepEqual(each, ["GET /ses_1/events", "msg_turn1:0"]),
  );

  await assert.rejects(client.answer("ses_1", { turnId: "msg_other" }), {
    status: 410,
  });
});

test("run: what the server says of a turn is final", async (t) => {
  const failed = { type: "error", message: "No model" };
  const { server, client } = await world(t, {
    turn: [started, failed],
    faults: [(_, response) => response.writeHead(404).end("<html>")],
  });

  await assert.rejects(client.run("ses_1", "x"), { status: 404 });
  await assert.rejects(client.run("ses_1", "x"), (error) => {
    assert.ok(error instanceof AgentStreamError);
    assert.deepEqual([error.status, error.packet], [502, failed]);
    return true;
  });
  assert.equal(server.log.length, 2);
});

test("run: it waits no longer than told, and gives up at last", async (t) => {
  const { server, client } = await world(t, { turn: slow });

  // the server of this test takes a second for a hundredth

  assert.deepEqual(await client.run("ses_1", "x", { wait: 0 }), {
    turnId: "msg_turn1",
    sessionId: "ses_1",
    running: true,
  });
  assert.equal(server.log[0].headers.prefer, "wait=0");
  assert.equal(server.turns[0].done, false);

  const lost = await world(t, {
    faults: Array(9).fill((_, response) => response.destroy()),
  });

  await assert.rejects(lost.client.run("ses_1", "x"), /Connection lost/);
  assert.equal(lost.server.log.length, 5);
});

test("run: abort before, while waiting, between attempts", async (t) => {
  const abort = new AbortController();
  const { server, client } = await world(t, {
    turn: [started, 10000, ended],

    // a moment after the request has come
    faults: [
      () => {
        setTimeout(() => abort.abort(new Error("Enough")), 20);
      },
    ],
  });

  await assert.rejects(
    client.run("ses_1", "x", { signal: AbortSignal.abort() }),
    { name: "AbortError" },
  );
  assert.equal(server.log.length, 0);

  await assert.rejects(
    client.run("ses_1", "x", { signal: abort.signal }),
    /Enough/,
  );
  assert.equal(server.turns.length, 1);

  const pausing = new AbortController();
  const dead = createClient({ base: "http://127.0.0.1:1", minDelay: 60000 });

  await assert.rejects(
    dead.run("ses_1", "x", {
      signal: pausing.signal,
      onConnection: () => setTimeout(() => pausing.abort(), 5),
    }),
    { name: "AbortError" },
  );
});

test("start: begun, and come back for the answer or the stream", async (t) => {
  const { server, client } = await world(t, {
    turn: slow,
    faults: [
      (_, response, { start, body }) => {
        start(body.client_request_id);
        response.destroy();
        return true;
      },
    ],
  });
  const begun = await client.start("@task", "Hello", { agent: "plan" });

  assert.deepEqual(begun, {
    turnId: "msg_turn1",
    sessionId: "ses_1",
    running: true,
  });
  assert.equal(server.log[1].headers.prefer, "respond-async");
  assert.equal(server.log[1].body.agent, "plan");
  assert.equal(server.turns.length, 1);

  const { turnId, sessionId } = begun;
  const [answer, packets] = await Promise.all([
    client.answer(sessionId, { turnId }),
    collect(client.attach(sessionId, { lastEventId: `${turnId}:0` })),
  ]);

  assert.equal(answer.text, "Done.");
  assert.equal(answer.turnId, turnId);
  assert.equal(textOf(packets), "Done.");
  assert.equal(packets[0].type, "turn_started");

  // one that is over when it is asked for

  const again = await client.start("@task", "Hello", {
    client_request_id: server.log[0].body.client_request_id,
  });

  assert.deepEqual(again, { ...begun, running: false });
});

test("answer: of the last turn, or none", async (t) => {
  const { client } = await world(t, { turn });

  assert.equal(await client.answer("ses_1"), null);
  await client.run("ses_1", "x");
  assert.equal((await client.answer("ses_1")).text, words.join(""));
});
