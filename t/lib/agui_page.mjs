// The example page of AG-UI, see t/agui_page.t and t/lib/page.mjs.

import { test } from "./page.mjs";

async function answer(page, label, button) {
  const choice = page.locator("#choices select").first();

  await choice.waitFor({ timeout: 120000 });
  if (label) await choice.selectOption(label);
  await page.getByRole("button", { name: button }).click();
}

await test({
  path: "/examples/ag-ui/",
  seen: {
    user: ".user",
    text: ".assistant:not(.subagent)",
    reasoning: ".reasoning",
    call: ".call, .tool, .subagent",
    failed: ".tool.failed",
    refused: ".tool.failed",
    plan: "#plan li",
    subagent: ".subagent",
    file: ".user:has-text('image/png')",
    error: "#error",
  },
  running: () => document.body.classList.contains("running"),
  allow: (page) => answer(page, "once", "Answer"),
  refuse: (page) => answer(page, undefined, "Refuse"),
  choose: (page, label) => answer(page, label, "Answer"),
});
