/**
 * `npm run test:explorer`: the built page in real headless Chromium, driven by clicks and keys. Names its parts, ends with `N passed, N failed`;
 * out/test/explorer.json has the counts as vitest would write them. Without a Chromium (CHROME_PATH, PATH) all is skipped, with a note.
 */
import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { existsSync, mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { dist, findChromium, launch, quick, Suite, serveDist } from "./harness.ts";
import { page } from "./page.ts";
import { foreign } from "./parts/foreign.ts";
import { ladders } from "./parts/ladders.ts";
import { linked } from "./parts/linked.ts";
import { passes } from "./parts/passes.ts";
import { permalinks } from "./parts/permalinks.ts";
import { pictures } from "./parts/pictures.ts";
import { request } from "./parts/request.ts";
import { run } from "./parts/run.ts";
import { root } from "./parts/shared.ts";

const parts = [
  ["request", request],
  ["passes", passes],
  ["linked lines", linked],
  ["run", run],
  ["pictures", pictures],
  ["foreign PTX", foreign],
  ["permalinks", permalinks],
  ["ladders", ladders],
] as const;
/** Names of parts to run alone: `npm run test:explorer -- "linked lines"`. */
const only = process.argv.slice(2);
const suite = new Suite();

function report(skipped: number): void {
  const [passed, failed] = [suite.count("passed"), suite.count("failed")];
  const counts = {
    numPassedTests: passed,
    numFailedTests: failed,
    numPendingTests: skipped,
    numTodoTests: 0,
  };
  const results = [
    { name: "explorer", status: failed > 0 ? "failed" : "passed", assertionResults: suite.outcomes },
  ];
  mkdirSync(join(root, "out/test"), { recursive: true });
  writeFileSync(join(root, "out/test/explorer.json"), JSON.stringify({ ...counts, testResults: results }));
  console.log(`${passed} passed, ${failed} failed${skipped > 0 ? `, ${skipped} skipped` : ""}`);
  process.exitCode = failed > 0 ? 1 : 0;
}

async function main(): Promise<void> {
  const chromium = findChromium();
  if (chromium === null) {
    console.log(
      `no Chromium by CHROME_PATH or on the PATH: skipped are ${parts.map(([name]) => name).join(", ")}`,
    );
    report(parts.length);
    return;
  }
  if (!quick || !existsSync(join(dist, "index.html"))) {
    const built = spawnSync("npm", ["run", "-s", "build", "--workspace", "packages/explorer"], {
      cwd: root,
      stdio: ["ignore", 2, 2],
    });
    assert.equal(built.status, 0, "the page does not build");
  }
  const { url, server } = await serveDist();
  const browser = await launch(chromium);
  try {
    for (const [i, [name, test]] of parts.entries()) {
      if (only.length > 0 && !only.includes(name)) continue;
      suite.part(`${i + 1}. ${name}`);
      await suite.test("opens", () => test(suite, browser, url));
    }
    if (only.length === 0 || only.includes("the page itself")) {
      suite.part("the page itself");
      await page(suite, browser, url);
    }
  } finally {
    await browser.close();
    server.close();
  }
  report(0);
}

await main();
