// A client for agentstream: OpenCode's turns as ACP packets over SSE.
//
// createClient() talks to the server; reduce() folds packets into a state that
// a user interface can render.  No dependencies; browsers and Node 18.

export class AgentStreamError extends Error {
  constructor(message, status = 0, packet = null) {
    super(message);
    this.name = "AgentStreamError";
    this.status = status;
    this.packet = packet;
  }
}

export const isTerminal = ({ type }) =>
  type === "prompt_response" || type === "error";

// ---- server-sent events

// Yields packets; each has the event's id as `id`.  `touch` is told of every
// sign of life, comments included.  An event cut short by the end is dropped.

export async function* parseEvents(body, touch) {
  const reader = body.getReader();
  const decoder = new TextDecoder();
  let rest = "";
  let data = [];
  let id;

  try {
    for (;;) {
      const { done, value } = await reader.read();

      if (done) {
        return;
      }

      touch?.();
      rest += decoder.decode(value, { stream: true });

      // a CR at the very end may be half a CRLF

      const lines = rest.split(/\r\n|\n|\r(?!$)/);
      rest = lines.pop();

      for (const line of lines) {
        if (line === "") {
          if (data.length > 0) {
            const packet = JSON.parse(data.join("\n"));

            if (id) {
              packet.id = id;
            }

            data = [];
            yield packet;
          }

          continue;
        }

        const [, field, text] = /^([^:]*):? ?(.*)$/s.exec(line);

        if (field === "data") {
          data.push(text);
        } else if (field === "id") {
          id = text;
        }
      }
    }
  } finally {
    reader.cancel().catch(() => {});
  }
}

// ---- the client

// Not a secret: it only has to differ from all others.  A page without TLS has
// no randomUUID(), and Node 18 has no crypto.

const randomId = () =>
  Array.from({ length: 4 }, () => Math.floor(Math.random() * 2 ** 32)).join(
    "-",
  );

// A signal that is aborted by another one, and by a silence of so many ms.
// touch() ends the silence, end() aborts what is left.

function watch(signal, ms) {
  const abort = new AbortController();
  const stop = () => abort.abort(signal?.reason);
  let timer;

  const touch = () => {
    clearTimeout(timer);
    timer = setTimeout(stop, ms);
  };

  signal?.throwIfAborted();
  signal?.addEventListener("abort", stop);
  touch();

  return {
    signal: abort.signal,
    touch,
    end() {
      clearTimeout(timer);
      signal?.removeEventListener("abort", stop);
      stop();
    },
  };
}

const gone = () => new AgentStreamError("The turn is no longer kept", 410);

// An error's body is its packet: as JSON, or as the only event of a stream.

async function failure(response) {
  let packet = null;

  try {
    const text = await response.text();
    packet = JSON.parse(/^data: ?(.*)$/m.exec(text)?.[1] ?? text);
  } catch {
    // somebody else's error page
  }

  return new AgentStreamError(
    packet?.message ?? `HTTP ${response.status}`,
    response.status,
    packet,
  );
}

// A session's id, or "@" and its name.  What no path may have is encoded, so
// that the server refuses it.

const path = (session) =>
  "/" + encodeURIComponent(session).replace(/%40|%3A/g, decodeURIComponent);

export function createClient({
  base = "/sessions",
  fetch = globalThis.fetch,
  headers,
  retries = 10,
  minDelay = 500,
  maxDelay = 15000,
  silence = 45000,
} = {}) {
  const call = async (method, path, body, signal, extra) =>
    fetch(base.replace(/\/$/, "") + path, {
      method,
      signal,
      cache: "no-store",
      headers: {
        Accept: "application/json",
        // without a body, too: what another origin may send unasked is refused
        ...(method !== "GET" && { "Content-Type": "application/json" }),
        ...(typeof headers === "function" ? await headers() : headers),
        ...extra,
      },
      ...(body && { body: JSON.stringify(body) }),
    });

  const json = async (...args) => {
    const response = await call(...args);

    if (!response.ok) {
      throw await failure(response);
    }

    const text = await response.text();

    return text ? JSON.parse(text) : null;
  };

  // Waits before the next attempt, or gives up.

  async function pause(failures, lost, signal, onConnection) {
    if (failures > retries) {
      throw new AgentStreamError(
        "Connection lost: " + (lost?.message ?? "closed"),
        lost?.status,
        lost?.packet,
      );
    }

    const delay =
      Math.min(maxDelay, minDelay * 2 ** (failures - 1)) *
      (0.5 + Math.random() / 2);

    onConnection?.("resuming", { attempt: failures, delay });
    await new Promise((resolve) => {
      const done = () => {
        clearTimeout(timer);
        signal?.removeEventListener("abort", done);
        resolve();
      };
      const timer = setTimeout(done, delay);

      signal?.addEventListener("abort", done);
    });
  }

  // a text or a list of blocks, or a whole body

  const prompt = (content, fields) => ({
    client_request_id: randomId(),
    ...(content.at ? { content } : content),
    ...fields,
  });

  // One or more connections, seen as one stream.  Before the first packet a
  // send is repeated as it was, client_request_id and all; after it, and for
  // an attach always, the stream goes on behind the last packet seen.

  async function* stream(
    session,
    body,
    { signal, lastEventId: last, follow, onConnection },
  ) {
    const turn = (id) => id?.split(":")[0];
    let failures = 0;

    for (;;) {
      const live = watch(signal, silence);
      const send = body && !last;
      let lost;

      try {
        const response = await call(
          send ? "POST" : "GET",
          path(session) +
            (send ? "/send-message" : "/events" + (follow ? "?follow=1" : "")),
          send && body,
          live.signal,
          {
            Accept: "text/event-stream",
            ...(last && { "Last-Event-ID": last }),
          },
        );

        if (response.status === 204) {
          return;
        }

        if (!response.ok) {
          throw await failure(response);
        }

        onConnection?.("live");

        for await (const packet of parseEvents(response.body, live.touch)) {
          if (body && last && turn(packet.id) !== turn(last)) {
            throw gone();
          }

          failures = 0;
          last = packet.id || last;
          yield packet;

          if (!follow && isTerminal(packet)) {
            return;
          }
        }
      } catch (error) {
        // what the server itself says of a send is final, too

        signal?.throwIfAborted();

        if (error.status && (error.status < 500 || (send && error.packet))) {
          throw error;
        }

        lost = error;
      } finally {
        live.end();
      }

      await pause(++failures, lost, signal, onConnection);
    }
  }

  // One object about a turn: its answer, when it is over, or what is known when
  // the caller does not want to wait any longer.  A request waits for 30 s and
  // is followed by the next one, so that no proxy takes it for dead; one whose
  // response is lost is repeated as it was.

  async function whole(session, body, options) {
    const { signal, turnId, wait = Infinity, async, onConnection } = options;
    const until = Date.now() + wait * 1000;
    let turn = turnId;
    let failures = 0;

    for (;;) {
      const left = Math.min(30, Math.max(0, (until - Date.now()) / 1000));
      const seconds = Math.ceil(left);
      const live = watch(signal, seconds * 1000 + silence);
      let lost;

      try {
        const send = body && !turn;
        const response = await call(
          send ? "POST" : "GET",
          path(session) + (send ? "/send-message" : "/events"),
          send && body,
          live.signal,
          {
            Prefer: async ? "respond-async" : `wait=${seconds}`,
            ...(turn && { "Last-Event-ID": `${turn}:0` }),
          },
        );

        if (!response.ok) {
          throw await failure(response);
        }

        const answer = response.status === 204 ? null : await response.json();

        if (turn && answer?.turnId !== turn) {
          throw gone();
        }

        if (!answer?.running || async || Date.now() >= until) {
          return answer;
        }

        turn = answer.turnId;
        session = answer.sessionId;
        failures = 0;
        continue;
      } catch (error) {
        signal?.throwIfAborted();

        if (error.status && (error.status < 500 || error.packet)) {
          throw error;
        }

        lost = error;
      } finally {
        live.end();
      }

      await pause(++failures, lost, signal, onConnection);
    }
  }

  return {
    createSession: (init = {}) => json("POST", "", init),
    listSessions: () => json("GET", ""),
    getSession: (session) => json("GET", path(session)),
    renameSession: (session, title) =>
      json("PATCH", path(session), { title }),
    deleteSession: (session) => json("DELETE", path(session)),
    models: () => json("GET", "/models"),
    agents: () => json("GET", "/agents"),
    turn: (session) => json("GET", `${path(session)}/turn`),
    messages: (session) => json("GET", `${path(session)}/messages`),
    interrupt: (session) => json("POST", `${path(session)}/interrupt`, {}),

    sendMessage(session, content, options = {}) {
      const { signal, onConnection, ...fields } = options;

      return stream(session, prompt(content, fields), { signal, onConnection });
    },

    run(session, content, options = {}) {
      const { signal, wait, onConnection, ...fields } = options;

      return whole(session, prompt(content, fields), {
        signal,
        wait,
        onConnection,
      });
    },

    async start(session, content, options = {}) {
      const { signal, onConnection, ...fields } = options;
      const { turnId, sessionId, running } = await whole(
        session,
        prompt(content, fields),
        { signal, onConnection, async: true },
      );

      return { turnId, sessionId, running: Boolean(running) };
    },

    answer: (session, options = {}) => whole(session, null, options),

    attach: (session, options = {}) => stream(session, null, options),

    answerQuestion: (session, question, answers) =>
      json("POST", `${path(session)}/questions/${question}/reply`, { answers }),
    rejectQuestion: (session, question) =>
      json("POST", `${path(session)}/questions/${question}/reject`, {}),
    answerPermission: (session, permission, reply, message) =>
      json("POST", `${path(session)}/permissions/${permission}/reply`, {
        reply,
        message,
      }),
  };
}

// ---- the reducer

// What one session says: the root's is the state itself, a subagent's is the
// item that stands for it among its parent's items.

const thread = () => ({ items: [], plan: [], context: null, rev: 1 });

export const initialState = () => ({
  ...thread(),
  status: "idle",
  turn: null,
  end: null,
  notice: null,
  lastEventId: null,
  tools: new Map(),
  subagents: new Map(),
  waiting: new Map(),
});

// Folds a packet into the state, in place, and returns it.  The `rev` of the
// state and of an item grows whenever anything in it changes.

export function reduce(state, packet) {
  const { type, timestamp: at, id, messageId = null, _meta, content } = packet;
  const { tools, subagents, waiting } = state;
  const into = subagents.get(_meta?.sessionId) ?? state;
  const { items } = into;
  const last = items.at(-1);
  const asked = packet.questionId ?? packet.permissionId;

  const touch = (item, change) => {
    Object.assign(item, change).rev++;
  };

  const add = (item, list = items) => {
    list.push({ at, endedAt: at, rev: 1, ...item });

    return list.at(-1);
  };

  // where what follows the last such item begins; 0 if there is none

  const after = (kind, id) =>
    items.findLastIndex(
      (item) => item.type === kind && (!id || item.id === id),
    ) + 1;

  // what the turn has left behind so far comes again

  const rewind = (length) => {
    items.length = length;
    tools.clear();
    subagents.clear();
    waiting.clear();
    state.plan = [];
  };

  const settle = (key, change) => {
    const item = waiting.get(key);

    if (item) {
      touch(item, { ...change, waiting: false, endedAt: at });
      waiting.delete(key);
    }
  };

  for (let up = into; up !== state; up = subagents.get(up.parentId) ?? state) {
    up.rev++;
  }

  state.rev++;
  state.lastEventId = id ?? state.lastEventId;
  state.notice = null;

  switch (type) {
    case "turn_started": {
      // a turn that is already here, from the history, is told again
      const known = after("user", messageId);

      if (!known && last?.type === "user") {
        last.id ??= messageId;
      }

      rewind(known || items.length);
      state.turn = packet;
      state.end = null;
      break;
    }

    case "stream_reset":
      rewind(after("user"));
      break;

    case "user_message_chunk": {
      const known = messageId && after("user", messageId);

      if (known) {
        items[known - 1].content.push(content);
        touch(items[known - 1]);
      } else {
        const user = add({ type: "user", id: messageId, content: [content] });

        // one that is told after its turn began belongs before it

        if (messageId && messageId === state.turn?.turnId) {
          items.pop();
          items.splice(after("end"), 0, user);
        }
      }

      return state;
    }

    case "agent_message_chunk":
    case "agent_thought_chunk": {
      const kind = type.slice(6, -6);
      const { text = "" } = content;

      // cards and subagents may stand in between, but nothing else

      let item = items.findLast((each) => !(each.items ?? each.packet));

      if (item?.type !== kind || item.messageId !== messageId) {
        item = add({ type: kind, messageId, text: "", chunks: [] });
      }

      item.chunks.push([Number(id?.split(":")[1]), text]);
      touch(item, { text: item.text + text, endedAt: at });
      break;
    }

    case "chunks_discarded":
      into.items = items.filter((item) => {
        if (item.chunks && item.messageId === messageId) {
          const chunks = item.chunks.filter(
            ([seq]) => seq < packet.from || seq > packet.to,
          );

          touch(item, { chunks, text: chunks.map((c) => c[1]).join("") });
        }

        return item.text !== "";
      });
      break;

    case "tool_call_start":
    case "tool_call_progress": {
      const key = packet.toolCallId;
      const item = tools.get(key) ?? add({ type: "tool", id: key });
      const name = _meta?.toolName ?? item.name ?? packet.title;

      tools.set(key, item);
      touch(item, { call: packet, name, endedAt: at });

      // only at its end does a task name its subagent

      const child = subagents.get(packet.rawOutput?.metadata?.sessionId);

      if (child) {
        touch(child, { toolCallId: key });
      }

      break;
    }

    case "subagent_started": {
      const { subagent_session_id: key, parent_session_id: parentId } = packet;
      const list = (subagents.get(parentId) ?? state).items;
      const task = list.find(
        (item) =>
          item.name === "task" &&
          /pend|prog/.test(item.call.status) &&
          !list.some((other) => other.toolCallId === item.id),
      );

      subagents.set(
        key,
        add(
          {
            ...thread(),
            type: "subagent",
            id: key,
            parentId,
            toolCallId: task?.id,
          },
          list,
        ),
      );
      break;
    }

    case "agent_plan_update":
      into.plan = packet.entries;
      break;

    case "question_asked":
    case "request_permission":
      waiting.set(
        asked,
        add({
          type: packet.questionId ? "question" : "permission",
          id: asked,
          packet,
          waiting: true,
        }),
      );
      break;

    case "question_resolved":
    case "permission_resolved":
      settle(asked, { outcome: packet });
      break;

    case "session_status":
    case "heartbeat":
      state.notice = packet;
      break;

    case "context_usage":
      into.context = packet;
      break;

    case "compaction":
      add({ type: "compaction", summary: packet.summary });
      break;

    case "prompt_response":
    case "error":
      for (const key of waiting.keys()) {
        settle(key);
      }

      for (const item of tools.values()) {
        if (/pend|prog/.test(item.call.status)) {
          touch(item, { stopped: true });
        }
      }

      add({ type: "end", end: packet, startedAt: state.turn?.timestamp });
      state.end = packet;
      state.status = type === "error" ? type : "idle";
      return state;

    default:
      return state;
  }

  state.status = "running";
  return state;
}

// Folds what messages() gives: nothing of it is still under way.

export function reduceHistory(state, packets) {
  packets.forEach((packet) => reduce(state, packet));
  state.status = "idle";

  return state;
}
