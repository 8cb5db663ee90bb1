// The example page of AG-UI in Chromium, see t/agui_page.t.

import { createRequire } from "node:module";

const { BASE: base, MODULES, MASTER } = process.env;
const { chromium } = createRequire(MODULES + "/_")("playwright-core");

const ok = (good, name, why = "") =>
  console.log(`${good ? "ok" : "not ok"} - ${name}${good ? "" : `\n# ${why}`}`);

const browser = await chromium.launch({ executablePath: "/usr/bin/chromium",
  args: ["--no-sandbox"] });

setTimeout(() => process.exit(1), 100000).unref();

const url = `${base}/examples/ag-ui/#page-${process.pid}`;
const errors = [];

// a page that is left breaks its run off; and the client's library looks
// whether it may compile something, which the console's policy forbids
const expected = /network error|TrustedScript/;

async function open() {
  const page = await (await browser.newContext()).newPage();

  page.on("pageerror", (error) => errors.push(String(error)));
  page.on("console", (line) => {
    if (["error", "warning"].includes(line.type()) &&
        !expected.test(line.text()))
    {
      errors.push(line.text());
    }
  });
  await page.goto(url);
  return page;
}

const text = (page, selector) =>
  page.$$eval(selector, (all) => all.map((one) => one.textContent).join(""));

async function until(page, selector, has, name) {
  try {
    await page.waitForFunction(([selector, has]) =>
      [...document.querySelectorAll(selector)].map((one) => one.textContent)
        .join("").includes(has), [selector, has], { timeout: 20000 });
    ok(true, name);
  } catch {
    ok(false, name, await text(page, "body"));
  }
}

const idle = (page) => page.waitForFunction(() =>
  !document.body.classList.contains("running"), null, { timeout: 30000 });

async function say(page, prompt) {
  await idle(page);
  await page.fill("#prompt", prompt);
  await page.click("#form button");
}

const page = await open();

// text while it streams, a page that is loaded again, a second tab, and nginx
// that reads its configuration again

const whole = "wörter und mehr, ".repeat(60);

await say(page, `!pace 25\n!think "Hm."\n!say ${JSON.stringify(whole)}`);
await until(page, ".assistant", "mehr, wörter", "text before the end");
await page.reload();
process.kill(MASTER, "SIGHUP");
await until(page, ".user", "!think", "after a reload: the prompt");

const tab = await open();

await until(tab, ".assistant", "mehr, wörter", "a second tab");
await idle(page);
await idle(tab);
ok(await text(page, ".assistant") === whole, "after a reload: all of it, once",
  await text(page, ".assistant"));
ok(await text(tab, ".assistant") === whole, "the second tab: the same",
  await text(tab, ".assistant"));
ok(await text(page, ".reasoning") === "Hm.", "the thought, once",
  await text(page, ".reasoning"));

// tools, the plan, a permission, a question

await say(page, '!call todowrite {"todos":[{"content":"A","status":"pending",'
  + '"priority":"high","id":"1"}]}\n!next\n!call bash {"command":"echo asked",'
  + '"description":"x"}\n!next\n!say "Allowed."');
await until(page, "#asks", "echo asked", "a permission is asked for");
await page.click("#asks button:text('Allow')");
await until(page, ".assistant", "Allowed.", "and allowed");
await until(page, "#plan", "pending: A", "the plan");
await until(page, ".tool", "asked", "the output of a tool");

await say(page, '!call bash {"command":"echo asked again","description":"x"}'
  + '\n!next\n!say "Refused."');
await until(page, "#asks", "echo asked again", "another one");
await page.click("#asks button:text('Refuse')");
await idle(page);
await until(page, ".tool", "rejected", "and refused");

await say(page, "!call question " + JSON.stringify({ questions: [{
  question: "Which colour?", header: "Colour", options: [
    { label: "Blue", description: "b" }, { label: "Red", description: "r" },
  ] }] }) + '\n!next\n!say "So be it."');
await until(page, "#asks", "Which colour?", "a question");
await page.click("#asks button:text('Red')");
await until(page, ".assistant", "So be it.", "and its answer");
await until(page, ".tool", "Red", "which the agent has");

// stop, an error

await say(page, `!pace 100\n!say "${"endless ".repeat(600)}"`);
await until(page, ".assistant", "endless endless", "a long answer");
await page.click("#stop");
await idle(page);
const words = (await text(page, ".assistant")).split("endless ").length;

ok(words < 500, "stopped", words);

await say(page, '!http 400 {"body":{"error":{"message":"no such thing"}}}');
await until(page, "#error", "no such thing", "an error");
await idle(page);
ok(errors.length === 0, "no error or warning in the pages",
  errors.join("\n# "));

await browser.close();
console.log("# done");
