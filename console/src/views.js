// One view per item of the conversation.  A view is created once, and called
// when its item has changed.  A view is { element, update(item) }; update may
// return false to be called again at the next frame.

import { changesOf } from "./diff.js";
import {
  copyButton,
  count,
  duration,
  h,
  icon,
  plural,
  setText,
} from "./dom.js";
import { Markdown } from "./markdown.js";

const LONGEST = 20000; // characters of an output shown at once

const between = (item) => Date.parse(item.endedAt) - Date.parse(item.at);

// ---- words

const PICTURE = /^image\/(png|jpeg|gif|webp)$/;

const picture = ({ data, mimeType }, alt) =>
  h("img.picture", { src: `data:${mimeType};base64,${data}`, alt });

// a long prompt is cut, and can be seen whole

function promptText(text) {
  const words = h("p", null, text);

  if (text.length < 1500 && text.split("\n").length < 16) {
    return [words];
  }

  const more = h(
    "button.link",
    {
      type: "button",
      "aria-expanded": "false",
      onclick() {
        const cut = words.classList.toggle("cut");

        more.setAttribute("aria-expanded", String(!cut));
        setText(more, cut ? "Show all of it" : "Show less");
      },
    },
    "Show all of it",
  );

  words.classList.add("cut");

  return [words, more];
}

function user({ linked }) {
  const body = h("div.bubble");
  const element = h("article.item.user", { "aria-label": "You" }, body);
  let drawn = "";

  return {
    element,

    update(item) {
      const now = `${item.id} ${item.content.length}`;

      // what was opened stays open

      if (now !== drawn) {
        drawn = now;
        body.replaceChildren(
          ...item.content.flatMap((block) => {
            if (block.type === "text") {
              return promptText(block.text);
            }

            if (block.data && PICTURE.test(block.mimeType)) {
              return [picture(block, "Your picture")];
            }

            const name = block.name ?? block.uri ?? block.resource?.uri;

            return [
              h(
                "span.attachment",
                null,
                icon(block.type === "image" ? "image" : "file"),
                name ?? block.mimeType ?? block.type,
              ),
            ];
          }),
        );
      }

      element.classList.toggle("unsent", !item.id);

      if (item.id && linked?.(item.id)) {
        element.classList.add("linked");
        element.scrollIntoView({ block: "start" });
      }
    },
  };
}

function message() {
  const markdown = new Markdown();

  return {
    element: h(
      "article.item.message",
      { "aria-label": "Agent" },
      markdown.element,
    ),
    update: (item, { live }) => markdown.update(item.text, !live),
  };
}

function thought() {
  const label = h("span.label");
  const body = h("div.thought-text");
  const element = h(
    "details.item.thought",
    { ontoggle: () => refresh() },
    h("summary", null, icon("thought"), label, icon("chevron", "chevron")),
    body,
  );
  let current;

  // collapsed content is not drawn

  function refresh() {
    if (element.open && current) {
      setText(body, current.text);
    }
  }

  return {
    element,

    update(item, { live }) {
      current = item;
      element.classList.toggle("busy", live);
      setText(
        label,
        live ? "Thinking…" : `Thought for ${duration(between(item))}`,
      );
      refresh();
    },
  };
}

function compaction() {
  const text = h("div.thought-text");

  return {
    element: h(
      "details.item.thought.compaction",
      null,
      h(
        "summary",
        null,
        icon("compact"),
        h("span.label", null, "The conversation was compacted"),
        icon("chevron", "chevron"),
      ),
      text,
    ),
    update: (item) => setText(text, item.summary ?? "No summary is known."),
  };
}

// ---- tools

const ICONS = {
  bash: "terminal",
  shell: "terminal",
  read: "file",
  list: "search",
  glob: "search",
  grep: "search",
  edit: "pencil",
  write: "pencil",
  patch: "pencil",
  multiedit: "pencil",
  apply_patch: "pencil",
  webfetch: "globe",
  websearch: "globe",
  todowrite: "list",
  todoread: "list",
  task: "agent",
  question: "question",
  invalid: "alert",
};

const KINDS = {
  execute: "terminal",
  read: "file",
  edit: "pencil",
  search: "search",
  fetch: "globe",
  think: "thought",
  delete: "trash",
  move: "move",
};

const NAMES = {
  bash: "Run",
  read: "Read",
  list: "List",
  glob: "Find files",
  grep: "Search",
  edit: "Edit",
  write: "Write",
  apply_patch: "Patch",
  webfetch: "Fetch",
  todowrite: "Plan",
  task: "Delegate",
  question: "Ask",
  invalid: "Invalid call",
};

const STATES = {
  pending: "Waiting",
  in_progress: "Running",
  completed: "Done",
  failed: "Failed",
  stopped: "Stopped",
};

// paths are shown as seen from the agent's directory

const near = (path, directory) =>
  directory && path.startsWith(`${directory}/`)
    ? path.slice(directory.length + 1)
    : path;

// Where there is little room, the directory is cut, not the file's name.

function setPath(element, text, path) {
  const [, directory, name] = /^(.*\/)([^/]+\/?)$/s.exec(path ? text : "") ?? [];

  if (element.title === text && element.dataset.path === String(!!path)) {
    return;
  }

  element.title = text;
  element.dataset.path = String(!!path);
  element.replaceChildren(
    ...(directory
      ? [
          h("span.directory", null, directory),
          h("span.file", null, name),
        ]
      : [text]),
  );
}

// what the call is about, in a few words

function subject({ name, call }, directory) {
  const input = call.rawInput ?? {};
  const first = (text) => String(text).split("\n")[0].slice(0, 200);

  if (input.command) {
    return first(input.command);
  }

  if (name === "apply_patch") {
    return [...String(input.patchText ?? "").matchAll(/^\*\*\* \w+ File: (.*)$/gm)]
      .map(([, path]) => path)
      .join(", ");
  }

  if (Array.isArray(input.todos)) {
    return plural(input.todos.length, "step");
  }

  if (Array.isArray(input.questions)) {
    return first(input.questions[0]?.question ?? "");
  }

  if (name === "invalid") {
    return first(input.tool ?? "");
  }

  const value =
    input.filePath ??
    input.path ??
    input.pattern ??
    input.url ??
    input.description ??
    (call.title !== name ? call.title : "");

  return first(near(String(value), directory));
}

function block(title, ...children) {
  return h("section.block", null, h("h4", null, title), ...children);
}

// the end of an output matters most

function output(text, className = "") {
  const pre = h(`pre.output${className}`, { tabindex: 0 });

  if (text.length <= LONGEST) {
    pre.textContent = text;
    return pre;
  }

  const more = h(
    "button.link",
    {
      type: "button",
      onclick() {
        pre.textContent = text;
        more.remove();
      },
    },
    `Show all ${count(text.length)} characters`,
  );

  pre.textContent = `…${text.slice(-LONGEST)}`;

  return h("div", null, more, pre);
}

function inputView({ call }, changes) {
  const { rawInput = {} } = call;
  const keys = Object.keys(rawInput);

  if (keys.length === 0) {
    return null;
  }

  if (typeof rawInput.command === "string") {
    return block(
      rawInput.description || "Command",
      h(
        "pre.output.command",
        { tabindex: 0 },
        h("span.prompt", { "aria-hidden": "true" }, "$ "),
        rawInput.command,
      ),
    );
  }

  // a diff shows these better

  const shown = keys.filter(
    (key) =>
      !changes ||
      !/^(filePath|oldString|newString|patchText|content)$/.test(key),
  );

  if (shown.length === 0) {
    return null;
  }

  return block(
    "Input",
    h(
      "dl.fields",
      null,
      ...shown.flatMap((key) => {
        const value = rawInput[key];

        return [
          h("dt", null, key),
          h(
            "dd",
            null,
            typeof value === "string" ? value : JSON.stringify(value, null, 1),
          ),
        ];
      }),
    ),
  );
}

function pathOf(path) {
  const element = h("span.path");

  setPath(element, path, true);

  return element;
}

function diffView({ path = "Changes", kind, rows, added, removed }, directory) {
  const table = h("table.diff");
  const body = h("tbody");
  const most = 2000;

  for (const [sign, before, after, text] of rows.slice(0, most)) {
    const name = { "+": "added", "-": "removed", "@": "gap" }[sign];

    body.append(
      h(
        name ? `tr.${name}` : "tr",
        null,
        h("td.line", null, before === null ? "" : String(before)),
        h("td.line", null, after === null ? "" : String(after)),
        h(
          "td.sign",
          name === "added" || name === "removed"
            ? { "aria-label": name }
            : null,
          sign === "@" ? "⋯" : sign.trim(),
        ),
        h("td.code", null, text),
      ),
    );
  }

  if (rows.length > most) {
    body.append(
      h(
        "tr.gap",
        null,
        h("td", { colSpan: 4 }, `${count(rows.length - most)} more lines`),
      ),
    );
  }

  table.append(body);

  return h(
    "section.block.change",
    null,
    h(
      "h4",
      null,
      pathOf(near(path, directory)),
      kind === "add" || kind === "write"
        ? h("span.tag", null, kind === "add" ? "new" : "written")
        : null,
      h("span.plus", { "aria-label": `${added} added` }, `+${added}`),
      h("span.minus", { "aria-label": `${removed} removed` }, `−${removed}`),
    ),
    h("div.diff-scroll", { tabindex: 0 }, table),
  );
}

function outputView({ call }, changes) {
  const { content, rawOutput, status } = call;
  const parts = [];

  for (const each of content ?? []) {
    if (each.type !== "content") {
      continue;
    }

    if (each.content.type === "image") {
      const { mimeType } = each.content;

      if (PICTURE.test(mimeType)) {
        parts.push(picture(each.content, "Image from the tool"));
      }
    } else if (each.content.text && !(changes > 0 && status === "completed")) {
      parts.push(output(each.content.text, status === "failed" ? ".bad" : ""));
    }
  }

  if (parts.length === 0 && rawOutput?.error) {
    parts.push(output(rawOutput.error, ".bad"));
  }

  if (parts.length === 0) {
    return null;
  }

  const exit = rawOutput?.metadata?.exit;

  return block(
    status === "failed" ? "Error" : "Output",
    ...parts,
    typeof exit === "number"
      ? h(exit === 0 ? "p.exit" : "p.exit.bad", null, `Exit code ${exit}`)
      : null,
  );
}

function tool({ directory }) {
  const mark = h("span.tool-icon");
  const name = h("span.tool-name");
  const about = h("span.tool-subject");
  const extra = h("span.tool-extra");
  const state = h("span.tool-state");
  const body = h("div.tool-body");
  const element = h(
    "details.item.tool",
    { ontoggle: () => refresh() },
    h("summary", null, mark, name, about, extra, state),
    body,
  );
  let current;
  let drawn = -1;
  let shape = "";

  // an exit code other than 0 is not a failure of the tool, so it is shown
  // differently

  function refresh() {
    if (!element.open || !current || drawn === current.rev) {
      return;
    }

    const changes = changesOf(current.call);
    const pre = body.querySelector("pre.output:not(.command)");
    const stuck =
      pre && pre.scrollHeight - pre.scrollTop - pre.clientHeight < 24;

    drawn = current.rev;
    body.replaceChildren(
      ...[
        inputView(current, changes.length),
        ...changes.map((change) => diffView(change, directory())),
        outputView(current, changes.length),
      ].filter(Boolean),
    );

    if (body.childElementCount === 0) {
      body.append(h("p.empty", null, "Nothing to show yet."));
    }

    const next = body.querySelector("pre.output:not(.command)");

    if (next && (stuck || current.call.status === "in_progress")) {
      next.scrollTop = next.scrollHeight;
    }
  }

  return {
    element,

    update(item, { items }) {
      const { call } = item;
      const status = item.stopped ? "stopped" : call.status;
      const exit = call.rawOutput?.metadata?.exit;
      const bad = status === "completed" && exit > 0;
      const now = `${status} ${item.name} ${call.kind} ${bad}`;

      current = item;

      if (now !== shape) {
        shape = now;
        element.dataset.status = status;
        element.dataset.kind = call.kind;
        element.classList.toggle("warned", bad);
        mark.replaceChildren(
          icon(ICONS[item.name] ?? KINDS[call.kind] ?? "tool"),
        );
        setText(name, NAMES[item.name] ?? item.name);
        state.replaceChildren(
          h("span.sr", null, bad ? `Ended with ${exit}` : STATES[status]),
          bad
            ? icon("alert")
            : status === "completed"
            ? icon("check")
            : status === "failed"
              ? icon("cross")
              : status === "stopped"
                ? icon("stop")
                : h("span.spinner"),
        );
      }

      setPath(
        about,
        subject(item, directory()),
        (call.rawInput?.filePath ?? call.rawInput?.path) !== undefined,
      );

      // the question has a card of its own

      element.hidden =
        item.name === "question" &&
        items.some((each) => each.packet?.toolCallId === item.id);

      const time = between(item);
      let added = 0;
      let removed = 0;

      if (status === "completed" && /edit|write|patch/.test(item.name)) {
        for (const change of changesOf(call)) {
          added += change.added;
          removed += change.removed;
        }
      }

      extra.classList.toggle("bad", exit > 0);
      setText(
        extra,
        added + removed > 0
          ? `+${added} −${removed}`
          : exit > 0
            ? `exit ${exit}`
            : /completed|failed/.test(status) && time >= 1000
              ? duration(time)
              : "",
      );
      refresh();
    },
  };
}

function subagent(context) {
  const title = h("span.tool-subject");
  const state = h("span.tool-state");
  const list = h("div.thread");
  const element = h(
    "details.item.subagent",
    { open: true },
    h(
      "summary",
      null,
      h("span.tool-icon", null, icon("agent")),
      h("span.tool-name", null, "Subagent"),
      title,
      state,
    ),
    list,
  );
  const children = new Thread(list, context);

  return {
    element,

    update(item, { state: all }) {
      const call = all.tools.get(item.toolCallId)?.call;
      const live =
        all.status === "running" && !/completed|failed/.test(call?.status);

      setText(title, call?.rawInput?.description ?? call?.title ?? "");

      if (state.dataset.live !== String(live)) {
        state.dataset.live = live;
        state.replaceChildren(
          h("span.sr", null, live ? "Running" : "Ended"),
          live ? h("span.spinner") : icon("check"),
        );
      }

      return children.update(item.items, all, Infinity, live);
    },
  };
}

// ---- cards that answer

function card(kind, name, heading) {
  const body = h("div.card-body");
  const title = h("h3", null, heading);

  return {
    title,
    body,
    element: h(
      `section.item.card.${kind}`,
      { "aria-label": heading },
      h("div.card-head", null, icon(name), title),
      body,
    ),
  };
}

// `act` is called once at a time; what it throws is shown in the card

function answering(body, act) {
  const problem = h("p.problem", { role: "alert", hidden: true });

  return {
    problem,

    async run(...args) {
      const controls = [...body.querySelectorAll("button, input, textarea")];

      controls.forEach((control) => (control.disabled = true));
      problem.hidden = true;

      try {
        await act(...args);
      } catch (error) {
        problem.textContent = error.message;
        problem.hidden = false;
        controls.forEach((control) => (control.disabled = false));
      }
    },
  };
}

function question({ actions }) {
  const { element, body, title } = card(
    "question",
    "question",
    "The agent has a question",
  );
  let drawn = "";

  function ask(item) {
    const form = h("form");
    const answer = answering(form, (answers) =>
      answers
        ? actions.answerQuestion(item.id, answers)
        : actions.rejectQuestion(item.id),
    );
    const fields = item.packet.questions.map((each, n) => {
      const name = `${item.id}-${n}`;
      const own = h("input.own", {
        type: "text",
        name: `${name}-own`,
        placeholder: "Something else…",
        "aria-label": `Own answer: ${each.question}`,
        autocomplete: "off",
      });

      form.append(
        h(
          "fieldset",
          null,
          h(
            "legend",
            null,
            each.header ? h("span.tag", null, each.header) : null,
            each.question,
          ),
          ...each.options.map((option) =>
            h(
              "label.option",
              null,
              h("input", {
                type: each.multiple ? "checkbox" : "radio",
                name,
                value: option.label,
              }),
              h(
                "span",
                null,
                h("strong", null, option.label),
                option.description
                  ? h("span.detail", null, option.description)
                  : null,
              ),
            ),
          ),
          each.custom === false ? null : own,
        ),
      );

      return { name, own, multiple: each.multiple };
    });

    const answers = () =>
      fields.map(({ name, own, multiple }) => {
        const chosen = [
          ...form.querySelectorAll(`input[name="${CSS.escape(name)}"]:checked`),
        ].map((input) => input.value);
        const words = own.value.trim();

        return words ? [...(multiple ? chosen : []), words] : chosen;
      });

    // of several answers none may be right, but then there must be another one

    const complete = () => {
      const given = answers();

      return (
        given.some((each) => each.length > 0) &&
        given.every((each, n) => each.length > 0 || fields[n].multiple)
      );
    };

    const submit = h(
      "button.button.primary",
      { type: "submit", disabled: true },
      "Answer",
    );

    form.addEventListener("input", () => {
      submit.disabled = !complete();
    });
    form.append(
      answer.problem,
      h(
        "div.buttons",
        null,
        submit,
        h(
          "button.button",
          { type: "button", onclick: () => answer.run(null) },
          "Skip",
        ),
      ),
    );
    form.addEventListener("submit", (event) => {
      event.preventDefault();

      if (complete()) {
        answer.run(answers());
      }
    });

    return form;
  }

  return {
    element,

    update(item) {
      const now = item.waiting ? "waiting" : (item.outcome?.outcome ?? "void");

      if (now === drawn) {
        return;
      }

      drawn = now;
      element.dataset.state = now;

      if (item.waiting) {
        body.replaceChildren(ask(item));
        return;
      }

      setText(
        title,
        {
          answered: "Question answered",
          rejected: "Question skipped",
          unknown: "Answered elsewhere",
        }[now] ?? "Question not answered",
      );
      body.replaceChildren(
        h(
          "dl.answers",
          null,
          ...item.packet.questions.flatMap((each, n) => [
            h("dt", null, each.question),
            h(
              "dd",
              null,
              item.outcome?.answers?.[n]?.join(", ") || "No answer",
            ),
          ]),
        ),
      );
    },
  };
}

const REPLIES = {
  once: "Allowed once",
  always: "Always allowed",
  reject: "Rejected",
  unknown: "Answered elsewhere",
};

function permission({ actions, directory }) {
  const { element, body, title } = card("permission", "shield", "Permission");
  let drawn = "";

  const about = (item) => {
    const { rawInput = {} } = item.packet.toolCall ?? {};

    return h(
      "pre.output.command",
      { tabindex: 0 },
      near(
        rawInput.command ??
          rawInput.filePath ??
          rawInput.filepath ??
          rawInput.url ??
          item.packet.patterns?.join("\n") ??
          "",
        directory(),
      ),
    );
  };

  function ask(item) {
    const form = h("form");
    const why = h("input.own", {
      type: "text",
      placeholder: "When rejecting: tell the agent why (optional)",
      "aria-label": "Reason for rejecting",
      autocomplete: "off",
    });
    const answer = answering(form, (reply) =>
      actions.answerPermission(
        item.id,
        reply,
        (reply === "reject" && why.value.trim()) || undefined,
      ),
    );

    form.append(
      about(item),
      why,
      answer.problem,
      h(
        "div.buttons",
        null,
        ...item.packet.options.map(({ optionId, name, kind }) =>
          h(
            kind === "allow_once"
              ? "button.button.primary"
              : kind === "reject_once"
                ? "button.button.danger"
                : "button.button",
            { type: "button", onclick: () => answer.run(optionId) },
            name,
          ),
        ),
      ),
    );
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      answer.run("reject");
    });

    return form;
  }

  return {
    element,

    update(item) {
      const now = item.waiting ? "waiting" : (item.outcome?.reply ?? "void");

      if (now === drawn) {
        return;
      }

      drawn = now;
      element.dataset.state = now;
      setText(
        title,
        item.waiting
          ? `The agent wants to use ${item.packet.permission}`
          : (REPLIES[now] ?? "Not answered"),
      );
      body.replaceChildren(item.waiting ? ask(item) : about(item));
    },
  };
}

// ---- the end of a turn

const REASONS = {
  end_turn: "Done",
  cancelled: "Stopped",
  max_tokens: "Cut short: the answer reached its limit",
  refusal: "The model declined to answer",
};

// the words of the turn that an item ends, and its id

function turnOf(item, items) {
  const to = items.indexOf(item);
  const from = items.findLastIndex((each, n) => n < to && each.type === "user");

  return {
    id: items[from]?.id,
    text: items
      .slice(from + 1, to)
      .filter((each) => each.type === "message")
      .map((each) => each.text.trim())
      .join("\n\n"),
  };
}

function end({ actions }) {
  const element = h("div.item.end");
  let drawn = false;
  let retry;

  return {
    element,

    update(item, { last, items }) {
      const { end: packet, startedAt, at } = item;

      if (retry) {
        retry.hidden = !last;
      }

      if (drawn) {
        return;
      }

      drawn = true;

      if (packet.type === "error") {
        retry = h(
          "button.button",
          { type: "button", hidden: !last, onclick: () => actions.retry() },
          "Try again",
        );
        element.className = "item error";
        element.setAttribute("role", "alert");
        element.append(
          icon("alert"),
          h(
            "div",
            null,
            h("strong", null, packet.message || "Something went wrong"),
            packet.code ? h("span.code", null, `code ${packet.code}`) : null,
            packet.details
              ? h(
                  "details",
                  null,
                  h("summary", null, "Details"),
                  h("pre.output", null, JSON.stringify(packet.details, null, 2)),
                )
              : null,
          ),
          retry,
        );
        return;
      }

      const { stopReason, usage } = packet;

      element.dataset.reason = stopReason;
      element.append(
        h("span", null, [
          REASONS[stopReason] ?? stopReason,
          startedAt && duration(Date.parse(at) - Date.parse(startedAt)),
          usage && `${count(usage.totalTokens)} tokens`,
        ]
          .filter(Boolean)
          .join(" · ")),
        copyButton("Copy the answer", () => turnOf(item, items).text),
        actions.link
          ? copyButton(
              "Copy a link to this turn",
              () => actions.link(turnOf(item, items).id),
              "link",
            )
          : "",
      );

      if (usage) {
        element.title =
          `${count(usage.inputTokens)} in, ${count(usage.outputTokens)} out, ` +
          `${count(usage.thoughtTokens)} for thinking, ` +
          `${count(usage.cachedReadTokens)} from the cache`;
      }
    },
  };
}

const VIEWS = {
  user,
  message,
  thought,
  tool,
  subagent,
  question,
  permission,
  compaction,
  end,
};

// ---- a list of items, kept in step with its elements

export class Thread {
  constructor(element, context) {
    this.element = element;
    this.context = context;
    this.views = new Map();
    this.items = [];
  }

  // Draws what changed, until `deadline`.  False: not everything is drawn.

  update(items, state, deadline, live = state.status === "running") {
    const { element, views, context } = this;
    let complete = true;
    let next = element.firstChild;

    for (let i = 0; i < items.length; i++) {
      const item = items[i];
      let view = views.get(item);

      if (!view) {
        if (performance.now() > deadline) {
          return false;
        }

        view = { rev: -1, ...VIEWS[item.type](context) };
        view.element.dataset.type = item.type;
        views.set(item, view);
      }

      if (view.element === next) {
        next = next.nextSibling;
      } else {
        element.insertBefore(view.element, next);
      }

      // the last text of a running turn may still grow; the button of an error
      // is only shown for the last item

      const last = i === items.length - 1;
      const busy = live && last;

      if (
        view.rev !== item.rev ||
        view.busy !== busy ||
        view.last !== last ||
        item.type === "subagent"
      ) {
        if (performance.now() > deadline) {
          complete = false;
          continue;
        }

        const { rev } = item;
        const done = view.update(item, { live: busy, last, state, items });

        if (done === false) {
          complete = false;
        } else {
          Object.assign(view, { rev, busy, last });
        }
      }
    }

    // elements after the last item are removed

    while (next) {
      const { nextSibling } = next;

      next.remove();
      next = nextSibling;
    }

    if (views.size > items.length) {
      const kept = new Set(items);

      for (const item of views.keys()) {
        if (!kept.has(item)) {
          views.delete(item);
        }
      }
    }

    return complete;
  }

  clear() {
    this.views.clear();
    this.element.replaceChildren();
  }
}
