// A newcomer's path, timed (`npm run ci -- newcomer`): from `git clone` of this commit to the first PTX, to a kernel that multiplies the newcomer's own matrices, and to one called from Python.
// node scripts/newcomer.mjs [--write]: prints docs/newcomer.md, or writes it. Takes minutes, and the network for npm. Ends with 1 where their own matrices took more than MOST.

import { spawnSync } from "node:child_process";
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { cpus, loadavg, tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { npy } from "./lib/npy.mjs";
import { progress, root, runMain, Stop, systemNode } from "./lib/workspace.mjs";

const scratch = mkdtempSync(join(tmpdir(), "tilewright-newcomer-"));
const clone = join(scratch, "tilewright");
/** The newcomer's PATH: their own Node, and nothing of this workspace. */
const env = { ...process.env, PATH: `${dirname(systemNode())}:${process.env.PATH}` };

/** Seconds of a line of the shell's `times`: `1m2.5s 0m3.1s`, user and system. @param {string} line */
const cpuSeconds = (line) =>
  [...line.matchAll(/(\d+)m([\d.]+)s/g)].reduce((sum, [, m, s]) => sum + 60 * Number(m) + Number(s), 0);

/** Seconds of a command line on the clock and of the processor, and its exit code. @param {string} line @param {string} cwd @param {readonly number[]} [good] exit codes that are right */
function timed(line, cwd, good = [0]) {
  progress(line);
  const start = performance.now();
  const { status, stdout, stderr } = spawnSync("sh", ["-c", `${line}; code=$?; times >&2; exit $code`], {
    cwd,
    env,
    encoding: "utf8",
  });
  const seconds = (performance.now() - start) / 1000;
  if (status === null || !good.includes(status))
    throw new Stop(`${line}: exit code ${status}\n${stdout}${stderr}`);
  // The second of its two lines is the children's.
  return { seconds, status, cpu: cpuSeconds(stderr.trimEnd().split("\n").at(-1) ?? "") };
}

/** What the machine is, in words. */
const machine = () => `${cpus().length} cores of ${cpus()[0]?.model.trim() || "an unnamed processor"}`;

/** Most seconds from `git clone` to the newcomer's own product. */
const MOST = 120;
const own = "npx tilewright run --a A.npy --b B.npy --out D.npy";

/** The site's front page leads to the page on which the newcomer reads what to type. */
function readTheWay() {
  const read = (/** @type {string} */ path) => readFileSync(join(root, path), "utf8");
  if (!/link: \/first-steps\b/.test(read("scripts/docs/index.md")))
    throw new Stop("the front page has no link to the first steps");
  const lines = read("docs/first-steps.md").split("\n");
  for (const typed of ["npm start", own])
    if (!lines.some((line) => line.startsWith(typed)))
      throw new Stop(`docs/first-steps.md has no line '${typed}'`);
}

runMain(() => {
  try {
    readTheWay();
    const problem = "--arch sm_80 -m 4096 -n 4096 -k 4096 --dtype f16";
    const steps = [
      { line: `git clone --quiet ${root} tilewright`, cwd: scratch, shown: "git clone (of a local copy)" },
      { line: "npm start", cwd: clone },
      { line: `npx tilewright compile ${problem} -o first`, cwd: clone },
      { line: own, cwd: clone },
      { line: "npx tilewright compile --library out --kernels examples/library.json", cwd: clone },
      // 4: no GPU here. The launcher was asked, and has said so.
      { line: "python3 examples/python/call.py out", cwd: clone, good: [0, 4] },
    ];
    const done = steps.map(({ line, cwd, shown = line, good = [0] }) => {
      // The newcomer's own matrices: they have them already.
      if (line === own) {
        writeFileSync(join(clone, "A.npy"), npy(300, 200));
        writeFileSync(join(clone, "B.npy"), npy(200, 77));
      }
      return { shown, ...timed(line, cwd, good) };
    });
    if (!readdirSync(join(clone, "first")).some((name) => name.endsWith(".ptx")))
      throw new Stop("there is no PTX");
    let sum = 0;
    let untilOwn = 0;
    const rows = done.map(({ shown, seconds, cpu }) => {
      sum += seconds;
      if (shown === own) untilOwn = sum;
      return `| \`${shown}\` | ${seconds.toFixed(1)} | ${sum.toFixed(0)} | ${cpu.toFixed(1)} |`;
    });
    const called =
      done.at(-1)?.status === 0
        ? ""
        : " There is no GPU here: the last line ends with the launcher saying so.";
    const page = `# A newcomer's path, timed

A newcomer's own matrices are multiplied and every element checked ${untilOwn.toFixed(0)} seconds after \`git clone\`. The commands are those of the [first steps](first-steps.md), which the front page links to; CI runs them and fails beyond ${MOST} seconds.

| step | seconds | seconds since the start | of the processor |
|---|---|---|---|
${rows.join("\n")}

Measured on ${machine()}, Node ${process.version}, with npm's cache as it was, load of the machine ${loadavg()[0]?.toFixed(1)}.${called}
\`npm start\` installs, builds, and runs a GEMM of each backend. What the last step does on a GPU is in [clients](perf/clients.md). Written by \`node scripts/newcomer.mjs --write\`.
`;
    if (process.argv.includes("--write")) writeFileSync(join(root, "docs/newcomer.md"), page);
    else process.stdout.write(page);
    if (untilOwn > MOST)
      throw new Stop(`${own} ended ${untilOwn.toFixed(0)} s after the start, and ${MOST} are given`);
    return 0;
  } finally {
    rmSync(scratch, { recursive: true, force: true });
  }
});
