#!/usr/bin/env node
//
// A scripted model that speaks OpenAI's chat completions, for demos and tests.
//
//   node util/model.mjs [--host 127.0.0.1] [--port 0] [--log FILE]
//
// prints "model: http://HOST:PORT/v1" once it listens.
//
// The last user message holds the orders, one per line.  A line that does not
// begin with "!" is plain talk.  TEXT is a JSON string.
//
//   !say TEXT            answer, word by word
//   !think TEXT          reasoning, word by word
//   !repeat N TEXT       answer with N copies of TEXT, 4096 characters at once
//   !split N|word|all    cut the texts that follow into pieces of N UTF-16
//                        units (which may cut an emoji), words, or not at all
//   !pace MS             wait MS milliseconds before every piece that follows
//   !sleep MS            wait once
//   !until FILE          wait until this file exists
//   !call TOOL JSON      a tool call; several in one step run together
//   !badcall TOOL TEXT   a tool call whose arguments are TEXT as it is
//   !callid ID           the id of the next tool call
//   !next                the step ends; what follows is for the next request
//   !finish REASON       stop, length, content_filter, tool_calls, …; otherwise
//                        tool_calls after a !call, else stop
//   !usage JSON          token counts, instead of 100 in and 20 out
//   !end                 the stream ends in order, but with no finish reason
//   !cut [N]             the connection is cut (at the first N requests)
//   !hang                silence until the client leaves
//   !error JSON          an error object in the stream, which then ends
//   !raw TEXT            bytes written to the stream as they are
//   !http STATUS JSON    no stream but a response: {"headers", "body",
//                        "times": N for the first N requests only; the same
//                        orders in the same session count as the same request}
//
// The step is the number of assistant messages after that user message.  When
// all steps are done, the answer is "Done.".  A prompt without orders gets a
// small demonstration: reasoning, two tools, and an answer that quotes it.  A
// request without tools is OpenCode's title generator, or its compaction.
//
// GET /page/NAME is a small page for webfetch; GET /requests counts requests.

import { randomBytes } from "node:crypto";
import { appendFileSync, existsSync } from "node:fs";
import { createServer } from "node:http";
import { setTimeout as sleep } from "node:timers/promises";
import { parseArgs } from "node:util";

const { values: options } = parseArgs({
  options: {
    host: { type: "string", default: "127.0.0.1" },
    port: { type: "string", default: "0" },
    log: { type: "string" },
  },
});

const TITLE = "A scripted conversation";
const SUMMARY = "Summary by the scripted model: nothing of note happened.";

const failures = new Map(); // how often an !http or !cut came up
let requests = 0;

class OrderError extends Error {}

function textOf(message) {
  const { content } = message;

  if (typeof content === "string") {
    return content;
  }

  return (content ?? [])
    .filter((part) => part.type === "text")
    .map((part) => part.text)
    .join("\n");
}

// The orders of a prompt: a list of steps, each a list of [verb, ...].

function parse(prompt) {
  const steps = [[]];

  for (const line of prompt.split("\n")) {
    const match = /^!([a-z]+)(?:\s+(.*?))?\s*$/.exec(line);

    if (match === null) {
      continue;
    }

    const [, verb, rest = ""] = match;

    try {
      if (verb === "next") {
        steps.push([]);
      } else {
        steps.at(-1).push(order(verb, rest));
      }
    } catch (error) {
      throw new OrderError(`${line}: ${error.message}`);
    }
  }

  return steps.length === 1 && steps[0].length === 0 ? null : steps;
}

function order(verb, rest) {
  const [first] = rest.split(/\s/, 1);
  const second = rest.slice(first.length).trim();

  switch (verb) {
    case "say":
    case "think":
    case "raw":
      return [verb, JSON.parse(rest)];

    case "repeat":
      return [verb, number(first), JSON.parse(second)];

    case "split":
      return [verb, /^(word|all)$/.test(rest) ? rest : number(rest)];

    case "pace":
    case "sleep":
      return [verb, number(rest)];

    case "call":
      return [verb, first, JSON.stringify(JSON.parse(second || "{}"))];

    case "badcall":
      return ["call", first, JSON.parse(second)];

    case "callid":
    case "finish":
    case "until":
      return [verb, rest];

    case "usage":
    case "error":
      return [verb, JSON.parse(rest)];

    case "http":
      return [verb, number(first), JSON.parse(second || "{}")];

    case "cut":
      return [verb, rest === "" ? Infinity : number(rest)];

    case "end":
    case "hang":
      return [verb];

    default:
      throw new Error("no such order");
  }
}

function number(text) {
  if (!/^\d+$/.test(text)) {
    throw new Error("a number is missing");
  }

  return Number(text);
}

// The demonstration for a prompt without orders.

function demonstration(prompt, messages) {
  const system = messages.filter((m) => m.role === "system").map(textOf);
  const [, cwd] =
    /Working directory: *(\S+)/.exec(system.join("\n")) ?? [, "."];
  const words = prompt
    .replace(/<system-reminder>[\s\S]*?<\/system-reminder>/g, "")
    .trim()
    .split(/\s+/)
    .slice(0, 12)
    .join(" ");

  return [
    [
      ["pace", 40],
      ["think", `The user says: ${words}. I will look around first.`],
      ["say", "Let me see what is here. "],
      [
        "call",
        "bash",
        JSON.stringify({ command: "ls -l", description: "Lists the files" }),
      ],
    ],
    [
      ["pace", 40],
      ["call", "read", JSON.stringify({ filePath: `${cwd}/README.md` })],
    ],
    [
      ["pace", 40],
      [
        "say",
        `You said: “${words}”. I listed the files and read the README. I am ` +
          "only a scripted model, so that is all I can do for you. 👋",
      ],
    ],
  ];
}

function pieces(text, split) {
  if (split === "all") {
    return text === "" ? [] : [text];
  }

  if (split === "word") {
    return text.match(/\s*\S+\s?|\s+/g) ?? [];
  }

  const result = [];

  for (let i = 0; i < text.length; i += split) {
    result.push(text.slice(i, i + split));
  }

  return result;
}

function send(response, status, body, headers = {}) {
  const text = typeof body === "string" ? body : JSON.stringify(body);

  response.writeHead(status, {
    "Content-Type": "application/json",
    ...headers,
  });
  response.end(text);
}

// Performs one step. `sink` is a stream or a collector with the same methods.

async function play(orders, sink) {
  let split = "word";
  let pace = 0;
  let calls = 0;
  let callid = null;
  let finish = null;

  const speak = async (field, text, how) => {
    for (const piece of pieces(text, how)) {
      if (pace > 0) {
        await sleep(pace);
      }

      await sink.delta({ [field]: piece });
    }
  };

  for (const [verb, ...args] of orders) {
    if (sink.closed()) {
      return;
    }

    switch (verb) {
      case "say":
        await speak("content", args[0], split);
        break;

      case "think":
        await speak("reasoning_content", args[0], split);
        break;

      case "repeat":
        await speak(
          "content",
          args[1].repeat(args[0]),
          split === "word" ? 4096 : split,
        );
        break;

      case "split":
        split = args[0] || "all";
        break;

      case "pace":
        pace = args[0];
        break;

      case "sleep":
        await sleep(args[0]);
        break;

      case "until":
        while (!existsSync(args[0]) && !sink.closed()) {
          await sleep(20);
        }
        break;

      case "callid":
        callid = args[0];
        break;

      case "call": {
        const [name, text] = args;
        const id = callid ?? `call_${randomBytes(12).toString("hex")}`;

        callid = null;
        await sink.call(calls++, id, name, pieces(text, 256));
        break;
      }

      case "finish":
        finish = args[0];
        break;

      case "usage":
        sink.usage = { ...sink.usage, ...args[0] };
        break;

      case "raw":
        await sink.raw(args[0]);
        break;

      case "error":
        await sink.error(args[0]);
        return;

      case "end":
        await sink.end(null);
        return;

      case "cut":
        await sink.cut();
        return;

      case "hang":
        await sink.hang();
        return;
    }
  }

  await sink.end(finish ?? (calls > 0 ? "tool_calls" : "stop"));
}

const USAGE = { prompt_tokens: 100, completion_tokens: 20 };

function total(usage) {
  return {
    ...usage,
    total_tokens:
      usage.total_tokens ?? usage.prompt_tokens + usage.completion_tokens,
  };
}

class Stream {
  constructor(response, model) {
    this.response = response;
    this.usage = { ...USAGE };
    this.chunk = {
      id: `chatcmpl-${randomBytes(8).toString("hex")}`,
      object: "chat.completion.chunk",
      created: Math.floor(Date.now() / 1000),
      model,
    };

    response.writeHead(200, {
      "Content-Type": "text/event-stream",
      "Cache-Control": "no-cache",
    });
    response.flushHeaders();
  }

  closed() {
    return this.response.destroyed || this.response.writableEnded;
  }

  async raw(text) {
    if (this.closed() || this.response.write(text)) {
      return;
    }

    await new Promise((resolve) => {
      this.response.once("drain", resolve);
      this.response.once("close", resolve);
    });
  }

  data(object) {
    return this.raw(`data: ${JSON.stringify(object)}\n\n`);
  }

  delta(delta, finish_reason = null) {
    return this.data({
      ...this.chunk,
      choices: [{ index: 0, delta, finish_reason }],
    });
  }

  async call(index, id, name, args) {
    await this.delta({
      tool_calls: [
        { index, id, type: "function", function: { name, arguments: "" } },
      ],
    });

    for (const piece of args) {
      await this.delta({
        tool_calls: [{ index, function: { arguments: piece } }],
      });
    }
  }

  async error(error) {
    await this.data({ error });
    this.response.end();
  }

  async end(reason) {
    if (reason !== null) {
      await this.delta({}, reason);
      await this.data({
        ...this.chunk,
        choices: [],
        usage: total(this.usage),
      });
    }

    await this.raw("data: [DONE]\n\n");
    this.response.end();
  }

  // What was written must be sent before the connection is closed.

  async cut() {
    await sleep(50);
    this.response.destroy();
  }

  async hang() {
    await new Promise((resolve) => this.response.once("close", resolve));
  }
}

// The same for a client that did not ask for a stream.

class Answer {
  constructor(response, model) {
    this.response = response;
    this.model = model;
    this.usage = { ...USAGE };
    this.message = { role: "assistant", content: "" };
  }

  closed() {
    return this.response.destroyed;
  }

  async delta(delta) {
    for (const [field, piece] of Object.entries(delta)) {
      this.message[field] = (this.message[field] ?? "") + piece;
    }
  }

  async call(index, id, name, args) {
    this.message.tool_calls ??= [];
    this.message.tool_calls.push({
      id,
      type: "function",
      function: { name, arguments: args.join("") },
    });
  }

  async raw() {}

  async error(error) {
    send(this.response, 500, { error });
  }

  async end(finish_reason) {
    send(this.response, 200, {
      id: `chatcmpl-${randomBytes(8).toString("hex")}`,
      object: "chat.completion",
      created: Math.floor(Date.now() / 1000),
      model: this.model,
      choices: [{ index: 0, message: this.message, finish_reason }],
      usage: total(this.usage),
    });
  }

  async cut() {
    this.response.destroy();
  }

  async hang() {
    await new Promise((resolve) => this.response.once("close", resolve));
  }
}

// The orders for this request, or null after an answer by !http.

function choose(request, response, body) {
  const messages = body.messages ?? [];
  const last = messages.findLastIndex((message) => message.role === "user");
  const prompt = last === -1 ? "" : textOf(messages[last]);

  if (!(body.tools?.length > 0)) {
    const title = /title/i.test(messages.slice(0, 1).map(textOf).join(""));

    return [["say", title ? TITLE : SUMMARY]];
  }

  const steps = parse(prompt) ?? demonstration(prompt, messages);
  const step = messages
    .slice(last + 1)
    .filter((message) => message.role === "assistant").length;
  const orders = steps[step] ?? [["say", "Done."]];
  const session =
    request.headers["x-session-affinity"] ??
    request.headers["x-session-id"] ??
    "";

  const due = (index, times = Infinity) => {
    const key = JSON.stringify([session, prompt, step, index]);
    const count = (failures.get(key) ?? 0) + 1;

    failures.set(key, count);
    return count <= times;
  };

  const chosen = [];

  for (const [index, order] of orders.entries()) {
    const [verb, value, reply] = order;

    if (verb === "http" && due(index, reply.times)) {
      send(
        response,
        value,
        reply.body ?? { error: { message: `scripted status ${value}` } },
        reply.headers,
      );
      return null;
    }

    if (verb !== "http" && (verb !== "cut" || due(index, value))) {
      chosen.push(order);
    }
  }

  return chosen;
}

async function complete(request, response) {
  const chunks = [];

  for await (const chunk of request) {
    chunks.push(chunk);
  }

  let body, orders;

  try {
    body = JSON.parse(Buffer.concat(chunks).toString());

    if (options.log) {
      appendFileSync(
        options.log,
        `${JSON.stringify({ headers: request.headers, body })}\n`,
      );
    }

    orders = choose(request, response, body);
  } catch (error) {
    if (!(error instanceof OrderError || error instanceof SyntaxError)) {
      throw error;
    }

    send(response, 400, { error: { message: error.message, code: "orders" } });
    return;
  }

  if (orders !== null) {
    const sink = new (body.stream ? Stream : Answer)(response, body.model);

    await play(orders, sink);
  }
}

function page(response, name) {
  response.writeHead(200, { "Content-Type": "text/html; charset=utf-8" });
  response.end(
    `<!doctype html><title>${name}</title>` +
      `<h1>${name}</h1><p>A page of the scripted model.</p>\n`,
  );
}

const server = createServer(async (request, response) => {
  const { pathname } = new URL(request.url, "http://localhost");
  const [, name] = /^\/page\/([\w-]+)$/.exec(pathname) ?? [];

  try {
    if (request.method === "POST" && pathname === "/v1/chat/completions") {
      requests++;
      await complete(request, response);
    } else if (pathname === "/v1/models") {
      send(response, 200, {
        object: "list",
        data: [{ id: "scripted", object: "model", owned_by: "agentstream" }],
      });
    } else if (pathname === "/requests") {
      send(response, 200, { requests });
    } else if (name) {
      page(response, name);
    } else {
      send(response, 404, { error: { message: "not found" } });
    }
  } catch (error) {
    console.error("model:", error);
    response.destroy();
  }
});

server.on("error", (error) => {
  console.error(`model: ${error.message}`);
  process.exit(1);
});

server.listen(Number(options.port), options.host, () => {
  const { address, port } = server.address();

  console.log(`model: http://${address}:${port}/v1`);
});

for (const signal of ["SIGINT", "SIGTERM"]) {
  process.on(signal, () => process.exit(0));
}
