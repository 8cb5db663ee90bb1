// AG-UI's own client against OpenCode itself, see t/agui_real.t.

import { appendFileSync } from "node:fs";
import { join } from "node:path";

import { HttpAgent, agent, base, compare, done, is, ok, outcome, packets,
  part, run, say, thread, types, url, warnings } from "./agui.mjs";

const workspace = process.env.WORKSPACE;

const bash = (command) =>
  `!call bash ${JSON.stringify({ command, description: "x" })}`;

// Whether what the client has at the end is what the packets say.
async function same(it, name) {
  compare(await packets(it.threadId), it.messages, name);
}

async function waitFor(what, name, ms = 20000) {
  const until = Date.now() + ms;

  while (Date.now() < until) {
    if (await what()) return true;
    await new Promise((resolve) => setTimeout(resolve, 20));
  }

  return ok(false, `${name}: waited in vain`);
}

const text = (it) => it.messages.filter((m) => m.role === "assistant")
  .map((m) => m.content ?? "").join("");

await part("text", async () => {
  const it = agent();
  let early;

  say(it, '!pace 120\n!think "First a thought."\n!say "Words that come, one '
    + 'after the other, \\"quoted\\" and \\u00e9."\n!usage '
    + '{"prompt_tokens":100,"completion_tokens":20,"total_tokens":120}');

  await it.runAgent({}, {
    onTextMessageContentEvent: ({ textMessageBuffer }) => {
      early ??= { at: Date.now(), running: it.isRunning, textMessageBuffer };
    },
  });

  ok(early && Date.now() - early.at > 200, "text: visible before the end");
  is(text(it), 'Words that come, one after the other, "quoted" and é.',
    "text: all of it");
  is(it.messages.find((m) => m.role === "reasoning")?.content,
    "First a thought.", "text: reasoning");
  is(outcome(it), { type: "success" }, "text: outcome");
  is(it.seen.at(-1).result, { stopReason: "end_turn" }, "text: result");
  ok(it.seen.at(-1).usage?.[0].totalTokens > 0, "text: usage",
    it.seen.at(-1));
  ok(types(it).includes("STEP_STARTED") && types(it).includes("STEP_FINISHED"),
    "text: a step");
  await same(it, "text");

  // a second turn of the same thread
  say(it, '!say "Again."');
  await it.runAgent();
  is(it.messages.at(-1).content, "Again.", "text: a second turn");
});

await part("tools", async () => {
  const it = agent();

  say(it, [bash("sleep 1; echo one"), bash("sleep 1; echo two"), "!next",
    `!call read {"filePath":"${workspace}/missing.txt"}`, "!next",
    '!say "Done."'].join("\n"));
  await it.runAgent();

  const results = it.messages.filter((m) => m.role === "tool");
  const calls = it.messages.flatMap((m) => m.toolCalls ?? []);

  is(calls.map((c) => c.function.name), ["bash", "bash", "read"],
    "tools: two in parallel, and one that fails");
  is(results.map((m) => m.metadata.status).sort(),
    ["completed", "completed", "failed"], "tools: their results");
  ok(results.some((m) => m.content === "one\n") &&
    results.some((m) => m.content === "two\n"), "tools: their outputs",
    results);
  is(JSON.parse(calls[0].function.arguments).command, "sleep 1; echo one",
    "tools: arguments");

  const start = it.seen.findIndex((e) => e.type === "TOOL_CALL_START" &&
    e.toolCallId === calls[1].id);
  const result = it.seen.findIndex((e) => e.type === "TOOL_CALL_RESULT");

  ok(start < result, "tools: the second begins before the first ends");
  await same(it, "tools");
});

await part("subagent", async () => {
  const it = agent();

  say(it, "!call task " + JSON.stringify({ description: "x",
    subagent_type: "general", prompt: '!say "Child."' })
    + '\n!next\n!say "Parent."');
  await it.runAgent();

  const started = it.seen.find((e) => e.type === "SUBAGENT_STARTED");
  const child = it.messages.find((m) => m.content === "Child.");

  ok(started && child?.subagentRunId === started.subagentRunId,
    "subagent: its text is its own", started, child);
  ok(types(it).indexOf("SUBAGENT_FINISHED") < types(it).indexOf(
    "RUN_FINISHED"), "subagent: finished");
  await same(it, "subagent");
});

await part("subagent asks", async () => {
  const it = agent();
  const asked = [];

  say(it, "!call task " + JSON.stringify({ description: "x",
    subagent_type: "general", prompt: [bash("echo asked of a child"), "!next",
      '!say "Child."'].join("\n") }) + '\n!next\n!say "Parent."');
  await run(it, (interrupt) => {
    asked.push(interrupt);
    return { reply: "once" };
  });

  is(asked.length, 1, "subagent asks: once");
  ok(asked[0]?.subagentRunId, "subagent asks: by its name");
  is(it.seen.filter((e) => e.type === "SUBAGENT_FINISHED")
    .map((e) => e.outcome.type), ["suspended", "success"],
    "subagent asks: it is suspended, and then finished");
  ok(it.messages.some((m) => m.content === "Child." && m.subagentRunId),
    "subagent asks: and goes on");
  await same(it, "subagent asks");
});

await part("plan", async () => {
  const it = agent();
  const todo = (status) => "!call todowrite " + JSON.stringify({ todos: [
    { content: "A", status, priority: "high", id: "1" }] });

  it.state = { mine: 1 };
  say(it, [todo("pending"), "!next", todo("completed"), "!next",
    '!say "Planned."'].join("\n"));
  await it.runAgent();

  is(it.state, { mine: 1, plan: [{ content: "A", priority: "high",
    status: "completed" }] }, "plan: in the client's state");
  is(types(it).filter((type) => type === "STATE_DELTA").length, 2,
    "plan: two patches");
});

await part("files", async () => {
  const it = agent();

  appendFileSync(join(workspace, "note.txt"), "the note's text");
  say(it, [
    { type: "text", text: '!say "Seen."' },
    { type: "image", source: { type: "data", mimeType: "image/png", value:
      "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAQAAAC1HAwCAAAAC0lEQVR42mNk+A8AAQUBAScY"
      + "42YAAAAASUVORK5CYII=" } },
    { type: "document", source: { type: "url",
      value: `file://${join(workspace, "note.txt")}`,
      mimeType: "text/plain" } },
  ]);
  await it.runAgent();
  is(text(it), "Seen.", "files: the prompt was accepted");

  const session = it.seen.find((e) => e.name === "turn_started").value
    .sessionId;
  const stored = await (await fetch(
    `${process.env.OPENCODE}/session/${session}/message`)).json();
  const parts = stored.find((m) => m.info.role === "user").parts;

  ok(parts.some((p) => p.type === "file" && p.mime === "image/png") &&
    parts.some((p) => p.type === "file" && /note\.txt/.test(p.url)),
    "files: OpenCode has both", parts);

  const outside = agent();

  say(outside, [{ type: "document", source: { type: "url",
    value: "file:///etc/passwd" } }]);

  const error = await outside.runAgent().catch((e) => e);

  warnings.length = 0;
  is([error.status, error.payload?.type, error.payload?.code],
    [400, "RUN_ERROR", "400"], "files: not outside of the directory");
});

await part("permission", async () => {
  for (const [payload, status] of [[{ reply: "once" }, "completed"],
    [{ approved: true }, "completed"], [{ approved: false }, "failed"],
    [undefined, "failed"]])
  {
    const name = `permission ${JSON.stringify(payload)}`;
    const it = agent();
    const asked = [];

    say(it, ['!say "Before."', bash("echo asked me"), "!next",
      '!say "After."'].join("\n"));
    await run(it, (interrupt) => {
      asked.push(interrupt);
      return payload;
    });

    is(asked.map((i) => [i.reason, i.message]),
      [["tool_call", "bash: echo asked me"]], `${name}: asked once`);
    ok(it.messages.some((m) => m.toolCalls?.[0].id === asked[0].toolCallId),
      `${name}: names its call`);
    is(it.messages.find((m) => m.role === "tool")?.metadata.status, status,
      `${name}: ${status}`);
    is(types(it).filter((t) => t === "RUN_STARTED").length, 2,
      `${name}: in two runs`);
    await same(it, name);
  }
});

await part("question", async () => {
  const ask = "!call question " + JSON.stringify({ questions: [{
    question: "Which colour?", header: "Colour", options: [
      { label: "Blue", description: "b" }, { label: "Red", description: "r" },
    ] }] }) + '\n!next\n!say "So be it."';
  const it = agent();

  say(it, ask);
  await it.runAgent();
  is(outcome(it).type, "interrupt", "question: the run ends");
  is(it.pendingInterrupts.map((i) => [i.reason, i.message]),
    [["input_required", "Which colour?"]], "question: what is asked");

  // a new message while it waits is refused, and so is an answer of another
  // thread
  const busy = agent(it.threadId);

  say(busy, "hello");
  is((await busy.runAgent().catch((e) => e)).status, 409,
    "question: the thread is busy");

  const stranger = agent();

  say(stranger, '!say "x"');
  await stranger.runAgent();
  is((await stranger.runAgent({ resume: [{
    interruptId: it.pendingInterrupts[0].id, status: "resolved",
    payload: { answers: [["Blue"]] } }] }).catch((e) => e)).status, 400,
    "question: not of another thread");
  warnings.length = 0;

  // a page that is loaded now is asked, too
  const tab = agent(it.threadId);

  await tab.runAgent();
  is(tab.pendingInterrupts.map((i) => i.message), ["Which colour?"],
    "question: asked in a second tab");
  await run(tab, () => ({ answers: [["Red"]] }));
  is(text(tab), "So be it.", "question: answered there");
  await same(tab, "question, second tab");

  // the first tab just goes on
  await run(it, () => ({ answers: [["Blue"]] }));
  is(text(it), "So be it.", "question: the first tab goes on");
  ok(it.messages.find((m) => m.role === "tool")?.content.includes("Red"),
    "question: with the answer of the other");
  await same(it, "question");

  const other = agent();

  say(other, ask);
  await run(other);
  is(other.messages.find((m) => m.role === "tool")?.metadata.status, "failed",
    "question: rejected");
});

await part("stop", async () => {
  const it = agent();

  say(it, `!pace 50\n!say "${"word ".repeat(200)}"`);

  const running = it.runAgent();

  await waitFor(() => text(it).length > 20, "stop");

  const answer = await fetch(`${url}/${it.threadId}/stop`, { method: "POST" });

  is(await answer.json(), { interrupted: true }, "stop: accepted");
  await running;
  is(outcome(it), { type: "cancelled" }, "stop: cancelled");
  await same(it, "stop");

  // leaving is not stopping
  const left = agent();

  say(left, `!pace 50\n!say "${"word ".repeat(30)}"`);

  const gone = left.runAgent().catch(() => undefined);

  await waitFor(() => text(left).length > 20, "leave");
  left.abortRun();
  await gone;
  warnings.length = 0;

  const again = agent(left.threadId);

  await again.runAgent();
  is(text(again), "word ".repeat(30), "leave: the turn has gone on");
});

await part("error", async () => {
  const it = agent();

  say(it, '!http 400 {"body":{"error":{"message":"no such thing"}}}');
  await it.runAgent();
  is(it.seen.at(-1).type, "RUN_ERROR", "error: RUN_ERROR");
  ok(it.seen.at(-1).code, "error: has a code", it.seen.at(-1));
});

await part("rejoin", async () => {
  const it = agent();
  const whole = "wörter and so on, ".repeat(30);

  say(it, '!say "Earlier."');
  await it.runAgent();
  say(it, `!pace 20\n!think "Hm, hm, hm."\n${bash("echo x")}\n!next\n`
    + `!pace 20\n!say ${JSON.stringify(whole)}`);

  const running = it.runAgent();

  await waitFor(() => text(it).length > 200, "rejoin");

  // a page that was loaded again, with nothing in its memory, and nginx, which
  // reads its configuration again
  const page = agent(it.threadId);
  const joined = page.runAgent();

  process.kill(process.env.MASTER, "SIGHUP");
  await waitFor(() => text(page).length > 300, "rejoin");

  const late = agent(it.threadId);
  const joining = late.runAgent();

  await Promise.all([running, joined, joining]);

  for (const [one, name] of [[it, "the first"], [page, "reload"],
    [late, "after nginx's reload"]])
  {
    is(text(one), `Earlier.${whole}`, `rejoin: ${name} has all of it, once`);
    is(one.messages.filter((m) => m.role === "user").length, 2,
      `rejoin: ${name} has the prompts`);
    is(one.messages.filter((m) => m.role === "reasoning").map((m) =>
      m.content).join(""), "Hm, hm, hm.", `rejoin: ${name} has the thought`);
    is(one.messages.filter((m) => m.role === "tool").length, 1,
      `rejoin: ${name} has the tool once`);
  }

  is(types(page).slice(0, 2), ["RUN_STARTED", "MESSAGES_SNAPSHOT"],
    "rejoin: begins with a snapshot");
  is(page.messages[0].role, "user", "rejoin: in order");

  // a connection that broke off: the same client, with a part of the turn
  const cut = agent();

  say(cut, `!pace 20\n!think "Hm, hm, hm."\n!say ${JSON.stringify(whole)}`);

  const broken = cut.runAgent().catch(() => undefined);

  await waitFor(() => text(cut).length > 200, "rejoin");
  cut.abortRun();
  await broken;
  warnings.length = 0;
  await cut.runAgent();
  is(text(cut), whole, "rejoin: nothing lost or doubled after a cut");
  is(cut.messages.filter((m) => m.role === "reasoning").map((m) =>
    m.content).join(""), "Hm, hm, hm.", "rejoin: nor of the thought");

  // the same run again never starts a second turn
  const twice = agent();

  say(twice, '!say "Only once."', "u1");
  await twice.runAgent({ runId: "run-1" });

  const same = agent(twice.threadId);

  say(same, '!say "Only once."', "u1");
  await same.runAgent({ runId: "run-1" });
  is(text(same), "Only once.", "rejoin: the same run has its answer");

  const all = agent(twice.threadId);

  await all.runAgent();
  is(all.messages.filter((m) => m.role === "user").length, 1,
    "rejoin: and one prompt");
});

done();
