// The reducer: packet by packet, and over every expected turn of t/data.

import assert from "node:assert/strict";
import { existsSync, readFileSync, readdirSync } from "node:fs";
import { test } from "node:test";

import { initialState, reduce, reduceHistory } from "../agentstream.js";
import { chunk, ended, started } from "./mock.mjs";

const turnStart = { ...started, turnId: "msg_u", messageId: "msg_u" };
const thought = (text, more) =>
  chunk(text, { type: "agent_thought_chunk", ...more });
const user = (text, messageId = null) => ({
  type: "user_message_chunk",
  messageId,
  content: { type: "text", text },
});
const tool = (id, status, more) => ({
  type: status === "start" ? "tool_call_start" : "tool_call_progress",
  toolCallId: id,
  title: "bash",
  kind: "execute",
  status: status === "start" ? "pending" : status,
  rawInput: {},
  rawOutput: null,
  content: null,
  locations: [],
  _meta: { toolName: "bash" },
  ...more,
});

function fold(packets, state = initialState()) {
  let seq = 0;

  for (const packet of packets) {
    const before = state.rev;

    reduce(state, {
      timestamp: new Date(1e12 + seq * 1000).toISOString(),
      id: `msg_u:${++seq}`,
      ...packet,
    });
    assert.ok(state.rev > before, `rev after ${packet.type}`);
  }

  return state;
}

const outline = (items) =>
  items.map((item) =>
    item.type === "subagent"
      ? [item.id, ...outline(item.items)]
      : `${item.type} ${item.text ?? item.id ?? ""}`.trim(),
  );

test("text, thoughts and tools in their order", () => {
  const state = fold([
    user("Hello"),
    turnStart,
    thought("Hm "),
    thought("so."),
    chunk("Hi "),
    chunk("you."),
    tool("call_1", "start"),
    tool("call_1", "completed", { rawOutput: { output: "x" } }),
    chunk("Done", { messageId: "msg_b" }),
  ]);

  assert.deepEqual(outline(state.items), [
    "user msg_u",
    "thought Hm so.",
    "message Hi you.",
    "tool call_1",
    "message Done",
  ]);
  assert.equal(state.status, "running");
  assert.equal(state.tools.get("call_1").call.rawOutput.output, "x");
  assert.equal(state.items[1].at, new Date(1e12 + 2000).toISOString());
  assert.equal(state.items[1].endedAt, new Date(1e12 + 3000).toISOString());

  fold([ended], state);
  assert.equal(state.status, "idle");
  assert.equal(state.end.stopReason, "end_turn");
  assert.equal(state.items.at(-1).type, "end");
});

test("only what changed has a new rev", () => {
  const state = fold([turnStart, chunk("a"), tool("call_1", "start")]);
  const [message, call] = state.items;
  const { rev } = message;
  const other = call.rev;

  fold([tool("call_1", "in_progress")], state);
  assert.equal(message.rev, rev);
  assert.ok(call.rev > other);
});

test("a card between two chunks does not cut the text", () => {
  const state = fold([
    turnStart,
    chunk("**bo"),
    { type: "question_asked", questionId: "que_1", questions: [] },
    chunk("ld**"),
  ]);

  assert.deepEqual(outline(state.items), ["message **bold**", "question que_1"]);
});

test("chunks_discarded voids a range of one message", () => {
  const state = fold([
    turnStart, // 1
    chunk("kept"), // 2
    chunk("bad "), // 3
    chunk("other", { messageId: "msg_b" }), // 4
    thought("worse ", {}), // 5
    { type: "chunks_discarded", messageId: "msg_a", from: 3, to: 5 },
    chunk("good"),
  ]);

  assert.deepEqual(outline(state.items), [
    "message kept",
    "message other",
    "message good",
  ]);
});

test("a subagent's packets go into its own thread, at any depth", () => {
  const child = { sessionId: "ses_c", parentSessionId: "ses_1" };
  const grand = { sessionId: "ses_g", parentSessionId: "ses_1" };
  const state = fold([
    turnStart,
    tool("call_t", "start", { _meta: { toolName: "task" } }),
    {
      type: "subagent_started",
      subagent_session_id: "ses_c",
      parent_session_id: "ses_1",
    },
    chunk("inner", { _meta: child }),
    {
      type: "subagent_started",
      subagent_session_id: "ses_g",
      parent_session_id: "ses_c",
    },
  ]);
  const rev = state.subagents.get("ses_c").rev;

  fold(
    [
      tool("call_2", "start", { _meta: { toolName: "bash", ...grand } }),
      { type: "context_usage", used_tokens: 7, _meta: child },
      { type: "agent_plan_update", entries: [{ content: "x" }], _meta: child },
    ],
    state,
  );

  assert.deepEqual(outline(state.items), [
    "tool call_t",
    ["ses_c", "message inner", ["ses_g", "tool call_2"]],
  ]);
  assert.equal(state.subagents.get("ses_c").toolCallId, "call_t");
  assert.equal(state.subagents.get("ses_c").context.used_tokens, 7);
  assert.ok(state.subagents.get("ses_c").rev > rev);
  assert.deepEqual(state.plan, []);
  assert.equal(state.context, null);
});

test("tasks side by side are told apart at their end", () => {
  const task = { _meta: { toolName: "task" } };
  const child = (id) => ({
    type: "subagent_started",
    subagent_session_id: id,
    parent_session_id: "ses_1",
  });
  const state = fold([
    turnStart,
    tool("call_1", "start", task),
    tool("call_2", "start", task),
    child("ses_b"),
    child("ses_a"),
  ]);
  const of = (id) => state.subagents.get(id).toolCallId;

  assert.deepEqual([of("ses_b"), of("ses_a")], ["call_1", "call_2"]);
  fold(
    [
      ["call_1", "ses_a"],
      ["call_2", "ses_b"],
    ].map(([call, sessionId]) =>
      tool(call, "completed", {
        ...task,
        rawOutput: { output: "", metadata: { sessionId } },
      }),
    ),
    state,
  );
  assert.deepEqual([of("ses_b"), of("ses_a")], ["call_2", "call_1"]);
});

test("questions and permissions wait, are resolved, or end with the turn", () => {
  const asked = { type: "question_asked", questionId: "que_1", questions: [] };
  const wanted = { type: "request_permission", permissionId: "per_1" };
  const state = fold([turnStart, asked, wanted]);

  assert.deepEqual([...state.waiting.keys()], ["que_1", "per_1"]);
  fold(
    [
      {
        type: "question_resolved",
        questionId: "que_1",
        outcome: "answered",
        answers: [["Blue"]],
      },
    ],
    state,
  );
  assert.deepEqual([...state.waiting.keys()], ["per_1"]);
  assert.equal(state.items[0].waiting, false);
  assert.equal(state.items[0].outcome.answers[0][0], "Blue");

  fold([tool("call_1", "in_progress"), ended], state);
  assert.equal(state.waiting.size, 0);
  assert.equal(state.items[1].outcome, undefined);
  assert.equal(state.tools.get("call_1").stopped, true);
});

test("retry and heartbeat are notices until something happens", () => {
  const state = fold([
    turnStart,
    { type: "session_status", status: "retry", attempt: 2, message: "slow" },
  ]);

  assert.equal(state.notice.attempt, 2);
  fold([{ type: "heartbeat", elapsedMs: 2, silentMs: 1 }], state);
  assert.equal(state.notice.type, "heartbeat");
  fold([chunk("a")], state);
  assert.equal(state.notice, null);
});

test("plan, usage, compaction, error", () => {
  const state = fold([
    turnStart,
    { type: "agent_plan_update", entries: [{ content: "x" }] },
    { type: "context_usage", used_tokens: 120 },
    { type: "compaction", summary: "short" },
    { type: "error", message: "key refused", code: 401, details: null },
  ]);

  assert.equal(state.plan[0].content, "x");
  assert.equal(state.context.used_tokens, 120);
  assert.equal(state.items[0].summary, "short");
  assert.equal(state.status, "error");
  assert.equal(state.end.code, 401);
});

test("a turn known from the history is told again, not twice", () => {
  const state = reduceHistory(initialState(), [
    user("One", "msg_o"),
    chunk("First."),
    user("Two", "msg_u"),
    chunk("Sec"),
    tool("call_1", "completed"),
  ]);

  assert.equal(state.status, "idle");
  fold([turnStart, chunk("Second."), tool("call_1", "start")], state);
  assert.deepEqual(outline(state.items), [
    "user msg_o",
    "message First.",
    "user msg_u",
    "message Second.",
    "tool call_1",
  ]);
});

test("stream_reset: the turn so far is told again", () => {
  const state = fold([
    user("Hello"),
    turnStart,
    chunk("a"),
    { type: "question_asked", questionId: "que_1", questions: [] },
    { type: "stream_reset", reason: "restart" },
    chunk("a b"),
  ]);

  assert.deepEqual(outline(state.items), ["user msg_u", "message a b"]);
  assert.equal(state.waiting.size, 0);
});

test("the prompt of a turn from elsewhere finds its place", () => {
  const state = fold([
    user("One"),
    turnStart,
    chunk("1"),
    ended,
    { ...turnStart, turnId: "msg_v", messageId: "msg_v" },
    chunk("2", { messageId: "msg_b" }),
    user("Two", "msg_v"),
    user("more", "msg_v"),
  ]);

  assert.deepEqual(outline(state.items), [
    "user msg_u",
    "message 1",
    "end",
    "user msg_v",
    "message 2",
  ]);
  assert.equal(state.items[3].content.length, 2);
});

test("a call id of an earlier turn is another call", () => {
  const state = fold([turnStart, tool("call_1", "completed"), ended]);

  fold(
    [
      { ...turnStart, turnId: "msg_v", messageId: "msg_v" },
      tool("call_1", "start"),
    ],
    state,
  );
  assert.deepEqual(outline(state.items), ["tool call_1", "end", "tool call_1"]);
});

test("agentstream_packets core: no ids of messages, no turn_started", () => {
  const plain = { messageId: undefined, id: undefined, _meta: null };
  const state = fold([
    chunk("a", plain),
    chunk("b", plain),
    tool("call_1", "start", { _meta: null }),
    chunk("c", plain),
    ended,
  ]);

  assert.deepEqual(outline(state.items), [
    "message ab",
    "tool call_1",
    "message c",
    "end",
  ]);
  assert.equal(state.tools.get("call_1").name, "bash");
});

test("unknown packets change nothing", () => {
  const state = fold([turnStart]);

  reduce(state, { type: "of_the_future" });
  assert.deepEqual(state.items, []);
});

const expected = new URL("../../../t/data/expected/", import.meta.url);

test("every expected turn", { skip: !existsSync(expected) }, () => {
  for (const file of readdirSync(expected)) {
    if (!file.endsWith(".jsonl")) {
      continue;
    }

    const turns = {};

    for (const line of readFileSync(new URL(file, expected), "utf8").split(
      "\n",
    )) {
      if (line) {
        const { turn, session, packet } = JSON.parse(line);
        (turns[`${session} ${turn}`] ??= []).push(packet);
      }
    }

    for (const packets of Object.values(turns)) {
      const state = fold(packets);
      const texts = (items) =>
        items.map((i) =>
          i.type === "message" ? i.text : i.items ? texts(i.items) : "",
        );

      assert.equal(
        texts(state.items).flat(9).join("").length,
        packets
          .filter((p) => p.type === "agent_message_chunk")
          .map((p) => p.content.text)
          .join("").length,
        file,
      );
      assert.ok(/idle|error/.test(state.status), file);
      assert.equal(state.waiting.size, 0, file);

      for (const { call, stopped } of state.tools.values()) {
        assert.ok(stopped || /completed|failed/.test(call.status), file);
      }
    }
  }
});
