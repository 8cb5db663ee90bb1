// An example page in Chromium: what a user does there, and what is seen.  All
// pages show the same things, so they have the same test; what differs is told
// by the page:
//
//   path       of the page; its chat is named after the "#"
//   seen       selectors of what is shown: user, text, reasoning, call, failed,
//              refused, plan, subagent, file, error
//   running()  in the page: whether a turn is running
//   allow(page), refuse(page), choose(page, label)
//              what the user does if something is asked
//
// BASE is the server, MASTER nginx's process, MODULES where playwright-core is,
// WORKSPACE the agent's directory.

import { writeFileSync } from "node:fs";
import { createRequire } from "node:module";

const { BASE: base, MODULES, MASTER, WORKSPACE } = process.env;
const { chromium } = createRequire(MODULES + "/_")("playwright-core");

const ok = (good, name, why = "") => console.log(
  `${good ? "ok" : "not ok"} - ${name}${good ? "" : `\n# ${why}`}`);

// a page that is left breaks its request off; and a schema library looks
// whether it may compile something, which the console's policy forbids
const expected = /TrustedScript|network error|Failed to fetch/;

const picture = Buffer.from("iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADU"
  + "lEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==", "base64");

const bash = (command) =>
  `!call bash ${JSON.stringify({ command, description: "x" })}`;
const call = (tool, input) => `!call ${tool} ${JSON.stringify(input)}`;

// what the model or a tool waits for, so that a busy machine has the time to show
// what comes before it
const mark = (name) => `${WORKSPACE}/${name}`;
const reach = (name) => writeFileSync(mark(name), "");

class User {
  constructor(page, about) {
    Object.assign(this, { page, about });
  }

  // The texts of this kind that belong to the last turn: behind what the user
  // has said.
  seen(kind) {
    return this.page.evaluate(([selector, user]) => {
      const last = [...document.querySelectorAll(user)].at(-1);

      return [...document.querySelectorAll(selector)].filter((one) =>
        !last || (last.compareDocumentPosition(one)
          & Node.DOCUMENT_POSITION_FOLLOWING && !last.contains(one)))
        .map((one) => one.textContent);
    }, [this.about.seen[kind], this.about.seen.user]);
  }

  async text(kind = "text") {
    return (await this.seen(kind)).join("");
  }

  running() {
    return this.page.evaluate(this.about.running);
  }

  // Waits until what() is true, for at most two minutes.
  async until(what, name) {
    for (const end = Date.now() + 120000; Date.now() < end;) {
      if (await what()) return ok(true, name);
      await this.page.waitForTimeout(20);
    }

    return ok(false, name, await this.page.evaluate(() =>
      document.body.innerText));
  }

  sees(kind, text, name) {
    return this.until(async () => (await this.text(kind)).includes(text), name);
  }

  async idle() {
    for (const end = Date.now() + 120000; Date.now() < end;) {
      if (!await this.running()) return;
      await this.page.waitForTimeout(20);
    }
  }

  async say(lines, files = []) {
    await this.idle();
    await this.page.fill("textarea", lines.join("\n"));
    await this.page.setInputFiles("input[type=file]", files);
    await this.page.getByRole("button", { name: "Send" }).click();
  }
}

export async function test(about) {
  const browser = await chromium.launch({ args: ["--no-sandbox"],
    executablePath: "/usr/bin/chromium" });
  const context = await browser.newContext();
  const name = `page-${process.pid}`;
  const errors = [];

  setTimeout(() => process.exit(1), 420000).unref();

  async function open() {
    const page = await context.newPage();

    page.on("pageerror", (error) => errors.push(String(error)));
    page.on("console", (line) => {
      if (["error", "warning"].includes(line.type())
          && !expected.test(line.text())) {
        errors.push(line.text());
      }
    });
    await page.goto(`${base}${about.path}#${name}`);
    return new User(page, about);
  }

  const user = await open();

  await streams(user, open);
  await tools(user);
  await file(user, name);
  await asks(user, about);
  await ends(user);

  ok(errors.length === 0, "the page and the library complain of nothing",
    errors.join("\n# "));
  await browser.close();
  console.log("# done");
}

// text while it comes, a page that is loaded again, a second tab, and nginx
// that reads its configuration again

async function streams(user, open) {
  const half = "wörter und mehr, ".repeat(30);
  const whole = half + half;

  await user.say(["!pace 25", '!think "Hm, hm."',
    `!say ${JSON.stringify(half)}`, `!until ${mark("seen")}`,
    `!say ${JSON.stringify(half)}`]);
  await user.sees("text", "mehr, wörter", "text");
  ok(await user.running() && (await user.text()).length < whole.length,
    "... before the end", await user.text());

  await user.page.reload();
  process.kill(Number(MASTER), "SIGHUP");
  await user.sees("text", "mehr, wörter", "a page that was loaded again");
  ok(await user.running(), "... goes on");

  const tab = await open();

  await tab.sees("text", "mehr, wörter", "a second tab");
  reach("seen");
  await user.idle();
  await tab.idle();

  for (const [who, one] of [["loaded again", user], ["the second tab", tab]]) {
    ok(await one.text() === whole, `${who}: all of the text, once`,
      await one.text());
    ok(await one.text("reasoning") === "Hm, hm.", `${who}: and of the thought`,
      await one.text("reasoning"));
  }

  await tab.page.close();
}

// two tools at once, one that fails, the plan, a subagent

async function tools(user) {
  // what they print is not a part of what they are
  const wait = `until [ -e ${mark("both")} ]; do sleep 0.1; done`;
  const one = `${wait}; printf 'le%s\\n' ft`;
  const two = `${wait}; printf 'ri%s\\n' ght`;

  await user.say([bash(one), bash(two),
    call("todowrite", { todos: [{ content: "Look", status: "pending",
      priority: "high", id: "1" }] }), "!next",
    call("read", { filePath: "missing.txt" }), "!next",
    call("task", { description: "Sub", subagent_type: "general",
      prompt: '!say "From below."' }), "!next", '!say "All done."']);

  await user.until(async () => {
    const text = await user.text("call");

    return text.includes("'le%s") && text.includes("'ri%s")
      && !/left|right/.test(text);
  }, "two tools at once, before they have ended");
  reach("both");
  await user.sees("text", "All done.", "the text behind the tools");
  await user.idle();

  const calls = await user.text("call");

  ok(calls.split("left").length === 2 && calls.split("right").length === 2,
    "... with their outputs, once", calls);
  ok(await user.text() === "All done.", "... and only that is the answer",
    await user.text());
  ok(/missing/.test(await user.text("failed"))
     && (await user.seen("failed")).length === 1, "one has failed",
    await user.text("failed"));
  ok(/Look/.test(await user.text("plan")), "the plan");
  ok((await user.seen("subagent")).length > 0, "a subagent");
  ok(/From below\./.test(calls), "... and what it said");
}

// a prompt with a file

async function file(user, name) {
  await user.say(['!say "Got it."'], [{ name: "dot.png", buffer: picture,
    mimeType: "image/png" }]);
  await user.sees("text", "Got it.", "a prompt with a file");
  await user.idle();
  ok(await user.page.locator(user.about.seen.file).count() === 1,
    "... which is shown");

  const history = await (await fetch(`${base}/sessions/@${name}/messages`))
    .json();

  ok(history.some(({ content }) => content?.type === "image"
       && content.data === picture.toString("base64")), "... and was sent",
    JSON.stringify(history.filter(({ type }) =>
      type === "user_message_chunk")));
}

// permissions, given and refused, and a question

async function asks(user, { allow, refuse, choose }) {
  await user.say([bash("echo asked"), "!next", '!say "Allowed."']);
  await allow(user.page);
  await user.sees("text", "Allowed.", "a permission is given");
  await user.idle();
  ok((await user.text("call")).split("asked\n").length === 2,
    "... and the tool has run, once", await user.text("call"));

  await user.say([bash("echo asked again"), "!next", '!say "On."']);
  await refuse(user.page);
  await user.until(async () => (await user.seen("refused")).length === 1,
    "a permission is refused");
  await user.idle();
  ok(!(await user.text("call")).includes("asked again\n"),
    "... and the tool has not run", await user.text("call"));

  const options = ["Blue", "Red"].map((label) => ({ label, description: "x" }));

  await user.say([call("question", { questions: [
    { question: "Which colour?", header: "Colour", options },
    { question: "And then?", header: "Then", options }] }), "!next",
    '!say "So be it."']);
  await choose(user.page, "Red");
  await user.sees("text", "So be it.", "a question of two parts is answered");
  await user.idle();
  ok(/colour\?"="Red", "And then\?"="Blue"/.test(await user.text("call")),
    "... as the agent was told", await user.text("call"));
}

// stop, and an error

async function ends(user) {
  await user.say(['!pace 50', `!say "${"endless ".repeat(1000)}"`]);
  await user.sees("text", "endless endless", "a long answer");
  await user.page.getByRole("button", { name: "Stop" }).click();
  await user.idle();

  const words = (await user.text()).split("endless ").length;

  ok(words < 900, "... is stopped", words);

  await user.say(['!http 400 {"body":{"error":{"message":"No way"}}}']);
  await user.until(async () => /No way/.test(await user.page.textContent(
    user.about.seen.error).catch(() => "")), "an error");
}
