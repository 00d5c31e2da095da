// npm run ci: the jobs of CI on this machine, by the scripts that the workflows run.

import { spawnSync } from "node:child_process";
import { parseArgs } from "node:util";
import { ARCHS } from "./ci/corpus.mjs";
import { JOBS } from "./ci/jobs.mjs";
import { install, progress, root, runMain, Stop } from "./lib/workspace.mjs";

const usage = `npm run ci                          check
npm run ci -- --arch sm_90a         what runs for each architecture: ${perArch().join(", ")}
npm run ci -- JOB... [--arch ARCH] [--base COMMIT]

jobs:
${Object.entries(JOBS)
  .map(([name, { about }]) => `  ${name.padEnd(12)} ${about}`)
  .join("\n")}
architectures: ${ARCHS.join(", ")}
`;

/** Jobs that `--arch` alone stands for; the comparison of commits wants to be asked for. */
function perArch() {
  return Object.entries(JOBS)
    .filter(([name, { perArch }]) => perArch && name !== "kernel-diff")
    .map(([name]) => name);
}

/** What to compare with where nobody says: the main branch of the remote, or the one here. */
function usualBase() {
  const known = (/** @type {string} */ ref) =>
    spawnSync("git", ["rev-parse", "--verify", "--quiet", ref], { cwd: root }).status === 0;
  return known("origin/main") ? "origin/main" : "main";
}

/** @param {readonly string[]} argv */
function read(argv) {
  try {
    const { values, positionals } = parseArgs({
      args: [...argv],
      allowPositionals: true,
      options: { arch: { type: "string" }, base: { type: "string" }, help: { type: "boolean", short: "h" } },
    });
    return { ...values, names: positionals };
  } catch (error) {
    throw new Stop(`${error instanceof Error ? error.message : error}\n${usage}`, 2);
  }
}

async function main() {
  const { arch = null, base, help, names } = read(process.argv.slice(2));
  if (help) {
    process.stdout.write(usage);
    return 0;
  }
  const unknown = names.filter((name) => !Object.hasOwn(JOBS, name));
  if (unknown.length > 0) throw new Stop(`there is no job ${unknown.join(", ")}\n${usage}`, 2);
  if (arch !== null && !ARCHS.includes(arch))
    throw new Stop(`${arch} is none of the architectures of CI: ${ARCHS.join(", ")}`, 2);
  const wanted = names.length > 0 ? names : arch === null ? ["check"] : perArch();
  install("npm run ci");
  /** @type {string[]} */
  const bad = [];
  for (const name of wanted) {
    progress(`ci: ${name}${arch === null ? "" : ` for ${arch}`}`);
    const status = await JOBS[name]?.run({ arch, base: base ?? usualBase() });
    if (status !== 0) bad.push(name);
  }
  progress(bad.length === 0 ? `ci: ${wanted.join(", ")} passed` : `ci: failed: ${bad.join(", ")}`);
  return bad.length === 0 ? 0 : 1;
}

// A failure that the user can mend is one line: runMain does that for what does not wait, this for what does.
main().then(
  (status) => {
    process.exitCode = status;
  },
  (error) =>
    runMain(() => {
      throw error;
    }),
);
