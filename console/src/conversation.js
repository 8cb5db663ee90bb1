// One session's conversation: its history, the turn that runs, and the one
// connection that feeds it.
//
// Only one stream is open at a time: while this tab sends, it reads the answer
// of its own request; otherwise it follows the session.

import { initialState, reduce, reduceHistory } from "../client/agentstream.js";

export class Conversation {
  constructor(client, id, changed) {
    this.client = client;
    this.id = id;
    this.changed = changed;
    this.state = initialState();
    this.connection = "connecting";
    this.attempt = 0;
    this.replayTo = 0;
    this.worked = 0;
    this.abort = new AbortController();
  }

  close() {
    this.abort.abort();
    this.closed = true;
  }

  set(connection, attempt = 0) {
    if (!this.closed) {
      this.connection = connection;
      this.attempt = attempt;
      this.changed();
    }
  }

  onConnection = (state, info) => {
    this.set(
      state === "live" && this.replayTo > 0 ? "replaying" : state,
      info?.attempt,
    );
  };

  // ---- reading

  async open() {
    const [history, turn] = await Promise.all([
      this.client.messages(this.id).catch((error) => error),
      this.client.turn(this.id).catch(() => null),
    ]);

    if (this.closed) {
      return;
    }

    if (Array.isArray(history)) {
      reduceHistory(this.state, history);
    } else if (history.status === 404) {
      this.failed = history;
      this.set("offline");
      return;
    }

    this.replayTo = turn?.running ? packetsOf(turn) : 0;
    this.hold = packetsOf(turn) > 0;

    // the turn is about to be sent from its start: do not flash what was shown
    // before

    setTimeout(() => this.release(), 400);
    this.changed();
    await this.follow();
  }

  release() {
    if (this.hold) {
      this.hold = false;
      this.changed();
    }
  }

  async follow() {
    while (!this.closed) {
      this.abort = new AbortController();
      const { signal } = this.abort;

      try {
        const stream = this.client.attach(this.id, {
          signal,
          follow: true,
          lastEventId: this.state.lastEventId,
          onConnection: this.onConnection,
        });

        for await (const packet of stream) {
          this.take(packet);
          await this.breathe();
        }

        // nothing to follow: ask again after a while
        this.set("idle");
      } catch (error) {
        if (signal.aborted) {
          return;
        }

        this.failed = error;
        this.set("offline");
        return;
      }

      this.release();
      await pause(3000, signal);

      if (signal.aborted) {
        return;
      }
    }
  }

  async reconnect() {
    this.abort.abort();
    this.failed = null;
    this.set("resuming");
    await this.follow();
  }

  // A browser has few connections for one server, and tabs share them.  A tab
  // that is hidden, and in which nothing happens, needs none.

  sleep() {
    if (!this.sending && this.state.status !== "running") {
      this.asleep = true;
      this.abort.abort();
    }
  }

  wake() {
    if (this.asleep && !this.sending && !this.closed) {
      this.follow();
    }

    this.asleep = false;
  }

  take(packet) {
    const { state } = this;

    reduce(state, packet);

    if (this.replayTo > 0) {
      const seq = Number(packet.id?.split(":")[1] ?? 0);

      if (seq >= this.replayTo || state.status !== "running") {
        this.replayTo = 0;
        this.connection = "live";
        this.hold = false;
      }
    } else {
      this.hold = false;
    }

    if (packet.type === "turn_started") {
      this.fetchPrompt(packet.turnId);
    }

    this.changed(packet);
  }

  // A burst of packets must not keep the page from drawing.

  async breathe() {
    if (performance.now() - this.worked > 8) {
      await new Promise((resolve) => setTimeout(resolve));
      this.worked = performance.now();
    }
  }

  // A turn from another tab contains the answer, but not the prompt.

  async fetchPrompt(turnId) {
    const known = () =>
      this.state.items.some(
        (item) => item.type === "user" && item.id === turnId,
      );

    if (known()) {
      return;
    }

    const packets = await this.client.messages(this.id).catch(() => []);

    if (known() || this.closed || this.state.turn?.turnId !== turnId) {
      return;
    }

    packets
      .filter((p) => p.type === "user_message_chunk" && p.messageId === turnId)
      .forEach((p) => reduce(this.state, p));
    this.changed();
  }

  // ---- sending

  // blocks: of the content.  -> the error, if it was refused before the turn
  // began

  async send(blocks, fields) {
    const { state } = this;

    this.abort.abort();
    this.abort = new AbortController();
    this.sending = true;
    this.hold = false;
    this.replayTo = 0;

    const { signal } = this.abort;
    const { length } = state.items;
    const { lastEventId } = state;
    let refused = null;

    blocks.forEach((content, n) => {
      if (n === 0) {
        reduce(state, {
          type: "user_message_chunk",
          timestamp: new Date().toISOString(),
          messageId: null,
          content,
        });
      } else {
        state.items.at(-1).content.push(content);
      }
    });
    state.status = "running";
    this.set("live");

    try {
      const stream = this.client.sendMessage(this.id, blocks, {
        ...fields,
        signal,
        onConnection: this.onConnection,
      });

      for await (const packet of stream) {
        this.take(packet);
        await this.breathe();
      }
    } catch (error) {
      if (this.closed) {
        return null;
      }

      if (state.lastEventId === lastEventId) {
        // as if it had never been sent
        state.items.length = length;
        state.rev++;
        state.status = "idle";
        refused = error;
      } else {
        this.failed = error;
      }
    }

    this.sending = false;
    this.changed();

    if (!this.closed) {
      this.follow();
    }

    return refused;
  }

  // the blocks of the last prompt

  lastPrompt() {
    return this.state.items.findLast((item) => item.type === "user")?.content;
  }
}

const packetsOf = (turn) => turn?.packets ?? 0;

function pause(ms, signal) {
  return new Promise((resolve) => {
    const timer = setTimeout(resolve, ms);

    signal.addEventListener("abort", () => resolve(clearTimeout(timer)));
  });
}
