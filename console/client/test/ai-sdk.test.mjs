// What of a message of the AI SDK is valid.
//
// Broken by: a range without its ends, a range that takes a part without a
// number, what was before a reset, a plan that goes with it.

import assert from "node:assert/strict";
import { test } from "node:test";

import { validParts } from "../ai-sdk.js";

const text = (seq, text = String(seq)) =>
  ({ type: "text", text, providerMetadata: { agentstream: { seq } } });
const tool = { type: "dynamic-tool", toolCallId: "call_1" };
const plan = { type: "data-plan", id: "plan", data: { entries: [] } };
const discarded = (from, to) => ({ type: "data-discarded", data: { from, to } });
const reset = { type: "data-reset", data: { reason: "expired" } };

test("what was discarded is not valid", () => {
  const parts = [text(2), text(3), tool, text(5), text(6), discarded(3, 5),
    text(8)];

  assert.deepEqual(validParts(parts),
    [text(2), tool, text(6), discarded(3, 5), text(8)]);
});

test("nothing is valid before the last reset, but what is replaced", () => {
  const parts = [text(2), plan, tool, reset, text(0, "a"), reset, tool,
    { type: "reasoning", id: "7", text: "Hm." }];

  assert.deepEqual(validParts(parts),
    [plan, tool, { type: "reasoning", id: "7", text: "Hm." }]);
  assert.deepEqual(validParts([{ type: "reasoning", id: "1", text: "" }, reset]),
    []);
});

test("all is valid otherwise", () => {
  assert.deepEqual(validParts([text(1), tool, plan]), [text(1), tool, plan]);
  assert.deepEqual(validParts([]), []);
});
