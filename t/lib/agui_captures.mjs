// Every captured turn through AG-UI; TURNS are orders for the scripted
// OpenCode, see t/agui_captures.t.

import { EventSchema, agent, compare, done, is, ok, outcome, packets, part,
  run, say, thread, types } from "./agui.mjs";

const sessions = new Map();

for (const order of process.env.TURNS.split("|")) {
  const [, name, , session] = order.split(/[: ]/);
  const key = `${name}:${session}`;
  const threadId = sessions.get(key) ?? thread();

  sessions.set(key, threadId);

  await part(order, async () => {
    const it = agent(threadId);

    say(it, order);

    try {
      await run(it);
    } catch (error) {
      ok(false, `${order}: ${error}`);
    }

    const all = await packets(threadId);
    const last = all.at(-1);
    const end = it.seen.at(-1);

    is(types(it)[0], "RUN_STARTED", `${order}: begins`);

    for (const event of it.seen) {
      const { error } = EventSchema.safeParse(event);

      if (error) ok(false, `${order}: ${event.type}`, error.message);
    }

    if (last.type === "error") {
      is([end.type, end.message, end.code],
        ["RUN_ERROR", last.message, String(last.code ?? last.details.name)], `${order}: the error`);
    } else {
      is([end.type, outcome(it).type],
        ["RUN_FINISHED", last.stopReason === "cancelled" ? "cancelled"
          : "success"], `${order}: the end`);
    }

    const plan = all.findLast((packet) =>
      packet.type === "agent_plan_update" && !packet._meta?.sessionId);

    is(it.state.plan, plan?.entries, `${order}: the plan`);
    compare(all, it.messages, order);

    if (order.includes("wrongfinal")) {
      ok(types(it).includes("ACTIVITY_SNAPSHOT"), `${order}: taken back`);
    }
  });
}

done();
