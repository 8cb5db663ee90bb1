#!/usr/bin/env node
//
// Compares packets with ACP's JSON schema (v1).
//
//   node util/acp-validate.mjs NPM-DIRECTORY <packets
//
// One packet per line on stdin.  Prints {"seen": {TYPE: COUNT}, "own": [TYPE],
// "deviations": [{packet, path, problem, example}]}: what was read, the types
// that ACP does not define, and each way in which a packet that ACP defines
// deviates from it, once.  In a path, [] stands for any index.
//
// The schema allows unknown members everywhere.  Here they are reported as
// "extra", so that the list contains everything that a strict client might
// refuse.

import { createRequire } from "node:module";
import { createInterface } from "node:readline";
import { join, resolve } from "node:path";

const require = createRequire(join(resolve(process.argv[2]), "x.js"));
const Ajv = require("ajv/dist/2020").default;
const schema = require("@agentclientprotocol/sdk/schema/v1/schema.json");

// packet type: [definition, value of sessionUpdate]

const SHAPES = {
  agent_message_chunk: ["ContentChunk", "agent_message_chunk"],
  agent_thought_chunk: ["ContentChunk", "agent_thought_chunk"],
  user_message_chunk: ["ContentChunk", "user_message_chunk"],
  tool_call_start: ["ToolCall", "tool_call"],
  tool_call_progress: ["ToolCallUpdate", "tool_call_update"],
  agent_plan_update: ["Plan", "plan"],
  request_permission: ["RequestPermissionRequest"],
  prompt_response: ["PromptResponse"],
};

const ajv = new Ajv({ allErrors: true, strict: false, discriminator: true,
                      validateFormats: false });

ajv.addSchema(schema, "acp");

const validators = {};

for (const [type, [name, update]] of Object.entries(SHAPES)) {
  validators[type] = ajv.compile({
    $ref: `acp#/$defs/${name}`,
    ...(update && {
      properties: { sessionUpdate: { const: update } },
      required: ["sessionUpdate"],
    }),
  });
}

// The definitions that a value may have, with references resolved.

function* definitions(node, value) {
  if (node.$ref) {
    yield* definitions(schema.$defs[node.$ref.split("/").at(-1)], value);
  }

  for (const part of [...(node.allOf ?? []), ...(node.anyOf ?? [])]) {
    yield* definitions(part, value);
  }

  for (const part of node.oneOf ?? []) {
    const tag = node.discriminator?.propertyName;

    if (tag && part.properties?.[tag]?.const === value?.[tag]) {
      yield* definitions(part, value);
    }
  }

  yield node;
}

// Paths of members that no definition names.  Where the schema does not list
// members, any value is allowed.

function* extras(nodes, value, path) {
  if (Array.isArray(value)) {
    const items = nodes.flatMap((node) => node.items ?? []);

    for (const element of value) {
      yield* extras(all(items, element), element, `${path}[]`);
    }

    return;
  }

  if (value === null || typeof value !== "object"
      || nodes.some((node) => node.additionalProperties === true)
      || !nodes.some((node) => node.properties))
  {
    return;
  }

  for (const [name, member] of Object.entries(value)) {
    const known = nodes.flatMap((node) => node.properties?.[name] ?? []);
    const where = path ? `${path}.${name}` : name;

    if (known.length === 0) {
      yield where;
    } else {
      yield* extras(all(known, member), member, where);
    }
  }
}

function all(nodes, value) {
  return nodes.flatMap((node) => [...definitions(node, value)]);
}

function dotted(pointer) {
  return pointer.replace(/\/\d+(?=\/|$)/g, "[]").replace(/^\//, "")
    .replaceAll("/", ".");
}

function* problems(type, packet) {
  const [name, update] = SHAPES[type];
  const root = { properties: update ? { sessionUpdate: {} } : {},
                 $ref: `#/$defs/${name}` };

  for (const path of extras(all([root], packet), packet, "")) {
    yield [path, "extra"];
  }

  if (!validators[type](packet)) {
    for (const { keyword, instancePath, message, params }
         of validators[type].errors)
    {
      yield keyword === "required"
        ? [dotted(`${instancePath}/${params.missingProperty}`), "missing"]
        : [dotted(instancePath), message];
    }
  }
}

const seen = {};
const found = new Map();

for await (const line of createInterface({ input: process.stdin })) {
  const { type, timestamp, ...packet } = JSON.parse(line);

  seen[type] = (seen[type] ?? 0) + 1;

  for (const [path, problem] of SHAPES[type] ? problems(type, packet) : []) {
    const key = [type, path, problem].join(" ");

    found.set(key, found.get(key)
      ?? { packet: type, path, problem, example: line.slice(0, 600) });
  }
}

console.log(JSON.stringify({
  seen,
  own: Object.keys(seen).filter((type) => !SHAPES[type]).sort(),
  deviations: [...found.keys()].sort().map((key) => found.get(key)),
}));
