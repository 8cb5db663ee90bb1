// The AI SDK's own client, unchanged, without React: its chat with a state that
// is a plain object, and its transport.  Every chunk is checked by the library
// itself; what it throws or warns of is remembered.

import { createRequire } from "node:module";
import { dirname, join, resolve } from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";

const here = dirname(fileURLToPath(import.meta.url));
const build = resolve(process.env.AGENTSTREAM_BUILD ?? join(here, "../../../build"));
const modules = join(build, "npm-judge-ai-sdk/node_modules");

const ai = await import(
  pathToFileURL(createRequire(join(modules, "_")).resolve("ai")).href
);

export const {
  AbstractChat,
  DefaultChatTransport,
  isToolUIPart,
  lastAssistantMessageIsCompleteWithApprovalResponses,
  lastAssistantMessageIsCompleteWithToolCalls,
} = ai;

export const warnings = [];

export function ok(good, name, why) {
  console.log(`${good ? "ok" : "not ok"} - ${name}`);

  if (!good && why !== undefined) {
    console.log(`# ${JSON.stringify(why).slice(0, 2000)}`);
  }
}

for (const name of ["warn", "error"]) {
  console[name] = (...args) => warnings.push(args.join(" "));
}

class State {
  status = "ready";
  error = undefined;
  messages;

  constructor(messages) {
    this.messages = messages;
  }

  pushMessage = (message) => {
    this.messages = this.messages.concat(message);
  };

  popMessage = () => {
    this.messages = this.messages.slice(0, -1);
  };

  replaceMessage = (index, message) => {
    this.messages = this.messages.with
      ? this.messages.with(index, this.snapshot(message))
      : this.messages.map((m, i) => (i === index ? this.snapshot(message) : m));
  };

  snapshot = (thing) => structuredClone(thing);
}

export class Chat extends AbstractChat {
  // what happened, for the tests
  chunks = [];
  data = [];
  requests = [];
  finished = [];
  errors = [];

  constructor({ api, messages = [], headers, ...init }) {
    const state = new State(messages);
    const self = {};

    super({
      ...init,
      state,
      transport: new DefaultChatTransport({
        api,
        headers,
        fetch: async (url, options) => {
          const response = await fetch(url, options);
          self.chat.requests.push({
            method: options.method,
            url: String(url),
            status: response.status,
            headers: response.headers,
          });
          return response;
        },
      }),
      sendAutomaticallyWhen: (options) =>
        lastAssistantMessageIsCompleteWithApprovalResponses(options) ||
        lastAssistantMessageIsCompleteWithToolCalls(options),
      onData: (part) => self.chat.data.push(part),
      onError: (error) => self.chat.errors.push(error.message),
      onFinish: (event) => self.chat.finished.push(event),
    });

    self.chat = this;
  }

  get last() {
    return this.messages.at(-1);
  }

  // of the assistant
  text(type = "text") {
    return this.last?.role === "assistant" ? textOf(this.last, type) : "";
  }

  tools() {
    return this.last.parts.filter(isToolUIPart);
  }

  // waits until the chat has nothing to do any more, or what is asked for is
  // there
  async until(what, seconds = 30) {
    const end = Date.now() + seconds * 1000;

    while (!what(this)) {
      if (Date.now() > end) {
        throw new Error(`waited in vain: ${what}: ${this.status} ` +
          JSON.stringify(this.last) + JSON.stringify(this.errors));
      }
      await new Promise((done) => setTimeout(done, 5));
    }
  }

  idle(seconds) {
    return this.until(
      (chat) => chat.status === "ready" || chat.status === "error",
      seconds,
    );
  }
}

// the texts of a message that are not void, as a page shows them

export function textOf(message, type = "text") {
  const parts = message?.parts ?? [];
  const reset = parts.findLastIndex((part) => part.type === "data-reset");
  const void_ = parts.filter((part) => part.type === "data-discarded");

  return parts
    .slice(reset + 1)
    .filter((part) => part.type === type)
    .filter((part) => {
      const seq = part.providerMetadata?.agentstream?.seq;
      return !void_.some(({ data }) => seq >= data.from && seq <= data.to);
    })
    .map((part) => part.text)
    .join("");
}
