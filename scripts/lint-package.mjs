// Checks one package as npm would publish it: packs the current folder and runs publint and attw on the tarball.
// Run by turbo in each package (`npm run lint:packages`), after its build.

import { execFileSync, spawnSync } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { root, toolNode } from "./lib/workspace.mjs";

/** Files every package ships besides its code; npm packs what `files` names and says nothing about what is absent. */
const SHIPPED = ["package.json", "README.md", "LICENSE", "dist/index.js", "dist/index.d.ts"];

/** @type {readonly { name: string, script: string, args: readonly string[] }[]} */
const CHECKS = [
  { name: "publint", script: "node_modules/publint/src/cli.js", args: ["--strict"] },
  // esm-only: `require()` of these packages works from Node 20.19 on, and needs no second build.
  {
    name: "attw",
    script: "node_modules/@arethetypeswrong/cli/dist/index.js",
    args: ["--profile", "esm-only", "--format", "ascii"],
  },
];

const scratch = mkdtempSync(join(tmpdir(), "tilewright-pack-"));
try {
  const packed = execFileSync(
    "npm",
    ["pack", "--json", "--ignore-scripts", "--loglevel=error", "--pack-destination", scratch],
    {
      encoding: "utf8",
      shell: process.platform === "win32",
    },
  );
  // npm 12 answers with an object by package name, earlier ones with an array.
  const [{ filename, files }] = Object.values(JSON.parse(packed));
  const present = new Set(files.map((/** @type {{ path: string }} */ file) => file.path));
  let failed = false;
  for (const path of SHIPPED.filter((wanted) => !present.has(wanted))) {
    console.error(`${filename} lacks ${path}`);
    failed = true;
  }
  for (const { name, script, args } of CHECKS) {
    const { status, stdout, stderr } = spawnSync(
      toolNode(),
      [join(root, script), join(scratch, filename), ...args],
      {
        encoding: "utf8",
      },
    );
    if (status === 0) continue;
    console.error(`${name} finds fault with ${filename}:\n${stdout}${stderr}`);
    failed = true;
  }
  process.exitCode = failed ? 1 : 0;
} finally {
  rmSync(scratch, { recursive: true, force: true });
}
