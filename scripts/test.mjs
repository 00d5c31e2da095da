// npm test: install, then build, type-check, lint, unused code, boundaries, package lint and tests through turbo, which replays
// what has not changed. The last line counts tests and checks together: `N passed, N failed`.
// `--packed` adds what needs npm's registry: the packages as npm would publish them, on several Nodes, and the site. Other arguments go on to
// turbo, for instance `npm test -- --force`.

import { spawnSync } from "node:child_process";
import { mkdirSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { join } from "node:path";
import { tally } from "./lib/tally.mjs";
import { install, root, runMain, systemNode, toolNode, turbo } from "./lib/workspace.mjs";

/** The task's name, and the file that its tests write their counts to (turbo restores it with a cached run). */
const SUITES = {
  "//#test:unit": "out/test/unit.json",
  "//#test:dist": "out/test/dist.json",
  "//#test:explorer": "out/test/explorer.json",
};

/** With `--packed`: beside the others, because it waits for npm half of its time. */
const PACKED = { "//#test:packed": "out/test/packed.json" };
/** The site, built as far as it follows from docs/ and the code: its links lead somewhere, and axe finds nothing serious. One check. */
const SITE = "//#test:site";

/** Failures that the end of the output repeats; the details of all stand above it. */
const MOST_FAILURES = 20;

const CHECKS = [
  "build",
  "lint:package",
  "//#typecheck:all",
  "//#typecheck:browser",
  "//#lint",
  "//#lint:unused",
  "//#boundaries",
];

/** What a result depends on besides files: turbo takes it into the key of its cache. */
function testHost() {
  const version = (/** @type {string} */ command) =>
    spawnSync(command, ["--version"], { encoding: "utf8" }).stdout?.trim().split("\n").at(-1) ?? "absent";
  return [
    process.platform,
    process.arch,
    version(toolNode()),
    version(systemNode()),
    version("ptxas"),
    version("chromium"),
    version("redis-server"),
    version("valkey-server"),
  ].join(" ");
}

/** @param {string} path @returns {unknown} undefined where there is no such file, or no JSON in it */
function readJson(path) {
  try {
    return JSON.parse(readFileSync(join(root, path), "utf8"));
  } catch {
    return undefined;
  }
}

runMain(() => {
  install("npm test");
  const args = process.argv.slice(2);
  const wanted = args.includes("--packed") ? { ...SUITES, ...PACKED } : SUITES;
  for (const path of Object.values(wanted)) rmSync(join(root, path), { force: true });
  const runs = join(root, ".turbo/runs");
  mkdirSync(runs, { recursive: true });
  const earlier = new Set(readdirSync(runs));
  const status = turbo(
    [
      ...CHECKS,
      ...Object.keys(wanted),
      ...(args.includes("--packed") ? [SITE] : []),
      "--continue=always",
      "--summarize",
      ...args.filter((arg) => arg !== "--packed"),
    ],
    {
      quiet: false,
      env: { TILEWRIGHT_TEST_HOST: testHost(), TILEWRIGHT_SYSTEM_NODE: systemNode() },
    },
  );
  if (status === 130 || status === 143) return status;

  const written = readdirSync(runs).filter((name) => !earlier.has(name));
  const suites = Object.entries(wanted).map(([task, path]) => ({ task, report: readJson(path) }));
  const total = tally(written[0] && readJson(join(".turbo/runs", written[0])), suites);
  for (const name of written) rmSync(join(runs, name));

  for (const line of total.failures.slice(0, MOST_FAILURES)) console.log(`failed: ${line}`);
  if (total.failures.length > MOST_FAILURES) console.log(`and ${total.failures.length - MOST_FAILURES} more`);
  const skipped = total.skipped > 0 ? `, ${total.skipped} skipped` : "";
  console.log(`${total.passed} passed, ${total.failed} failed${skipped}`);
  return total.failed > 0 ? 1 : status;
});
