#!/usr/bin/env node
//
// Every captured turn through the AI SDK: what its chat has at the end must be
// what the expected packets say.
//
// API is the location with "agentstream_protocol ai-sdk", TURNS a JSON file: a
// list of [capture, turn, session, packets].

import { readFileSync } from "node:fs";
import { isDeepStrictEqual } from "node:util";
import { Chat, ok, textOf, warnings } from "./judge.mjs";

const { API: api, TURNS: turns } = process.env;

const chats = new Map();

// a replayed capture has new ids

function plain(value) {
  return JSON.parse((JSON.stringify(value) ?? "null")
    .replace(/\b(ses|msg|prt)_\w+/g, "$1"));
}

function is(got, wanted, name) {
  ok(isDeepStrictEqual(plain(got), plain(wanted)), name, { got, wanted });
}

function chunks(packets, type) {
  const own = packets.map((packet, i) => ({ ...packet, seq: i + 1 }));
  const gone = own.filter((packet) => packet.type === "chunks_discarded");

  return own
    .filter((packet) => packet.type === type && packet._meta === null)
    .filter(({ seq, messageId }) => !gone.some((range) =>
      range.messageId === messageId && seq >= range.from && seq <= range.to))
    .map((packet) => packet.content.text)
    .join("");
}

const FINISH = { end_turn: "stop", max_tokens: "length",
  refusal: "content-filter", cancelled: "other" };

function toolsOf(packets) {
  const tools = new Map();

  for (const packet of packets) {
    if (packet.type === "tool_call_progress"
        && !packet._meta?.parentSessionId) {
      tools.set(packet.toolCallId, packet);
    }
  }

  return tools;
}

async function play(chat, text) {
  await chat.sendMessage({ text });

  // what the capture's user has answered is recorded: whatever is answered
  // here comes too late, and the turn just goes on

  for (let i = 0; i < 10 && chat.status === "ready"; i++) {
    const tools = chat.last.role === "assistant" ? chat.tools() : [];
    const part = tools.find((tool) => tool.state === "approval-requested"
      || (tool.state === "input-available" && tool.providerExecuted === false));

    if (part === undefined) {
      return;
    }

    await (part.approval
      ? chat.addToolApprovalResponse({ id: part.approval.id, approved: true })
      : chat.addToolOutput({ tool: part.toolName,
          toolCallId: part.toolCallId, output: "whatever" }));

    await new Promise((done) => setTimeout(done, 20));
    await chat.idle();
  }
}

async function judge(name, turn, session, packets) {
  const key = `${name}.${session}`;
  const end = packets.at(-1);

  if (!chats.has(key)) {
    chats.set(key, new Chat({ api, id: `capture-${key}` }));
  }

  const chat = chats.get(key);
  const before = chat.messages.length;
  const label = `${name}:${turn}:${session}`;

  try {
    await play(chat, `replay:${name}:${turn}:${session} chunk=event`);
  } catch (error) {
    ok(false, `${label}: ${error.message}`);
    return;
  }

  const message = chat.messages.slice(before)
    .find(({ role }) => role === "assistant");

  is(textOf(message), chunks(packets, "agent_message_chunk"),
     `${label}: its text`);
  is(textOf(message, "reasoning"), chunks(packets, "agent_thought_chunk"),
     `${label}: its thoughts`);

  if (end.type === "error") {
    is(chat.errors.at(-1), end.message, `${label}: its error`);
    is(chat.errors.length, 1, `${label}: no other error`);
  } else {
    is(chat.errors, [], `${label}: no error`);
    is(chat.finished.at(-1)?.finishReason, FINISH[end.stopReason],
       `${label}: how it finished`);
  }

  const tools = toolsOf(packets);
  const parts = (message?.parts ?? []).filter((part) =>
    part.type === "dynamic-tool" && !part.toolCallId.startsWith("per_")
    && !part.toolCallId.startsWith("que_"));

  is(parts.map((part) => part.toolCallId), [...tools.keys()],
     `${label}: its tool calls, each once`);

  for (const part of parts) {
    const packet = tools.get(part.toolCallId);
    const state = { completed: "output-available", failed: "output-error",
      in_progress: "input-available", pending: "input-streaming" };

    ok(part.state === state[packet.status]
       || (packet.status === "in_progress" && part.preliminary)
       || (packet.status === "failed" && part.state === "output-denied"),
       `${label}: the state of ${part.toolName}`, [part, packet]);

    if (packet.status === "completed") {
      is(part.output, packet.rawOutput, `${label}: the output`);
      is(part.input, packet.rawInput, `${label}: the input`);
    }
    if (part.state === "output-error") {
      is(part.errorText, packet.rawOutput.error, `${label}: why it failed`);
    }
  }

  is((message?.parts ?? []).filter(({ type }) => type === "file")
       .map(({ url, mediaType }) => [url, mediaType]),
     [...tools.values()].flatMap(({ content }) => content ?? [])
       .filter((block) => block.content?.type === "image")
       .map(({ content: { data, mimeType } }) =>
         [`data:${mimeType};base64,${data}`, mimeType]),
     `${label}: its files`);

  const plan = packets.findLast((packet) => packet.type === "agent_plan_update"
    && packet._meta === null);

  if (plan) {
    is(message.parts.find(({ type }) => type === "data-plan").data.entries,
       plan.entries, `${label}: the plan`);
  }

  const children = packets.filter(({ type }) => type === "subagent_started");

  is((message?.parts ?? []).filter(({ type }) => type === "data-subagent")
       .length, children.length, `${label}: its subagents`);
}

for (const turn of JSON.parse(readFileSync(turns, "utf8"))) {
  await judge(...turn);
}

is(warnings, [], "the library has warned of nothing");

console.log("# done");
