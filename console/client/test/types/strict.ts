// What the types allow, and what they refuse.  Checked by tsc, never run.

import {
  AgentStreamError,
  createClient,
  initialState,
  isTerminal,
  parseEvents,
  reduce,
  reduceHistory,
  type Answer,
  type Client,
  type Packet,
  type PermissionReply,
  type Running,
  type Started,
  type State,
} from "agentstream";
import { validParts } from "agentstream/ai-sdk";

const client: Client = createClient({
  base: "http://localhost/sessions",
  headers: async () => ({ Authorization: "Bearer x" }),
  retries: 3,
});

export async function turns(signal: AbortSignal): Promise<State> {
  const session = await client.createSession({ name: "task-42", title: "T" });
  const state = reduceHistory(initialState(), await client.messages(session.id));

  for await (const packet of client.sendMessage(session.id, "Hello", {
    signal,
    agent: "build",
    model: { providerID: "lab", modelID: "demo" },
    onConnection: (link, info) => console.log(link, info?.attempt),
  })) {
    reduce(state, packet);

    // a packet's type decides what else it has

    if (packet.type === "agent_message_chunk") {
      const text: string = packet.content.text;
      console.log(text);
    } else if (packet.type === "question_asked") {
      await client.answerQuestion(session.id, packet.questionId, [
        [packet.questions[0]!.options[0]!.label],
      ]);
    } else if (packet.type === "request_permission") {
      const reply: PermissionReply = packet.options[0]!.optionId;
      await client.answerPermission("@task-42", packet.permissionId, reply);
    } else if (isTerminal(packet)) {
      const end: "prompt_response" | "error" = packet.type;
      console.log(end);
    }

    // @ts-expect-error: not every packet has it
    packet.content;
  }

  for (const item of state.items) {
    if (item.type === "tool") {
      console.log(item.call.status, item.name);
    } else if (item.type === "subagent") {
      console.log(item.items.length);
    }
  }

  return state;
}

export async function answers(): Promise<void> {
  const answer: Answer = await client.run("@task-42", [
    { type: "text", text: "x" },
    { type: "image", data: "aGk=", mimeType: "image/png" },
  ]);
  const maybe: Answer | Running = await client.run("@task-42", "x", { wait: 5 });
  const begun: Started = await client.start("@task-42", "x");
  const later: Answer | null = await client.answer(begun.sessionId, {
    turnId: begun.turnId,
  });

  if (maybe.running) {
    console.log(maybe.turnId);
  } else {
    console.log(maybe.text, answer.toolCalls[0]?.title, later?.plan?.length);
  }

  // @ts-expect-error: with a limit it may still be running
  const wrong: Answer = await client.run("@task-42", "x", { wait: 5 });
  // @ts-expect-error: there may be no turn
  const none: Answer = await client.answer("@task-42");
  // @ts-expect-error: no such reply
  await client.answerPermission("ses_1", "per_1", "maybe");
  // @ts-expect-error: no such option
  createClient({ url: "x" });

  console.log(wrong, none);
}

export async function rest(body: ReadableStream<Uint8Array>): Promise<void> {
  const [model] = await client.models();
  const [agent] = await client.agents();

  console.log(model?.modelID, agent?.description);
  console.log((await client.renameSession("ses_1", "New")).title);
  console.log((await client.interrupt("ses_1")).interrupted);

  try {
    for await (const packet of parseEvents(body)) {
      const each: Packet = packet;
      console.log(each.timestamp);
    }
  } catch (error) {
    if (error instanceof AgentStreamError) {
      console.log(error.status, error.packet?.message);
    }
  }
}

type Part = { type: "text"; text: string } | { type: "step-start" };

const parts: Part[] = validParts<Part>([{ type: "text", text: "x" }]);

// @ts-expect-error a part has a type
validParts([{ text: "x" }]);

console.log(parts.length);
