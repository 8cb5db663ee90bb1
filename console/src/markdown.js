// Markdown that is still growing.  Blocks that cannot change any more are
// drawn once; only the last one is drawn again as text arrives.
//
// Nothing that an agent writes becomes markup directly: HTML in the text is
// shown as text, and the HTML that is made from the Markdown passes through
// the sanitizer.

import DOMPurify from "dompurify";
import { Marked } from "marked";
import { copyButton } from "./dom.js";
import { highlight } from "./highlight.js";

const LONGEST = 16384; // characters of a block that is drawn as Markdown
const SLICE = 2048; // characters drawn at once
const BUDGET = 6; // milliseconds per update

const escape = (text) =>
  text.replace(
    /[&<>"']/g,
    (c) =>
      ({ "&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;", "'": "&#39;" })[
        c
      ],
  );

const marked = new Marked({
  gfm: true,
  renderer: {
    html: ({ text }) => escape(text),

    // an image would be a request to somewhere else
    image: ({ href, text }) =>
      `<a href="${escape(href)}">${escape(text || href)}</a>`,
  },
});

const ALLOWED = {
  ALLOWED_TAGS: [
    ..."a blockquote br code del em h1 h2 h3 h4 h5 h6 hr input li ol p".split(
      " ",
    ),
    ..."pre strong table tbody td th thead tr ul".split(" "),
  ],
  ALLOWED_ATTR: ["align", "checked", "class", "disabled", "href", "start", "type"],
  ALLOWED_URI_REGEXP: /^(?:https?|mailto):/i,
  ALLOW_DATA_ATTR: false,
  ALLOW_ARIA_ATTR: false,
  RETURN_DOM_FRAGMENT: true,
};

DOMPurify.addHook("afterSanitizeAttributes", (node) => {
  if (node.tagName === "A") {
    if (node.hasAttribute("href")) {
      node.setAttribute("target", "_blank");
      node.setAttribute("rel", "noopener noreferrer nofollow");
    }
  } else if (node.tagName === "INPUT") {
    // a task list's box, and nothing else
    node.setAttribute("type", "checkbox");
    node.setAttribute("disabled", "");
  } else if (node.tagName === "TABLE" || node.tagName === "PRE") {
    node.setAttribute("tabindex", "0");
  }
});

function draw(tokens, links) {
  tokens.links = links;

  return DOMPurify.sanitize(marked.parser(tokens), ALLOWED);
}

// A block of code that will not change any more: in colours, and with a button
// that copies it.

function finish(pre) {
  const frame = document.createElement("div");
  const code = pre.querySelector("code") ?? pre;

  frame.className = "code-frame";
  pre.replaceWith(frame);
  frame.append(
    pre,
    copyButton("Copy the code", () => code.textContent.replace(/\n$/, "")),
  );
  highlight(code);

  return frame;
}

const finishAll = (node) =>
  node.querySelectorAll?.("pre").forEach((pre) => {
    if (!pre.closest(".code-frame")) {
      finish(pre);
    }
  });

const plain = (text) => {
  const element = document.createElement("div");

  element.className = "plain";
  element.textContent = text;

  return element;
};

export class Markdown {
  constructor() {
    this.element = document.createElement("div");
    this.element.className = "markdown";
    this.reset();
  }

  reset() {
    this.element.replaceChildren();
    this.text = "";
    this.tail = "";
    this.links = {};
    this.live = [];
    this.open = null;
    this.fence = null;
    this.pause = 0;
  }

  // Draws what is new in `text`.  False: call it again, because there was more
  // than one frame can take, or the last block has become expensive.

  update(text, last = false) {
    const started = performance.now();

    if (text === this.text) {
      if (last) {
        this.finish();
      }

      return true;
    }

    if (!last && started < this.pause) {
      return false;
    }

    if (!text.startsWith(this.text)) {
      this.reset();
    }

    // a slice as long as what is still open, so that a long block is not read
    // again and again

    do {
      const from = this.text.length;
      const end = from + Math.max(this.fence ? 32768 : SLICE, this.tail.length);
      const added = text.slice(from, end).replaceAll("\r", "");

      this.text = text.slice(0, end);
      this.tail += added;

      if (!(this.fence && this.extend(added))) {
        this.fence = null;
        this.parse();
      }
    } while (
      this.text.length < text.length &&
      performance.now() - started < BUDGET
    );

    this.drawLive();

    if (this.text.length < text.length) {
      return false;
    }

    if (last) {
      this.finish();
    }

    // never more than a sixth of the time

    this.pause = performance.now() + 5 * (performance.now() - started);
    return true;
  }

  // An open code block only grows, until the line that closes it.

  extend(added) {
    const { node, close } = this.fence;
    const from = this.tail.lastIndexOf("\n", this.tail.length - added.length - 1);

    if (close.test(this.tail.slice(Math.max(0, from)))) {
      this.fence = null;
      return false;
    }

    node.appendData(added);
    return true;
  }

  // All blocks but the last are done.

  parse() {
    const tokens = marked.lexer(this.tail);
    const split = tokens.findLastIndex((token) => token.type !== "space");

    Object.assign(this.links, tokens.links);

    if (split > 0) {
      const done = tokens.slice(0, split);
      const fragment = draw(done, this.links);

      finishAll(fragment);
      this.add(fragment);
      this.tail = this.tail.slice(
        done.reduce((length, token) => length + token.raw.length, 0),
      );
    }

    this.open = tokens.slice(Math.max(0, split));

    // a block without an end is cut, so that the work stays bounded

    if (this.tail.length > LONGEST && this.open[0]?.type !== "code") {
      this.add(plain(this.tail));
      this.tail = "";
      this.open = [];
    }
  }

  add(node) {
    this.live.forEach((each) => each.remove());
    this.live = [];
    this.element.append(node);
  }

  // Nothing more comes.  Should more come after all, the last block is drawn
  // again.

  finish() {
    this.fence = null;
    this.live = this.live.map((node) => {
      if (node.tagName === "PRE") {
        return finish(node);
      }

      finishAll(node);
      return node;
    });
  }

  drawLive() {
    if (this.fence || !this.open) {
      return;
    }

    const fragment = draw(this.open, this.links);
    const nodes = [...fragment.childNodes];

    this.add(fragment);
    this.live = nodes;
    this.findFence(this.open[0]);
    this.open = null;
  }

  // The last block is fenced code that is not closed yet: the next words can
  // go into its text as they are.

  findFence(token) {
    const [, mark] = /^ {0,3}(`{3,}|~{3,})[^\n]*\n/.exec(token?.raw ?? "") ?? [];

    if (token?.type !== "code" || !mark) {
      return;
    }

    const close = new RegExp(`\\n {0,3}\\${mark[0]}{${mark.length},} *(\\n|$)`);

    if (close.test(token.raw.slice(token.raw.indexOf("\n")))) {
      return;
    }

    const code = this.live.at(-1)?.querySelector?.("code");
    const node = document.createTextNode(
      this.tail.slice(this.tail.indexOf("\n") + 1),
    );

    code?.replaceChildren(node);
    this.fence = code ? { node, close } : null;
  }
}
