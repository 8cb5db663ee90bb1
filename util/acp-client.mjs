#!/usr/bin/env node
//
// Talks to an ACP agent on its stdin and stdout, for comparison.
//
//   node util/acp-client.mjs --cwd DIRECTORY COMMAND... <prompts >answers
//
// Prompts: one JSON object per line, {name, text, model?}.  Each gets its own
// session, and all run at once.  Each answer is a line {name, updates: [ACP
// session updates], stopReason | error}.  Permissions are allowed once.

import { spawn } from "node:child_process";
import { createInterface } from "node:readline";

const [flag, cwd, command, ...args] = process.argv.slice(2);

if (flag !== "--cwd" || !command) {
  console.error("usage: acp-client.mjs --cwd DIRECTORY COMMAND...");
  process.exit(2);
}

const agent = spawn(command, args, { stdio: ["pipe", "pipe", "inherit"] });
const pending = new Map();
const sessions = new Map();
let last = 0;

function send(message) {
  agent.stdin.write(`${JSON.stringify({ jsonrpc: "2.0", ...message })}\n`);
}

function request(method, params) {
  const id = ++last;

  send({ id, method, params });

  return new Promise((resolve, reject) => {
    pending.set(id, { resolve, reject });
  });
}

// requests that the agent sends to its client

const METHODS = {
  "session/update": ({ sessionId, update }) => {
    sessions.get(sessionId)?.push(update);
  },

  "session/request_permission": ({ options }) => ({
    outcome: {
      outcome: "selected",
      optionId: options.find((o) => o.kind === "allow_once").optionId,
    },
  }),

  "fs/write_text_file": () => ({}),
};

createInterface({ input: agent.stdout }).on("line", (line) => {
  let message;

  try {
    message = JSON.parse(line);
  } catch {
    console.error(`not JSON: ${line}`);
    return;
  }

  const { id, method, params, result, error } = message;

  if (method) {
    const answer = METHODS[method]?.(params);

    if (id !== undefined) {
      send(answer ? { id, result: answer }
                  : { id, error: { code: -32601, message: "no such method" } });
    }

    return;
  }

  const { resolve, reject } = pending.get(id) ?? {};

  pending.delete(id);
  error ? reject?.(error) : resolve?.(result);
});

agent.on("exit", (code) => {
  if (pending.size) {
    console.error(`the agent has left (${code})`);
    process.exit(1);
  }
});

async function run({ name, text, model }) {
  const { sessionId } = await request("session/new", { cwd, mcpServers: [] });
  const updates = [];
  const answer = { name, updates };

  sessions.set(sessionId, updates);

  try {
    if (model) {
      await request("session/set_config_option",
                    { sessionId, configId: "model", value: model });
    }

    const { stopReason } = await request("session/prompt", { sessionId,
      prompt: [{ type: "text", text }] });

    answer.stopReason = stopReason;
  } catch (error) {
    answer.error = error;
  }

  // updates may arrive after the response

  await new Promise((resolve) => setTimeout(resolve, 300));
  console.log(JSON.stringify(answer));
}

const prompts = [];

for await (const line of createInterface({ input: process.stdin })) {
  prompts.push(JSON.parse(line));
}

await request("initialize", {
  protocolVersion: 1,
  clientCapabilities: { fs: { readTextFile: false, writeTextFile: false } },
});

const [first, ...rest] = prompts;

if (first) {
  await run(first);
  await Promise.all(rest.map(run));
}

agent.kill();
