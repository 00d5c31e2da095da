// Installs the packages as npm would publish them into an empty folder, and uses them there on the user's Node:
// what works only inside the workspace (undeclared dependencies, files left out of a package, newer Node) fails here.
// Needs the build; run by .ci/run after `npm test`. The last line is `N passed, N failed`.

import { execFileSync, spawnSync } from "node:child_process";
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { root, systemNode } from "./lib/workspace.mjs";

const node = systemNode();
const env = { ...process.env, PATH: `${dirname(node)}:${process.env.PATH}` };
const scratch = mkdtempSync(join(tmpdir(), "tilewright-smoke-"));
const project = join(scratch, "project");

/** What npm would publish. @type {{ name: string, private?: boolean, dependencies?: Record<string, string> }[]} */
const manifests = readdirSync(join(root, "packages"))
  .map((folder) => JSON.parse(readFileSync(join(root, "packages", folder, "package.json"), "utf8")))
  .filter((manifest) => manifest.private !== true);

let passed = 0;
let failed = 0;

/** @param {string} name @param {() => void} body throws when the check fails */
function check(name, body) {
  try {
    body();
    passed += 1;
    console.log(`ok: ${name}`);
  } catch (error) {
    failed += 1;
    console.log(`FAILED: ${name}\n${error instanceof Error ? error.message : error}`);
  }
}

/** Runs Node in the project and returns its stdout; anything on stderr or another exit code is an error. @param {string[]} args */
function run(...args) {
  const { status, stdout, stderr } = spawnSync(node, args, { cwd: project, env, encoding: "utf8" });
  if (status !== 0) throw new Error(`exit code ${status}\n${stdout}${stderr}`);
  return stdout;
}

/** @param {unknown} holds @param {string} text */
function expect(holds, text) {
  if (!holds) throw new Error(text);
}

try {
  console.log(
    `smoke test of the packed packages on Node ${execFileSync(node, ["--version"], { encoding: "utf8" }).trim()}`,
  );
  mkdirSync(project);
  const packed = execFileSync(
    "npm",
    [
      "pack",
      ...manifests.map(({ name }) => `--workspace=${name}`),
      ...["--json", "--ignore-scripts", "--loglevel=error", "--pack-destination", scratch],
    ],
    { cwd: root, env, encoding: "utf8" },
  );
  /** @type {{ name: string, filename: string }[]} */
  const tarballs = Object.values(JSON.parse(packed));
  const dependencies = Object.fromEntries(
    tarballs.map(({ name, filename }) => [name, `file:../${filename}`]),
  );
  writeFileSync(
    join(project, "package.json"),
    // overrides: the packages' ranges on each other mean these tarballs, not a registry's.
    JSON.stringify({ name: "smoke", private: true, type: "module", dependencies, overrides: dependencies }),
  );

  check("npm install of the tarballs", () => {
    execFileSync("npm", ["install", "--loglevel=error", "--no-audit", "--no-fund"], {
      cwd: project,
      env,
      stdio: "pipe",
    });
  });
  for (const { name } of manifests) {
    check(`import ${name}`, () => {
      const count = run(
        "--input-type=module",
        "-e",
        `console.log(Object.keys(await import("${name}")).length)`,
      );
      expect(Number(count) > 0, "exports nothing");
    });
  }
  const bin = "node_modules/tilewright/dist/bin.js";
  check("tilewright --version", () => expect(/^\D*\d+\.\d+\.\d+/.test(run(bin, "--version")), "no version"));
  check("tilewright targets --json", () =>
    expect(run(bin, "targets", "--json").includes("sm_70"), "no sm_70"),
  );
  check("tilewright run, on the emulator", () => {
    const size = ["-m", "33", "-n", "17", "-k", "9"];
    const text = run(
      bin,
      "run",
      "--arch",
      "sm_70",
      ...size,
      "--dtype",
      "f32",
      "--device",
      "emulator",
      "--json",
    );
    const result = JSON.parse(text);
    expect(result.ok === true && result.error.boundRatio <= 1 && result.hazards.length === 0, text);
  });
} catch (error) {
  failed += 1;
  console.log(`FAILED: preparation\n${error instanceof Error ? error.message : error}`);
} finally {
  rmSync(scratch, { recursive: true, force: true });
}

console.log(`${passed} passed, ${failed} failed`);
process.exitCode = failed > 0 ? 1 : 0;
