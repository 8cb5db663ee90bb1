#!/usr/bin/env node
//
// Builds the console and the client, with what util/deps has installed.
//
//   node console/build.mjs [BUILD]        BUILD is build/ unless told
//
// BUILD/console/                  the page: index.html, app.js, style.css
// BUILD/console/agentstream.js    the client, minified

import { copyFileSync, mkdirSync, statSync } from "node:fs";
import { createRequire } from "node:module";
import { dirname, join, resolve } from "node:path";
import { fileURLToPath } from "node:url";

const here = dirname(fileURLToPath(import.meta.url));
const build = resolve(process.argv[2] ?? join(here, "../build"));
const modules = join(build, "npm-console/node_modules");
const out = join(build, "console");

const { build: bundle } = createRequire(join(modules, "_"))("esbuild");

const common = {
  bundle: true,
  minify: true,
  format: "esm",
  target: ["chrome116", "firefox124", "safari17.4"],
  charset: "utf8",
  legalComments: "none",
  logLevel: "warning",
};

mkdirSync(out, { recursive: true });

await bundle({
  ...common,
  entryPoints: [join(here, "src/app.js")],
  nodePaths: [modules],
  legalComments: "eof",
  outfile: join(out, "app.js"),
});
await bundle({
  ...common,
  entryPoints: [join(here, "client/agentstream.js")],
  outfile: join(out, "agentstream.js"),
});
await bundle({
  ...common,
  entryPoints: [join(here, "style.css")],
  external: ["*.svg"],
  outfile: join(out, "style.css"),
});

for (const file of ["index.html", "favicon.svg"]) {
  copyFileSync(join(here, file), join(out, file));
}

for (const file of ["app.js", "agentstream.js", "style.css"]) {
  console.log(`${join(out, file)}: ${statSync(join(out, file)).size} bytes`);
}
