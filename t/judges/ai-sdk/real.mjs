#!/usr/bin/env node
//
// The AI SDK's own client against real OpenCode, see t/aisdk_real.t.
//
// API is the location with "agentstream_protocol ai-sdk", NGINX_PID the process
// that reloads it, RUN makes the names of the chats new.

import { setTimeout as sleep } from "node:timers/promises";
import { Chat, ok, warnings } from "./judge.mjs";

const { API: api, NGINX_PID: pid, RUN: run } = process.env;

let chats = 0;

function is(got, wanted, name) {
  ok(JSON.stringify(got) === JSON.stringify(wanted), name, { got, wanted });
}

function chat(options = {}) {
  return new Chat({ api, id: `judge-${run}-${++chats}`, ...options });
}

const bash = (command) =>
  `!call bash ${JSON.stringify({ command, description: "x" })}`;
const words = (n) => Array.from({ length: n }, (_, i) => `w${i} `).join("");
const orders = (...lines) => ({ text: lines.join("\n") });

async function streams() {
  const c = chat();
  const done = c.sendMessage(orders("!think \"Hm, well. \"", "!pace 30",
    `!say ${JSON.stringify(words(20))}`));

  await c.until((x) => x.text().length > 10);
  ok(c.status === "streaming", "text is visible before the end");
  await done;

  is(c.text(), words(20), "the text");
  is(c.text("reasoning"), "Hm, well. ", "the thoughts");
  is(c.finished[0].finishReason, "stop", "the reason");
  is(c.requests[0].headers.get("x-vercel-ai-ui-message-stream"), "v1",
     "the header");
  ok(/^msg_/.test(c.last.id), "the message has the turn's id");
  ok(c.last.parts.some((part) => part.type === "data-usage"), "usage");
  is(c.last.parts[0].type, "step-start", "it begins with a step");

  await c.sendMessage(orders("!say \"Again.\""));
  is(c.text(), "Again.", "the second message of a chat");
  is(c.messages.length, 4, "in the same chat");

  await c.sendMessage({ files: [{ type: "file", mediaType: "text/plain",
    filename: "note.txt", url: "data:text/plain;base64,Tm90ZWQu" }],
    text: "!say \"Got it.\"" });
  is(c.text(), "Got it.", "a message with a file");
}

async function tools() {
  const c = chat();

  await c.sendMessage(orders(bash("echo one; sleep 0.3; echo two"),
    bash("sleep 0.2; echo beside"), "!call read {\"filePath\":\"none.txt\"}",
    "!next", "!say \"Done.\""));

  const [one, two, bad] = c.tools();

  is(c.tools().length, 3, "three calls at once");
  is(one.output.output, "one\ntwo\n", "the output of the first");
  is(two.output.output, "beside\n", "and of the second");
  is([bad.state, /none/.test(bad.errorText)], ["output-error", true],
     "and the third failed");
  is(c.text(), "Done.", "the text after them");
  is(c.last.parts.filter((part) => part.type === "step-start").length, 2,
     "in two steps");

  const plan = chat();
  await plan.sendMessage(orders("!call todowrite {\"todos\":[{\"content\":" +
    "\"Look\",\"status\":\"pending\",\"priority\":\"high\"}]}"));
  is(plan.last.parts.find(({ type }) => type === "data-plan").data.entries,
     [{ content: "Look", priority: "high", status: "pending" }], "a plan");

  const task = chat();
  await task.sendMessage(orders("!call task " + JSON.stringify({
    description: "Sub", subagent_type: "general",
    prompt: "!say \"From below.\"" }), "!next", "!say \"Back.\""));
  is(task.last.parts.filter(({ type }) => type === "data-subagent").length, 1,
     "a subagent");
  ok(task.data.some(({ type, data }) => type === "data-subagent-update"
       && data.content?.text === "From "), "what it says");
  is(task.text(), "Back.", "which is not said by the agent");
}

async function permissions() {
  const c = chat();

  await c.sendMessage(orders(bash("printf allowed"), "!next",
    "!say \"After.\""));
  is(c.status, "ready", "the response ends when something is asked");
  is([c.tools()[0].state, c.tools()[0].input.command],
     ["approval-requested", "printf allowed"], "a call wants approval");
  is(c.finished[0].finishReason, "tool-calls", "and the response says so");

  await c.addToolApprovalResponse({ id: c.tools()[0].approval.id,
    approved: true });
  await c.until((x) => x.text() === "After.");
  await c.idle();
  is([c.tools()[0].state, c.tools()[0].output.output],
     ["output-available", "allowed"], "it was allowed");
  is(c.tools().length, 1, "and is one call");
  is(c.requests.length, 2, "with one more request");

  const d = chat();

  await d.sendMessage(orders(bash("printf refused"), "!next", "!say \"On.\""));
  await d.addToolApprovalResponse({ id: d.tools()[0].approval.id,
    approved: false, reason: "Not today" });
  await d.until((x) => x.finished.length === 2);
  await d.idle();
  is(d.tools()[0].state, "output-denied", "it was refused");
  is(d.requests.length, 2, "once");

  // while another call runs, the approval is a call of its own

  const e = chat();

  await e.sendMessage(orders(bash("sleep 2; echo slow"),
    bash("printf beside"), "!next", "!say \"Both.\""));

  const own = e.tools().find(({ state }) => state === "approval-requested");

  await e.addToolApprovalResponse({ id: own.approval.id, approved: true });
  await e.until((x) => x.text() === "Both.");
  await e.idle();
  is(e.tools().filter(({ toolCallId }) => !/^per_/.test(toolCallId))
       .map(({ output }) => output.output).sort(), ["beside", "slow\n"],
     "two calls, one of which asked");
  is(e.requests.length, 2, "the answer was sent at once");

  // the first of two calls still runs when the second one asks

  const g = chat();

  await g.sendMessage(orders(bash("printf first; sleep 4"), "!sleep 1500",
    bash("printf second"), "!next", "!say \"Two.\""));

  for (let n = 0; n < 2; n++) {
    await g.until((x) => x.status === "ready" && x.tools().some(({ state }) =>
      state === "approval-requested"));
    await g.addToolApprovalResponse({ approved: true, id: g.tools().find(
      ({ state }) => state === "approval-requested").approval.id });
  }

  await g.until((x) => x.text() === "Two." || x.errors.length);
  await g.idle();
  is([g.errors, g.text()], [[], "Two."], "one asks while the other one runs");
  is(g.tools().map(({ state, output }) => [state, output.output]),
     [["output-available", "first"], ["output-available", "second"]],
     "both have run");
  is(g.requests.length, 3, "in three requests");

  // a subagent asks

  const f = chat();

  await f.sendMessage(orders("!call task " + JSON.stringify({
    description: "Sub", subagent_type: "general",
    prompt: `${bash("printf sub")}\n!next\n!say "Below."` }), "!next",
    "!say \"Up.\""));

  const sub = f.tools().find(({ state }) => state === "approval-requested");

  await f.addToolApprovalResponse({ id: sub.approval.id, approved: true });
  await f.until((x) => x.text() === "Up.");
  await f.idle();
  is(f.text(), "Up.", "a subagent was allowed something");
}

async function questions() {
  const ask = "!call question " + JSON.stringify({ questions: [{
    question: "Colour?", header: "Colour", options: [
      { label: "Blue", description: "b" }, { label: "Red", description: "r" },
    ] }] });
  const c = chat();

  await c.sendMessage(orders(ask, "!next", "!say \"Chosen.\""));

  const [tool] = c.tools();

  is([tool.toolName, tool.state, tool.providerExecuted],
     ["question", "input-available", false], "a question is the client's tool");
  is(tool.input.questions[0].options[0].label, "Blue", "with its options");

  await c.addToolOutput({ tool: "question", toolCallId: tool.toolCallId,
    output: { answers: [["Blue"]] } });
  await c.until((x) => x.text() === "Chosen.");
  await c.idle();
  ok(/Blue/.test(JSON.stringify(c.tools()[0].output)), "it was answered",
     c.tools());
  is(c.requests.length, 2, "once");

  // answered in another tab: the first one just goes on

  const d = chat();
  const tab = new Chat({ api, id: d.id });

  await d.sendMessage(orders(ask, "!next", "!say \"Elsewhere.\""));
  await tab.resumeStream();
  is(tab.tools()[0].state, "input-available", "the other tab is asked, too");
  await tab.addToolOutput({ tool: "question",
    toolCallId: tab.tools()[0].toolCallId, output: "Red" });
  await tab.until((x) => x.text() === "Elsewhere.");

  await d.addToolOutput({ tool: "question",
    toolCallId: d.tools()[0].toolCallId, output: "Blue" });
  await d.until((x) => x.text() === "Elsewhere.");
  await d.idle();
  ok(/Red/.test(JSON.stringify(d.tools()[0].output)),
     "the first answer counts, and the other tab goes on", d.tools());
  is([d.errors, tab.errors], [[], []], "without an error");
  is(d.last.id, tab.last.id, "the same message in both");
}

async function ends() {
  const c = chat();
  const done = c.sendMessage(orders("!say \"Long \"", "!sleep 60000"));

  await c.until((x) => x.text() === "Long ");

  const stop = await fetch(`${api}/${c.id}/stop`, { method: "POST" });
  is(await stop.json(), { interrupted: true }, "the stop button");
  await done;
  is([c.status, c.finished[0].finishReason], ["ready", "other"],
     "the turn was stopped");

  const d = chat();
  await d.sendMessage(orders("!http 400 {\"body\":{\"error\":{\"message\":" +
    "\"No way\"}}}"));
  is([d.status, d.errors.length, /No way/.test(d.errors[0])],
     ["error", 1, true], "an error");

  // stop() of the library leaves the turn alone

  const e = chat();
  const going = e.sendMessage(orders("!pace 40",
    `!say ${JSON.stringify(words(30))}`));

  await e.until((x) => x.text().length > 10);
  await e.stop();
  await going;
  await e.resumeStream();
  is(e.text(), words(30), "a reader who has left can come back");
  is(e.messages.length, 2, "to the same message");

  // the same message sent again is the same turn

  const again = new Chat({ api, id: e.id });
  await again.sendMessage(e.messages[0]);
  is([again.text(), again.last.id], [words(30), e.last.id],
     "a request that is repeated gets the same turn");
}

async function resumes() {
  const c = chat();
  const done = c.sendMessage(orders("!think \"Hm. \"", "!pace 40",
    `!say ${JSON.stringify(words(60))}`));

  await c.until((x) => x.text().length > 20);

  // another tab, and the page reloaded with what it had kept

  const tab = new Chat({ api, id: c.id });
  const page = new Chat({ api, id: c.id, messages: structuredClone(c.messages) });
  const reads = [tab.resumeStream(), page.resumeStream()];

  await tab.until((x) => x.text().length > 20);

  process.kill(Number(pid), "SIGHUP");
  await sleep(300);

  const late = new Chat({ api, id: c.id });
  reads.push(late.resumeStream());

  await Promise.all([done, ...reads]);

  for (const [name, x] of Object.entries({ c, tab, page, late })) {
    is(x.text(), words(60), `${name}: nothing is lost or doubled`);
    is(x.text("reasoning"), "Hm. ", `${name}: nor of the thoughts`);
    is(x.last.id, c.last.id, `${name}: the same message`);
  }

  const none = new Chat({ api, id: c.id });
  await none.resumeStream();
  is(none.requests[0].status, 204, "204 when nothing runs");

  const never = chat();
  await never.resumeStream();
  is([never.requests[0].status, never.errors], [204, []],
     "also in a chat that has not begun");
}

const only = process.env.ONLY && new RegExp(process.env.ONLY);

for (const part of [streams, tools, permissions, questions, ends, resumes]) {
  if (only && !only.test(part.name)) continue;

  try {
    await part();
  } catch (error) {
    ok(false, `${part.name}: ${error.stack}`);
  }
}

is(warnings, [], "the library has warned of nothing");

console.log("# done");
