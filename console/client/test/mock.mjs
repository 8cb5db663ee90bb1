// The routes of docs/protocol.md, as far as the client uses them: a server
// whose turns and faults a test defines.
//
//   const server = await mock({ turn, faults });
//
// turn    the packets of every turn; a number among them waits so many ms
// faults  one function(request, response) per request; true: it has answered

import { createServer } from "node:http";
import { setTimeout as sleep } from "node:timers/promises";

export async function mock({ turn = [], faults = [], history = [] } = {}) {
  const log = [];
  const turns = [];
  const sockets = new Set();

  const sse = (response) =>
    response.writeHead(200, { "Content-Type": "text/event-stream" });

  const json = (response, status, value) => {
    response.writeHead(status, { "Content-Type": "application/json" });
    response.end(JSON.stringify(value));
  };

  function start(key) {
    const id = `msg_turn${turns.length + 1}`;
    const journal = { id, key, events: [], done: false };

    turns.push(journal);

    (async () => {
      let seq = 0;

      for (const step of turn) {
        if (typeof step === "number") {
          await sleep(step, null, { ref: false });
          continue;
        }

        const packet = { timestamp: new Date().toISOString(), ...step };

        if (packet.type === "turn_started") {
          Object.assign(packet, { turnId: id, messageId: id });
        }

        journal.events.push(
          `event: message\nid: ${id}:${++seq}\n` +
            `data: ${JSON.stringify(packet)}\n\n`,
        );
      }

      journal.done = true;
    })();

    return journal;
  }

  // `cut` breaks the connection after so many events

  async function read(response, journal, from, cut = Infinity) {
    sse(response);

    for (let i = from; ; i++) {
      while (i >= journal.events.length) {
        if (journal.done || !response.socket || response.socket.destroyed) {
          return response.end();
        }

        await sleep(2);
      }

      if (i - from >= cut) {
        // half an event is on its way when it breaks
        response.write(journal.events[i].slice(0, 40));
        await sleep(5);
        return response.destroy();
      }

      response.write(journal.events[i]);
    }
  }

  // The whole answer when the turn is over, or 202.  `Prefer` is taken in
  // hundredths of its seconds.

  async function whole(request, response, journal) {
    const prefer = request.headers.prefer ?? "";
    const [, seconds = prefer === "respond-async" ? 0 : Infinity] =
      /^wait=(\d+)$/.exec(prefer) ?? [];
    const until = Date.now() + seconds * 10;
    const about = { turnId: journal.id, sessionId: "ses_1" };

    while (!journal.done) {
      if (Date.now() >= until) {
        return json(response, 202, { ...about, running: true });
      }

      await sleep(2);
    }

    const { stopReason, type, message } = turn.at(-1);

    if (type === "error") {
      return json(response, 502, { type, message });
    }

    const text = turn.map((step) => step.content?.text ?? "").join("");

    return json(response, 200, { ...about, stopReason, text, toolCalls: [] });
  }

  const server = createServer(async (request, response) => {
    const chunks = [];

    for await (const chunk of request) {
      chunks.push(chunk);
    }

    const text = Buffer.concat(chunks).toString();
    const body = text ? JSON.parse(text) : null;
    const last = request.headers["last-event-id"];
    const key = `${request.method} ${request.url}`;

    log.push({ key, body, last, headers: request.headers });

    const context = { read, start, json, turns, body, last };
    const answers = request.headers.accept === "application/json";

    if (await faults.shift()?.(request, response, context)) {
      return;
    }

    if (/send-message$/.test(request.url)) {
      const known = turns.find((t) => t.key === body.client_request_id);
      const journal = known ?? start(body.client_request_id);

      return answers
        ? whole(request, response, journal)
        : read(response, journal, 0);
    }

    if (/\/events/.test(request.url)) {
      const [id, seq] = last?.split(":") ?? [];
      const journal = turns.find((t) => t.id === id) ?? turns.at(-1);
      const from = journal?.id === id ? Number(seq) : 0;

      if (!journal || (journal.done && from >= journal.events.length)) {
        response.writeHead(204);
        return response.end();
      }

      return answers
        ? whole(request, response, journal)
        : read(response, journal, from);
    }

    if (/\/messages$/.test(request.url)) {
      return json(response, 200, history);
    }

    return json(response, 200, { ok: key });
  });

  server.on("connection", (socket) => {
    sockets.add(socket);
    socket.on("close", () => sockets.delete(socket));
  });
  await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));

  return {
    log,
    turns,
    base: `http://127.0.0.1:${server.address().port}/sessions`,

    close() {
      sockets.forEach((socket) => socket.destroy());
      return new Promise((resolve) => server.close(resolve));
    },
  };
}

export const chunk = (text, more = {}) => ({
  type: "agent_message_chunk",
  sessionUpdate: "agent_message_chunk",
  messageId: "msg_a",
  content: { type: "text", text, annotations: null },
  _meta: null,
  ...more,
});

export const started = { type: "turn_started", sessionId: "ses_1", _meta: null };
export const ended = {
  type: "prompt_response",
  stopReason: "end_turn",
  usage: null,
  _meta: {},
};
