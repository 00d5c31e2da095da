// The fixed corpus: problems whose kernels are assembled for every architecture and compared between two commits.

import { spawn } from "node:child_process";
import { existsSync, mkdirSync, readdirSync, readFileSync } from "node:fs";
import { availableParallelism } from "node:os";
import { join } from "node:path";
import { toolNode } from "../lib/workspace.mjs";

/** One architecture of each generation: a job of the matrix each. */
export const ARCHS = ["sm_70", "sm_80", "sm_90a", "sm_100a"];

/**
 * Name and flags of `tilewright compile`. Small and large, ragged and whole, every layout, dtype and kind of epilogue once;
 * what no backend serves on an architecture counts as refused there.
 * @type {Readonly<Record<string, string>>}
 */
const CORPUS = {
  "f32-512": "-m 512 -n 512 -k 512",
  "f32-ragged": "-m 300 -n 200 -k 77",
  "f32-skinny": "-m 8 -n 4096 -k 4096",
  "f32-deep": "-m 128 -n 128 -k 16384",
  "f32-columns": "-m 257 -n 129 -k 65 --a-layout col --b-layout col",
  "f32-beta": "-m 256 -n 256 -k 256 --alpha 2 --beta 0.5",
  "f32-fused": "-m 512 -n 512 -k 256 --epilogue bias(n,f32)|relu",
  "f32-batch": "-m 96 -n 96 -k 96 --batch 8",
  "tf32-1024": "-m 1024 -n 1024 -k 1024 --dtype tf32",
  "f16-512": "-m 512 -n 512 -k 512 --dtype f16",
  "f16-ragged": "-m 129 -n 127 -k 65 --dtype f16",
  "f16-columns": "-m 512 -n 256 -k 384 --dtype f16 --a-layout col --b-layout col",
  "bf16-4096": "-m 4096 -n 4096 -k 4096 --dtype bf16 --b-layout col",
  "e4m3-1024": "-m 1024 -n 1024 -k 1024 --dtype e4m3 --b-layout col",
  "s8-1024": "-m 1024 -n 1024 -k 1024 --dtype s8 --b-layout col",
};

/** Exit code of a problem that nothing serves; see the README of packages/cli. */
const UNSUPPORTED = 3;

/**
 * @typedef {{ arch: string, name: string, text: string | null, error: string | null }} Kernel
 *   text: PTX; null where it is refused, or where `error` says what went wrong
 */

/**
 * The text that is launched: without the comments and `.loc` that compile writes for people, and older commits do not.
 * @param {string} ptx
 */
const bare = (ptx) => ptx.replace(/^(\.file |\s+\/\/ |\s+\.loc ).*\n/gm, "");

/**
 * Compile the corpus with the command line of a checkout.
 * @param {string} tree its root; its packages are those of its node_modules
 * @param {string} out an empty folder
 * @param {readonly string[]} archs
 * @param {readonly string[]} [names] only these of the corpus
 * @returns {Promise<Kernel[]>} in the order of the corpus
 */
export async function compileCorpus(tree, out, archs, names = Object.keys(CORPUS)) {
  const wanted = archs.flatMap((arch) => names.map((name) => ({ arch, name, flags: CORPUS[name] ?? "" })));
  /** @type {Kernel[]} */
  const kernels = [];
  const next = wanted.entries();
  const work = async () => {
    for (const [index, { arch, name, flags }] of next) {
      const folder = join(out, arch, name);
      mkdirSync(folder, { recursive: true });
      const argv = ["compile", "--arch", arch, ...flags.split(" "), "--emit", "ptx", "-o", folder, "-q"];
      const { status, stderr } = await command(tree, argv);
      const file = existsSync(folder)
        ? readdirSync(folder).find((entry) => entry.endsWith(".ptx"))
        : undefined;
      const error = status === 0 || status === UNSUPPORTED ? null : `exit code ${status}\n${stderr}`;
      const text = file === undefined || status !== 0 ? null : bare(readFileSync(join(folder, file), "utf8"));
      kernels[index] = { arch, name, text, error };
    }
  };
  await Promise.all(Array.from({ length: availableParallelism() }, work));
  return kernels;
}

/**
 * The command line from the sources of a checkout.
 * @param {string} tree @param {readonly string[]} argv
 * @returns {Promise<{ status: number | null, stderr: string }>}
 */
function command(tree, argv) {
  return new Promise((resolve) => {
    const options = ["--conditions=@tilewright/source", "--no-warnings", "packages/cli/src/bin.ts"];
    const child = spawn(toolNode(), [...options, ...argv], {
      cwd: tree,
      // What every machine gets, whatever its user has tuned.
      env: { ...process.env, TILEWRIGHT_TUNED: "none" },
      stdio: ["ignore", "ignore", "pipe"],
    });
    let stderr = "";
    child.stderr.setEncoding("utf8").on("data", (/** @type {string} */ text) => {
      stderr += text;
    });
    child.on("error", (error) => resolve({ status: null, stderr: error.message }));
    child.on("close", (status) => resolve({ status, stderr }));
  });
}
