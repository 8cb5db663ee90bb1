// The example page with the AI SDK, see t/aisdk_page.t and t/lib/page.mjs.

import { test } from "../../lib/page.mjs";

const press = (page, name) => page.getByRole("button", { name, exact: true })
  .click({ timeout: 120000 });

await test({
  path: "/examples/ai-sdk/",
  seen: {
    user: "section.user",
    text: ".text",
    reasoning: ".reasoning",
    call: "pre",
    failed: "pre.output-error",
    refused: "pre.output-denied",
    plan: "li",
    subagent: ".subagent",
    file: "section.user img[src^='data:image/png']",
    error: ".error",
  },
  running: () => !/(ready|error)$/.test(
    document.querySelector("main > form").innerText.trim()),
  allow: (page) => press(page, "Allow"),
  refuse: (page) => press(page, "Deny"),

  async choose(page, label) {
    await page.locator("pre select").first().selectOption(label);
    await press(page, "Answer");
  },
});
