// What the tests of AG-UI use: the unchanged client of AG-UI, and how its
// picture of a turn is compared with the packets of the same turn.
//
// MODULES is where npm has put the client, BASE is the server.  Every warning
// of the client is a failure: it warns when it has to remove something that
// AG-UI does not know.

import { randomUUID } from "node:crypto";
import { createRequire } from "node:module";
import { isDeepStrictEqual } from "node:util";

const require = createRequire(process.env.MODULES + "/_");

export const { HttpAgent, verifyEvents, EventType } =
  require("@ag-ui/client");
export const { EventSchema } = require("@ag-ui/core/schemas");

export const base = process.env.BASE;
export const url = base + "/ag-ui";

export const warnings = [];

console.warn = (...args) => warnings.push(args.join(" "));
console.error = (...args) => warnings.push(args.join(" "));

const only = process.env.ONLY && new RegExp(process.env.ONLY);

export function ok(good, name, ...more) {
  console.log(`${good ? "ok" : "not ok"} - ${name}`);

  if (!good) {
    for (const text of more) {
      console.log("# " + (typeof text === "string" ? text
        : JSON.stringify(text, null, 1) ?? "undefined").replace(/\n/g, "\n# "));
    }
  }

  return good;
}

export function is(got, expected, name) {
  return ok(isDeepStrictEqual(got, expected), name, "got", got, "expected",
    expected);
}

// Runs one part of a test, and fails it on a warning, or if it takes too long.
export async function part(name, run) {
  if (only && !only.test(name)) return;

  warnings.length = 0;

  const late = setTimeout(() => {
    ok(false, `${name}: ended in time`);
    process.exit(1);
  }, 60000);

  try {
    await run();
  } catch (error) {
    ok(false, `${name}: ${error?.stack ?? error}`);
  }

  clearTimeout(late);
  is(warnings, [], `${name}: the client has nothing to warn of`);
}

let number = 0;

export const thread = () => `thread-${process.pid}-${++number}`;

// An agent that remembers all events, as the client passes them on.
export function agent(threadId = thread(), options = {}) {
  const it = new HttpAgent({ url, threadId, ...options });

  it.seen = [];
  it.subscribe({ onEvent: ({ event }) => { it.seen.push(event); } });
  return it;
}

export function say(it, content, id = randomUUID()) {
  it.addMessage({ id, role: "user", content });
}

export const types = (it) => it.seen.map((event) => event.type);

export const outcome = (it) =>
  it.seen.findLast((event) => event.type === "RUN_FINISHED")?.outcome;

// Goes on until nothing waits; answer(interrupt) gives a payload, or undefined
// to cancel.
export async function run(it, answer = () => undefined, parameters = {}) {
  if (!it.pendingInterrupts.length) await it.runAgent(parameters);

  for (let i = 0; it.pendingInterrupts.length && i < 20; i++) {
    await it.runAgent({ resume: it.pendingInterrupts.map((interrupt) => {
      const payload = answer(interrupt);

      return payload === undefined
        ? { interruptId: interrupt.id, status: "cancelled" }
        : { interruptId: interrupt.id, status: "resolved", payload };
    }) });
  }

  return it;
}

// Whether an agent's messages say what the packets of the turn say.
export function compare(packets, messages, name, prefix = () => true) {
  const want = { text: {}, thought: {}, calls: {} };
  const got = { text: {}, thought: {}, calls: {} };
  let from = 0;

  packets.forEach((packet, i) => {
    if (packet.type === "stream_reset") from = i;
  });

  for (const [i, packet] of packets.entries()) {
    if (i < from) continue;

    if (packet.type === "agent_message_chunk" ||
        packet.type === "agent_thought_chunk")
    {
      const gone = packets.some((other) => other.type === "chunks_discarded" &&
        other.messageId === packet.messageId && other.from <= i + 1 &&
        i + 1 <= other.to);
      const to = want[packet.type === "agent_message_chunk" ? "text"
        : "thought"];

      if (!gone) {
        to[packet.messageId] = (to[packet.messageId] ?? "") +
          packet.content.text;
      }
    }

    if (packet.status === "completed" || packet.status === "failed") {
      want.calls[packet.toolCallId] = { input: packet.rawInput,
        output: packet.rawOutput.output ?? packet.rawOutput.error,
        status: packet.status };
    }
  }

  for (const message of messages) {
    const id = message.id.match(/^(msg_[^-]*)-/)?.[1];

    if (!prefix(message)) continue;

    if (message.role === "assistant" && id) {
      got.text[id] = (got.text[id] ?? "") + message.content;

    } else if (message.role === "reasoning") {
      got.thought[id] = (got.thought[id] ?? "") + message.content;

    } else if (message.role === "assistant") {
      for (const call of message.toolCalls ?? []) {
        got.calls[call.id] = { ...got.calls[call.id],
          input: JSON.parse(call.function.arguments || "null") };
      }

    } else if (message.role === "tool") {
      got.calls[message.toolCallId] = { ...got.calls[message.toolCallId],
        output: message.content, status: message.metadata.status };
    }
  }

  // a call that did not end has no packet with a result
  for (const id of Object.keys(got.calls)) {
    if (!want.calls[id] && got.calls[id].status === undefined) {
      delete got.calls[id];
    }
  }

  is(got.text, want.text, `${name}: texts`);
  is(got.thought, want.thought, `${name}: thoughts`);
  is(got.calls, want.calls, `${name}: tool calls`);
}

// The packets of the thread's last turn, on the location of packets.
export async function packets(threadId) {
  const response = await fetch(`${base}/sessions/@${threadId}/events`);
  const text = await response.text();

  return text.split("\n\n").map((event) => event.match(/^data: (.*)$/m)?.[1])
    .filter(Boolean).map((data) => JSON.parse(data));
}

export const done = () => console.log("# done");
