// The page: sessions on the left, a conversation on the right.

import { createClient } from "../client/agentstream.js";
import { Composer } from "./composer.js";
import { Conversation } from "./conversation.js";
import { copyButton, count, duration, h, icon, setText } from "./dom.js";
import { Scroller } from "./scroller.js";
import { Thread } from "./views.js";

const FRAME = 8; // milliseconds of drawing per frame

const $ = (id) => document.getElementById(id);
const base = document.querySelector('meta[name="agentstream-base"]').content;
const client = createClient({ base, retries: 20 });

const input = $("input");
const composer = new Composer({
  input,
  form: $("composer"),
  tray: $("tray"),
  attach: $("attach"),
  file: $("file"),
  changed: () => schedule(),
  refused: (message) => alertUser(message),
});
const scroller = new Scroller($("scroller"), $("jump"));
let sessions = [];
let listed = null;
let conversation = null;
let frame = 0;

const actions = {
  answerQuestion: (id, answers) =>
    client.answerQuestion(conversation.id, id, answers),
  rejectQuestion: (id) => client.rejectQuestion(conversation.id, id),
  answerPermission: (id, reply, message) =>
    client.answerPermission(conversation.id, id, reply, message),
  retry: () => submit(conversation.lastPrompt() ?? []),
  link: (turn) => linkTo(conversation?.id, turn),
};

// a link that opens this turn, live while it runs

const linkTo = (id, turn) =>
  `${location.origin}${location.pathname}#${id}${turn ? `/${turn}` : ""}`;

let wanted = null; // the turn that the address names, until it was shown

function linked(id) {
  if (id !== wanted) {
    return false;
  }

  // the latest turn is followed, an older one is read

  wanted = null;
  scroller.pinned =
    conversation.state.items.findLast((item) => item.type === "user")?.id ===
    id;

  return !scroller.pinned;
}

const directory = () =>
  sessions.find(({ id }) => id === conversation?.id)?.directory;

const transcript = new Thread($("transcript"), { actions, directory, linked });

// ---- drawing: once per frame, and only what changed

function schedule() {
  frame ||= requestAnimationFrame(draw);
}

function draw() {
  frame = 0;

  if (!conversation) {
    drawEmpty(true);
    drawStatus();
    return;
  }

  const { state, hold } = conversation;

  if (!hold) {
    drawEmpty(state.items.length === 0);

    if (!transcript.update(state.items, state, performance.now() + FRAME)) {
      schedule();
    }
  }

  drawStatus();
  scroller.follow();
}

let empty = null;

function drawEmpty(show) {
  if (show && !empty) {
    empty = h(
      "div.empty-state",
      null,
      h("span.logo", { "aria-hidden": "true" }),
      h("h2", null, "What shall the agent do?"),
      h("p", null, "Ask a question, or describe a task. Every step shows here as it happens."),
    );
    $("scroller").prepend(empty);
  } else if (!show && empty) {
    empty.remove();
    empty = null;
  }
}

const CONNECTIONS = {
  connecting: "Connecting",
  resuming: "Resuming",
  replaying: "Replaying",
  offline: "Offline, reconnect",
  idle: "Ready",
  live: "Ready",
};

let status = "";
let waiting = 0;
let drawnPlan = null;

function drawStatus() {
  const state = conversation?.state;
  const running = state?.status === "running";
  const link = conversation?.connection ?? "idle";
  const shown =
    running && link === "live" ? "running" : link === "live" ? "idle" : link;

  if (document.body.dataset.connection !== shown) {
    document.body.dataset.connection = shown;
    $("connection").disabled = shown !== "offline";
    setText(
      $("connection-text"),
      shown === "running" ? "Live" : CONNECTIONS[shown],
    );
  }

  $("send").hidden = running && composer.empty;
  $("send").setAttribute(
    "aria-label",
    running ? "Send when the agent has finished" : "Send",
  );
  $("stop").hidden = !running;
  $("send").disabled = composer.empty || link === "offline";
  $("share").hidden = !conversation;

  drawNotice(state, running);
  drawPlan(state, running);
  drawNext();

  const context = state?.context;

  $("context").hidden = !context;

  if (context) {
    setText(
      $("context"),
      `${count(context.used_tokens)} tokens` +
        (context.cost > 0 ? ` · $${context.cost.toFixed(4)}` : ""),
    );
  }

  announce(state, running);
}

// for screen readers

function announce(state, running) {
  const now = state?.waiting.size ?? 0;
  const text =
    now > waiting
      ? "The agent needs your answer"
      : running && status !== "running"
        ? "The agent is working"
        : !running && status === "running"
          ? state?.status === "error"
            ? ""
            : `The agent has finished. ${
                state.items.findLast((item) => item.type === "message")?.text ??
                ""
              }`.slice(0, 500)
          : null;

  waiting = now;
  status = running ? "running" : "idle";

  if (text !== null) {
    setText($("announce"), text);
  }
}

let ticking = null;

function drawNotice(state, running) {
  const notice = $("notice");
  const packet = running ? state.notice : null;
  const asks = state?.waiting.size ?? 0;
  let text = "";

  if (packet?.type === "session_status") {
    const left = Math.ceil((packet.next - Date.now()) / 1000);

    text =
      `${packet.message || "The model is not available"}. ` +
      (left > 0
        ? `Attempt ${packet.attempt + 1} in ${left} s`
        : `Attempt ${packet.attempt + 1}…`);
  } else if (conversation?.connection === "resuming") {
    text = `The connection was lost, trying again${
      conversation.attempt > 1 ? ` (${conversation.attempt})` : ""
    }…`;
  } else if (asks > 0) {
    text = "The agent waits for your answer";
  } else if (packet?.type === "heartbeat") {
    text = `Still working, silent for ${duration(packet.silentMs)}`;
  } else if (running && !spoken(state)) {
    text = "Working…";
  }

  notice.hidden = text === "";
  notice.dataset.kind = packet?.type ?? (asks > 0 ? "waiting" : "busy");
  setText(notice, text);

  if (packet?.type === "session_status") {
    ticking ??= setInterval(schedule, 500);
  } else if (ticking) {
    clearInterval(ticking);
    ticking = null;
  }
}

// whether the page already shows that the agent is working

function spoken(state) {
  const last = state.items.at(-1);

  return (
    last &&
    (/message|thought|subagent/.test(last.type) ||
      (last.type === "tool" && /pending|progress/.test(last.call.status)))
  );
}

function drawPlan(state, running) {
  const plan = state?.plan ?? [];

  // it is open while there is something to follow

  if (status === "running" && !running) {
    $("plan").open = false;
  }

  if (plan === drawnPlan) {
    return;
  }

  const element = $("plan");
  const done = plan.filter((entry) => entry.status === "completed").length;
  const now = plan.find((entry) => entry.status === "in_progress");

  if (!drawnPlan?.length && plan.length) {
    element.open = running && matchMedia("(min-width: 720px)").matches;
  }

  drawnPlan = plan;
  element.hidden = plan.length === 0;
  element.firstElementChild.replaceChildren(
    icon("list"),
    h("strong", null, "Plan"),
    h("span.progress", null, `${done} of ${plan.length}`),
    h("span.now", null, now?.content ?? ""),
    icon("chevron", "chevron"),
  );
  element.lastElementChild.replaceChildren(
    ...plan.map((entry) =>
      h(
        "li",
        { "data-status": entry.status, "data-priority": entry.priority },
        h(
          "span.box",
          null,
          h("span.sr", null, entry.status.replace("_", " ")),
          entry.status === "completed"
            ? icon("check")
            : entry.status === "in_progress"
              ? h("span.spinner")
              : null,
        ),
        entry.content,
      ),
    ),
  );
}

function alertUser(message, action) {
  const element = $("alert");

  element.hidden = !message;
  element.replaceChildren();

  if (message) {
    element.append(
      icon("alert"),
      h("span", null, message),
      action ?? "",
      h(
        "button.icon-button",
        { type: "button", "aria-label": "Dismiss", onclick: () => alertUser("") },
        icon("cross"),
      ),
    );
  }
}

// ---- sessions

async function list() {
  try {
    const all = await client.listSessions();

    listed = true;
    sessions = all
      .filter((session) => !session.parentID)
      .sort((a, b) => b.time.updated - a.time.updated);
  } catch (error) {
    listed = error;
  }

  drawSessions();
}

function ago(time) {
  const minutes = Math.round((Date.now() - time) / 60000);

  return minutes < 1
    ? "now"
    : minutes < 60
      ? `${minutes} min`
      : minutes < 1440
        ? `${Math.round(minutes / 60)} h`
        : new Date(time).toLocaleDateString();
}

// OpenCode's own first title is only a time

const titleOf = (session) =>
  session?.title?.replace(/^New session - \d{4}-.*/, "") || "New session";

function drawSessions() {
  const current = conversation?.id;
  const session = sessions.find(({ id }) => id === current);

  setText($("title"), titleOf(session));
  document.title = session ? `${titleOf(session)} · agentstream` : "agentstream";

  const words = $("find").value.toLowerCase().split(/\s+/);
  const found = sessions.filter((each) =>
    words.every((word) => titleOf(each).toLowerCase().includes(word)),
  );

  if (renaming) {
    return;
  }

  $("sessions").replaceChildren(
    ...(found.length > 0
      ? found.map((each) =>
          h(
            "li",
            null,
            h(
              "a",
              {
                href: `#${each.id}`,
                "aria-current": each.id === current ? "page" : undefined,
                "aria-keyshortcuts": "F2",
                onclick: () => drawer(false),
                onkeydown(event) {
                  if (event.key === "F2") {
                    event.preventDefault();
                    rename(each, event.target.parentElement);
                  }
                },
              },
              h("span.name", null, titleOf(each)),
              h("span.time", null, ago(each.time.updated)),
            ),
            h(
              "button.icon-button.rename",
              {
                type: "button",
                "aria-label": `Rename ${titleOf(each)}`,
                title: "Rename",
                onclick: (event) =>
                  rename(each, event.currentTarget.parentElement),
              },
              icon("pencil"),
            ),
            removeButton(each.id, titleOf(each)),
          ),
        )
      : [
          h(
            "li.none",
            null,
            sessions.length > 0
              ? "No session has these words"
              : listed === true || listed === null
              ? "No sessions yet"
              : `Sessions cannot be listed: ${listed.message}`,
          ),
        ]),
  );
}

let renaming = false;

function rename(session, row) {
  const field = h("input.title-field", {
    type: "text",
    value: titleOf(session),
    "aria-label": "Title",
    autocomplete: "off",
    onblur: () => finish(true),
    onkeydown(event) {
      if (event.key === "Enter" || event.key === "Escape") {
        event.preventDefault();
        event.stopPropagation();
        finish(event.key === "Enter");
      }
    },
  });

  async function finish(save) {
    const title = field.value.trim();

    if (!renaming) {
      return;
    }

    renaming = false;

    if (save && title && title !== titleOf(session)) {
      try {
        Object.assign(session, await client.renameSession(session.id, title));
      } catch (error) {
        alertUser(`Not renamed: ${error.message}`);
      }
    }

    drawSessions();
    document.querySelector(`#sessions a[href="#${session.id}"]`)?.focus();
  }

  renaming = true;
  row.replaceChildren(field);
  field.select();
}

function removeButton(id, title) {
  const button = h(
    "button.icon-button.remove",
    {
      type: "button",
      "aria-label": `Delete ${title}`,
      title: "Delete",
      onblur: () => button.classList.remove("sure"),

      async onclick() {
        if (!button.classList.contains("sure")) {
          button.classList.add("sure");
          button.setAttribute("aria-label", `Really delete ${title}?`);
          return;
        }

        try {
          await client.deleteSession(id);
        } catch (error) {
          alertUser(`Not deleted: ${error.message}`);
        }

        if (conversation?.id === id) {
          location.hash = "";
        }

        list();
      },
    },
    icon("trash"),
    h("span.really", { "aria-hidden": "true" }, "Delete?"),
  );

  return button;
}

function show(id, turn = null) {
  wanted = turn;

  if (conversation?.id === id) {
    if (wanted) {
      transcript.clear();
      schedule();
    }

    return;
  }

  conversation?.close();
  conversation = null;
  transcript.clear();
  alertUser("");
  scroller.reset();
  drawnPlan = null;

  if (id) {
    conversation = new Conversation(client, id, changed);
    conversation.open();
  }

  restoreDraft();
  drawSessions();
  schedule();
}

function changed(packet) {
  const { failed } = conversation ?? {};

  if (failed) {
    conversation.failed = null;
    alertUser(
      failed.status === 404
        ? "This session does not exist any more"
        : failed.message,
    );
  }

  // OpenCode chooses a title during the turn

  if (packet?.type === "prompt_response" || packet?.type === "error") {
    list();
    setTimeout(list, 2500);

    if (!conversation?.sending) {
      setTimeout(sendNext);
    }
  }

  schedule();
}

let drowsy;

document.addEventListener("visibilitychange", () => {
  clearTimeout(drowsy);

  if (document.hidden) {
    drowsy = setTimeout(() => conversation?.sleep(), 30000);
  } else {
    conversation?.wake();
    schedule();
  }
});

// #session, or #session/turn

const showHash = () => {
  const [, id = null, turn = null] =
    /^#(ses_[A-Za-z0-9]+)(?:\/(msg_[A-Za-z0-9]+))?$/.exec(location.hash) ?? [];

  show(id, turn);
};

// ---- sending

const draftKey = () => `agentstream.draft.${conversation?.id ?? "new"}`;

function restoreDraft() {
  composer.fill(sessionStorage.getItem(draftKey()) ?? "");
}

// Agent and model: what a message can choose, and what was chosen last.

const choices = { agent: new Map(), model: new Map() };

const chosen = () =>
  Object.fromEntries(
    Object.entries(choices)
      .map(([field, values]) => [field, values.get($(field).value)])
      .filter(([, value]) => value),
  );

async function choose(field, word, load) {
  const select = $(field);
  const values = choices[field];
  const key = `agentstream.${field}`;

  // a server that does not tell has no choices

  for (const { label, about, value } of await load().catch(() => [])) {
    const name = typeof value === "string" ? value : JSON.stringify(value);

    values.set(name, value);
    select.append(h("option", { value: name, title: about }, label));
  }

  if (values.size > 0) {
    select.prepend(h("option", { value: "" }, `Default ${word}`));
    select.value = values.has(localStorage.getItem(key))
      ? localStorage.getItem(key)
      : "";
    select.hidden = false;
    select.addEventListener("change", () =>
      localStorage.setItem(key, select.value),
    );
  }
}

// What is sent while the agent works is sent when it has finished.

let next = null; // { id, blocks }
let drawnNext = null;

function drawNext() {
  if (drawnNext === next) {
    return;
  }

  const element = $("next");

  drawnNext = next;
  element.hidden = !next;
  element.replaceChildren();

  if (next) {
    element.append(
      h("strong", null, "Next:"),
      h("span.words", null, textOf(next.blocks) || "a picture"),
      h(
        "button.icon-button",
        {
          type: "button",
          "aria-label": "Do not send it",
          onclick: () => takeBack(),
        },
        icon("cross"),
      ),
    );
  }
}

const textOf = (blocks) =>
  blocks
    .filter((block) => block.type === "text")
    .map((block) => block.text)
    .join("\n");

function takeBack() {
  if (next) {
    composer.giveBack(next.blocks);
    next = null;
    schedule();
    input.focus();
  }
}

// after a turn that went well; otherwise its writer decides again

function sendNext() {
  const { id, state } = conversation ?? {};

  if (!next || next.id !== id || state.status === "running") {
    return;
  }

  if (state.end?.stopReason !== "end_turn") {
    takeBack();
    return;
  }

  const { blocks } = next;

  next = null;
  submit(blocks);
}

async function submit(blocks) {
  if (blocks.length === 0) {
    return;
  }

  if (conversation?.state.status === "running") {
    next = {
      id: conversation.id,
      blocks: [...(next?.id === conversation.id ? next.blocks : []), ...blocks],
    };
    composer.clear();
    sessionStorage.removeItem(draftKey());
    setText($("announce"), "It will be sent when the agent has finished");
    schedule();
    return;
  }

  alertUser("");
  scroller.pin();
  sessionStorage.removeItem(draftKey());
  composer.clear();

  if (!conversation) {
    try {
      const session = await client.createSession();

      sessions.unshift(session);
      conversation = new Conversation(client, session.id, changed);
      history.replaceState(null, "", `#${session.id}`);
      drawSessions();
    } catch (error) {
      giveBack(blocks, `No session: ${error.message}`);
      return;
    }
  }

  const talk = conversation;
  const refused = await talk.send(blocks, chosen());

  if (refused && talk === conversation) {
    giveBack(
      blocks,
      refused.status === 409
        ? "The agent is still busy with another message"
        : refused.status === 413
          ? "The message is too large for this server"
          : refused.message,
    );
  } else if (talk === conversation) {
    sendNext();
  }
}

function giveBack(blocks, message) {
  if (composer.empty) {
    composer.giveBack(blocks);
  }

  alertUser(
    message,
    h(
      "button.button",
      {
        type: "button",
        onclick() {
          composer.clear();
          submit(blocks);
        },
      },
      "Try again",
    ),
  );
  schedule();
}

async function stop() {
  $("stop").disabled = true;

  try {
    await client.interrupt(conversation.id);
  } catch (error) {
    alertUser(`Not stopped: ${error.message}`);
  } finally {
    $("stop").disabled = false;
    input.focus();
  }
}

// ---- the frame around it

function drawer(open) {
  document.body.classList.toggle("drawer", open);
  $("scrim").hidden = !open;
  $("menu").setAttribute("aria-expanded", String(open));

  if (open) {
    $("new").focus();
  }
}

const dark = matchMedia("(prefers-color-scheme: dark)");

function theme(choice) {
  const now = choice ?? (dark.matches ? "dark" : "light");

  document.documentElement.dataset.theme = now;
  $("theme").replaceChildren(icon(now === "dark" ? "sun" : "moon"));
  $("theme").setAttribute(
    "aria-label",
    now === "dark" ? "Light colours" : "Dark colours",
  );
}

theme(localStorage.getItem("agentstream.theme"));
dark.addEventListener("change", () =>
  theme(localStorage.getItem("agentstream.theme")),
);

$("new").append(icon("plus"), "New session");
$("menu").append(icon("menu"));
$("send").append(icon("send"));
$("stop").append(icon("stop"));
$("jump").append(icon("down"), "Latest");

$("theme").addEventListener("click", () => {
  const next =
    document.documentElement.dataset.theme === "dark" ? "light" : "dark";

  localStorage.setItem("agentstream.theme", next);
  theme(next);
});

$("new").addEventListener("click", () => {
  location.hash = "";
  show(null);
  drawer(false);
  input.focus();
});

$("menu").addEventListener("click", () =>
  drawer(!document.body.classList.contains("drawer")),
);
$("scrim").addEventListener("click", () => drawer(false));
$("connection").addEventListener("click", () => {
  alertUser("");
  conversation?.reconnect();
});
$("stop").addEventListener("click", stop);

$("composer").addEventListener("submit", (event) => {
  event.preventDefault();
  submit(composer.blocks());
});

input.addEventListener("input", () => {
  sessionStorage.setItem(draftKey(), input.value);
});

$("find").addEventListener("input", () => {
  drawSessions();
  setText(
    $("announce"),
    `${$("sessions").querySelectorAll("a").length} sessions found`,
  );
});
$("share").append(
  copyButton(
    "Copy a link to this turn",
    () =>
      linkTo(
        conversation.id,
        conversation.state.items.findLast((item) => item.type === "user")?.id,
      ),
    "link",
  ),
);

input.addEventListener("keydown", (event) => {
  if (event.key === "Enter" && !event.shiftKey && !event.isComposing) {
    event.preventDefault();
    submit(composer.blocks());
  }
});

addEventListener("keydown", (event) => {
  if (event.key === "Escape" && document.body.classList.contains("drawer")) {
    drawer(false);
    $("menu").focus();
  } else if (event.key === "k" && (event.ctrlKey || event.metaKey)) {
    event.preventDefault();

    if (matchMedia("(max-width: 719px)").matches) {
      drawer(true);
    }

    $("find").focus();
  }
});

// the skip link must not change the address

document.querySelector(".skip").addEventListener("click", (event) => {
  event.preventDefault();
  input.focus();
});

addEventListener("hashchange", () => showHash());
addEventListener("online", () => {
  if (conversation?.connection === "offline") {
    conversation.reconnect();
  }
});

drawSessions();
showHash();
list();
choose("agent", "agent", async () =>
  (await client.agents()).map(({ name, description }) => ({
    label: name,
    about: description,
    value: name,
  })),
);
choose("model", "model", async () =>
  (await client.models()).map(({ providerID, modelID, provider, name }) => ({
    label: name,
    about: `${provider}: ${modelID}`,
    value: { providerID, modelID },
  })),
);
schedule();

if (matchMedia("(hover: hover)").matches) {
  input.focus();
}
