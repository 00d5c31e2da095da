// The jobs of CI by name: the workflows run exactly these, and so does `npm run ci` on any machine.

import { spawnSync } from "node:child_process";
import { appendFileSync, existsSync, mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { root, Stop, toolEnv, toolNode } from "../lib/workspace.mjs";
import { ARCHS, compileCorpus } from "./corpus.mjs";
import { kernelDiff, renderRows } from "./kernel-diff.mjs";
import { assemble, hasPtxas } from "./ptxas.mjs";

/**
 * @typedef {{ arch: string | null, base: string }} Options
 * @typedef {{ about: string, perArch: boolean, run: (options: Options) => number | Promise<number> }} Job run: returns the exit code
 */

/** Runs a program in the repository, its output shown. @param {string} program @param {readonly string[]} args */
function show(program, ...args) {
  const { status, error } = spawnSync(program, args, { cwd: root, env: toolEnv(), stdio: "inherit" });
  if (error !== undefined) throw new Stop(`${program} cannot be run: ${error.message}`);
  return status ?? 1;
}

/** @param {readonly string[]} files relative to the repository */
const unitTests = (...files) =>
  show(toolNode(), join(root, "node_modules/vitest/vitest.mjs"), "run", "--project", "unit", ...files);

/**
 * Test files that run kernels of an architecture on the emulator: those that carry it in their names, and those that
 * carry none and speak of it.
 * @param {string} arch @returns {string[]}
 */
export function conformanceFiles(arch) {
  return readdirSync(join(root, "packages"))
    .filter((name) => name.startsWith("backend-") && existsSync(join(root, "packages", name, "test")))
    .map((name) => `packages/${name}/test`)
    .flatMap((folder) => readdirSync(join(root, folder)).map((name) => `${folder}/${name}`))
    .filter((file) => {
      const named = /\/(?:emulator|conformance)(?:\.(sm_\d+[af]?))?[\w.-]*\.test\.ts$/.exec(file);
      if (named === null) return false;
      return named[1] === undefined
        ? readFileSync(join(root, file), "utf8").includes(`"${arch}"`)
        : named[1] === arch;
    });
}

/** @param {Options} options */
const archsOf = ({ arch }) => (arch === null ? ARCHS : [arch]);

/** @param {string} text shown, and kept for the page of the run where there is one */
function summary(text) {
  process.stdout.write(text);
  if (process.env.GITHUB_STEP_SUMMARY) appendFileSync(process.env.GITHUB_STEP_SUMMARY, `${text}\n`);
}

/** @type {Readonly<Record<string, Job>>} */
export const JOBS = {
  check: {
    about: "all that `npm test` checks, and the packed packages on your own Node and on 20, 22 and 24",
    perArch: false,
    run: () => show(join(root, ".ci/run")),
  },
  browser: {
    about: "the emulator in headless Chromium (CHROME_PATH, else on PATH)",
    perArch: false,
    run: () => unitTests("packages/emulator/test/browser.test.ts"),
  },
  ptxas: {
    about: "every kernel of the corpus through ptxas: no spills, no serialised tensor cores",
    perArch: true,
    async run(options) {
      if (!hasPtxas()) throw new Stop("ptxas is not on PATH (TILEWRIGHT_PTXAS names another)", 4);
      const scratch = mkdtempSync(join(tmpdir(), "tilewright-ptxas-job-"));
      try {
        let [passed, failed] = [0, 0];
        for (const { arch, name, text, error } of await compileCorpus(root, scratch, archsOf(options))) {
          if (text === null && error === null) continue;
          const { registers, problems } =
            text === null ? { registers: 0, problems: [error ?? ""] } : assemble(text, arch);
          if (problems.length === 0) passed += 1;
          else failed += 1;
          console.log(
            problems.length === 0
              ? `ok: ${arch} ${name}: ${registers} registers`
              : `FAILED: ${arch} ${name}\n  ${problems.join("\n  ")}`,
          );
        }
        console.log(`${passed} passed, ${failed} failed`);
        return failed === 0 && passed > 0 ? 0 : 1;
      } finally {
        rmSync(scratch, { recursive: true, force: true });
      }
    },
  },
  conformance: {
    about: "every backend's kernels for an architecture on the emulator, numbers and hazards",
    perArch: true,
    run(options) {
      const files = [...new Set(archsOf(options).flatMap(conformanceFiles))];
      if (files.length === 0) throw new Stop(`no backend has tests for ${options.arch}`);
      return unitTests(...files);
    },
  },
  "kernel-diff": {
    about: "every PTX of the corpus against --base (default origin/main, else main)",
    perArch: true,
    async run(options) {
      const rows = await kernelDiff(options.base, archsOf(options));
      summary(`### Kernels against ${options.base}\n\n${renderRows(rows)}`);
      return rows.some(({ kind }) => kind === "broken") ? 1 : 0;
    },
  },
  bundle: {
    about: "the portable bundle for GPU machines, with its self-test",
    perArch: false,
    run: () => show(toolNode(), join(root, "scripts/bundle.mjs")),
  },
  newcomer: {
    about: "a newcomer's path from the clone to a kernel on their own matrices, within two minutes",
    perArch: false,
    run: () => show(toolNode(), join(root, "scripts/newcomer.mjs")),
  },
  docs: {
    about: "the site of documentation, in out/docs",
    perArch: false,
    run: () => show(toolNode(), join(root, "scripts/docs.mjs")),
  },
};
