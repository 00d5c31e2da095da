// Every PTX of the corpus, base against head: unchanged, or so many lines and registers different.

import { spawnSync } from "node:child_process";
import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { progress, root, Stop } from "../lib/workspace.mjs";
import { ARCHS, compileCorpus } from "./corpus.mjs";
import { assemble, hasPtxas } from "./ptxas.mjs";

/** @typedef {import("./corpus.mjs").Kernel} Kernel */
/**
 * @typedef {{ arch: string, name: string, kind: "same" | "changed" | "new" | "gone" | "broken", added: number, removed: number,
 *   registers: readonly [number | null, number | null], detail: string }} Row
 *   broken: head fails to compile what is no refusal
 */

/** @param {readonly string[]} args @param {string} cwd */
function git(args, cwd = root) {
  const { status, stdout, stderr } = spawnSync("git", args, { cwd, encoding: "utf8" });
  if (status !== 0 && status !== null && args[0] !== "diff")
    throw new Stop(`git ${args.join(" ")}: ${stderr.trim()}`);
  return stdout;
}

/**
 * A checkout of `ref` beside this one, with this one's installed packages and its own workspace packages.
 * @param {string} ref @param {string} folder does not exist yet
 */
function checkout(ref, folder) {
  git(["worktree", "add", "--quiet", "--detach", folder, ref]);
  const modules = join(folder, "node_modules");
  mkdirSync(join(modules, "@tilewright"), { recursive: true });
  /** @type {Map<string, string>} */
  const own = new Map();
  for (const name of readdirSync(join(folder, "packages"))) {
    const manifest = join(folder, "packages", name, "package.json");
    if (existsSync(manifest))
      own.set(JSON.parse(readFileSync(manifest, "utf8")).name, join(folder, "packages", name));
  }
  for (const entry of readdirSync(join(root, "node_modules"))) {
    if (entry === "@tilewright" || entry.startsWith(".") || own.has(entry)) continue;
    symlinkSync(join(root, "node_modules", entry), join(modules, entry));
  }
  for (const [name, place] of own) symlinkSync(place, join(modules, name));
}

/**
 * @param {readonly Kernel[]} base @param {readonly Kernel[]} head the same corpus
 * @param {(text: string, arch: string) => number | null} registersOf null where it is not known
 * @returns {Row[]}
 */
export function compareKernels(base, head, registersOf) {
  return head.map((kernel) => {
    const { arch, name, text, error } = kernel;
    const before = base.find((one) => one.arch === arch && one.name === name)?.text ?? null;
    const row = {
      arch,
      name,
      added: 0,
      removed: 0,
      registers: /** @type {const} */ ([null, null]),
      detail: "",
    };
    if (error !== null) return { ...row, kind: "broken", detail: error };
    if (before === text) return { ...row, kind: "same" };
    const registers = /** @type {const} */ ([
      before === null ? null : registersOf(before, arch),
      text === null ? null : registersOf(text, arch),
    ]);
    if (before === null) return { ...row, kind: "new", registers };
    if (text === null) return { ...row, kind: "gone", registers };
    return { ...row, kind: "changed", registers, ...countLines(before, text) };
  });
}

/** @param {string} before @param {string} after */
function countLines(before, after) {
  const folder = mkdtempSync(join(tmpdir(), "tilewright-lines-"));
  try {
    writeFileSync(join(folder, "before"), before);
    writeFileSync(join(folder, "after"), after);
    const [added, removed] = git(["diff", "--no-index", "--numstat", "before", "after"], folder).split("\t");
    return { added: Number(added), removed: Number(removed) };
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

/** The result as Markdown. @param {readonly Row[]} rows */
export function renderRows(rows) {
  const same = rows.filter(({ kind }) => kind === "same").length;
  const head = `${same} of ${rows.length} unchanged`;
  const different = rows.filter(({ kind }) => kind !== "same");
  if (different.length === 0) return `${head}\n`;
  const count = (/** @type {number | null} */ registers) => registers ?? "-";
  const lines = different.map(({ arch, name, kind, added, removed, registers: [before, after], detail }) => {
    const what = kind === "changed" ? `+${added} -${removed}` : kind;
    const first = detail.split("\n").find((line) => line.startsWith("error")) ?? "";
    return `| ${arch} | ${name} | ${what} | ${count(before)} | ${count(after)} | ${first.replaceAll("|", "\\|")} |`;
  });
  return [
    head,
    "",
    "| arch | kernel | PTX lines | registers, base | head | |",
    "|---|---|---|---|---|---|",
    ...lines,
    "",
  ].join("\n");
}

/** @param {string} base a commit, branch or tag @param {readonly string[]} archs @returns {Promise<Row[]>} */
export async function kernelDiff(base, archs = ARCHS) {
  const scratch = mkdtempSync(join(tmpdir(), "tilewright-diff-"));
  const tree = join(scratch, "tree");
  try {
    checkout(base, tree);
    progress(`compiling the corpus at ${base}`);
    const before = await compileCorpus(tree, join(scratch, "base"), archs);
    progress("compiling the corpus as it is here");
    const after = await compileCorpus(root, join(scratch, "head"), archs);
    const known = hasPtxas();
    return compareKernels(before, after, (text, arch) => (known ? assemble(text, arch).registers : null));
  } finally {
    spawnSync("git", ["worktree", "remove", "--force", tree], { cwd: root });
    rmSync(scratch, { recursive: true, force: true });
  }
}
