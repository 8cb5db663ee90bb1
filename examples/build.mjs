#!/usr/bin/env node
//
// Builds the example pages, with what util/deps has installed.
//
//   node examples/build.mjs [BUILD]        BUILD is build/ unless told
//
// Each folder with an app.js or app.jsx becomes a page in
// BUILD/console/examples, which the console's server serves.

import { copyFileSync, existsSync, mkdirSync, readdirSync, statSync }
  from "node:fs";
import { createRequire } from "node:module";
import { dirname, join, resolve } from "node:path";
import { fileURLToPath } from "node:url";

const here = dirname(fileURLToPath(import.meta.url));
const build = resolve(process.argv[2] ?? join(here, "../build"));
const { build: bundle } =
  createRequire(join(build, "npm-console/node_modules/_"))("esbuild");

for (const name of readdirSync(here)) {
  const entry = ["app.js", "app.jsx"].map((file) => join(here, name, file))
    .find(existsSync);

  if (!entry) continue;

  const out = join(build, "console/examples", name);

  mkdirSync(out, { recursive: true });
  await bundle({
    entryPoints: [entry],
    outfile: join(out, "app.js"),
    nodePaths: [join(build, `npm-${name}/node_modules`)],
    alias: { agentstream: join(here, "../console/client") },
    bundle: true,
    minify: true,
    format: "esm",
    target: ["chrome116", "firefox124", "safari17.4"],
    charset: "utf8",
    jsx: "automatic",
    define: { "process.env.NODE_ENV": '"production"' },
    legalComments: "none",
    logLevel: "warning",
  });

  for (const file of ["index.html", "style.css"]) {
    if (existsSync(join(here, name, file))) {
      copyFileSync(join(here, name, file), join(out, file));
    }
  }

  console.log(`${join(out, "app.js")}: ${statSync(join(out, "app.js")).size}`
    + " bytes");
}
