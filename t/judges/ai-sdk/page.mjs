// The example page with the AI SDK in Chromium, see t/aisdk_page.t.

import { createRequire } from "node:module";

const { BASE: base, MODULES, MASTER } = process.env;
const { chromium } = createRequire(MODULES + "/_")("playwright-core");

const ok = (good, name, why = "") =>
  console.log(`${good ? "ok" : "not ok"} - ${name}${good ? "" : `\n# ${why}`}`);

setTimeout(() => process.exit(1), 120000).unref();

const browser = await chromium.launch({ executablePath: "/usr/bin/chromium",
  args: ["--no-sandbox"] });
const context = await browser.newContext();
const url = `${base}/examples/ai-sdk/#page-${process.pid}`;
const errors = [];

// a schema library looks whether it may compile something, which the console's
// policy forbids; a page that is left breaks its request off
const expected = /TrustedScript|network error|Failed to fetch/;

async function open() {
  const page = await context.newPage();

  page.on("pageerror", (error) => errors.push(String(error)));
  page.on("console", (line) => {
    if (["error", "warning"].includes(line.type())
        && !expected.test(line.text())) {
      errors.push(line.text());
    }
  });
  await page.goto(url);
  return page;
}

const last = (page, selector = ".text") => page.evaluate((selector) =>
  [...([...document.querySelectorAll("section.assistant")].at(-1)
    ?.querySelectorAll(selector) ?? [])].map((one) => one.textContent).join(""),
  selector);

async function until(page, what, argument, name) {
  try {
    await page.waitForFunction(what, argument, { timeout: 20000 });
    ok(true, name);
  } catch {
    ok(false, name, await page.evaluate(() => document.body.innerText));
  }
}

const says = (page, text, name) => until(page, (text) =>
  [...document.querySelectorAll("section.assistant")].at(-1)?.innerText
    .includes(text), text, name);
const idle = (page) => page.waitForFunction(() =>
  /(ready|error)$/.test(document.querySelector("form").innerText.trim()), null,
  { timeout: 30000 });

async function say(page, prompt) {
  await page.fill("textarea", prompt);
  await page.click("form button");
}

const press = (page, name) => page.getByRole("button", { name, exact: true })
  .click({ timeout: 20000 });

// text while it streams, a page that is loaded again, a second tab, and nginx
// that reads its configuration again

const whole = "wörter und mehr, ".repeat(60);
const page = await open();

await say(page, `!pace 25\n!think "Hm."\n!say ${JSON.stringify(whole)}`);
await says(page, "mehr, wörter", "text before the end");
await page.reload();
process.kill(Number(MASTER), "SIGHUP");
await says(page, "mehr, wörter", "after a reload: it goes on");

const tab = await open();

await says(tab, "mehr, wörter", "a second tab");
await idle(page);
await idle(tab);
ok(await last(page) === whole, "after a reload: all of it, once",
   await last(page));
ok(await last(page, ".reasoning") === "Hm.", "and the thoughts");
ok(await last(tab) === whole, "the second tab: all of it, once",
   await last(tab));
await tab.close();

// tools, an approval, a question, a plan

const bash = (command) =>
  `!call bash ${JSON.stringify({ command, description: "x" })}`;

await say(page, [bash("echo one"), "!call todowrite {\"todos\":[{\"content\":"
  + "\"Look\",\"status\":\"pending\",\"priority\":\"high\"}]}", "!next",
  bash("echo asked"), "!next", "!say \"Allowed.\""].join("\n"));
await press(page, "Allow");
await says(page, "Allowed.", "an approval");
await idle(page);
ok(/one/.test(await last(page, "pre")), "the output of a tool");
ok(await last(page, "li") === "Look", "the plan");

await say(page, [bash("echo asked again"), "!next", "!say \"On.\""].join("\n"));
await press(page, "Deny");
await until(page, () => document.querySelector("pre.output-denied"), null,
            "a refusal");
await idle(page);

await say(page, "!call question " + JSON.stringify({ questions: [{
  question: "Colour?", header: "c", options: [{ label: "Blue",
  description: "b" }] }] }) + "\n!next\n!say \"Chosen.\"");
await press(page, "Blue");
await says(page, "Chosen.", "a question");
await idle(page);

// stop, and an error

await say(page, "!say \"Long \"\n!sleep 60000");
await says(page, "Long", "a turn that takes long");
await page.click("#stop");
await idle(page);
ok(true, "is stopped");

await say(page, "!http 400 {\"body\":{\"error\":{\"message\":\"No way\"}}}");
await until(page, () => /No way/.test(document.querySelector(".error")
  ?.innerText), null, "an error");

ok(errors.length === 0, "the page and the library complain of nothing",
   errors.join(" "));

await browser.close();
console.log("# done");
