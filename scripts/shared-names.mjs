/**
 * Rule 4 of docs/architecture.md: what all backends share names no backend and no architecture. Names of instructions (`wgmma.fence`) and of
 * capabilities (`hasFeature(target, "tcgen05")`) are neither; comments are free. `node scripts/shared-names.mjs [ROOT]` prints every violation
 * and every exception with its reason, and exits with 1 where there is a violation or an exception that nothing needs.
 */
import { readdirSync, readFileSync } from "node:fs";
import { join, relative } from "node:path";
import { fileURLToPath } from "node:url";
import ts from "typescript";

/** Shared packages. `ptx` and `emulator` are not among them: they are the instruction set, whose rows and arithmetic are by architecture. */
const SHARED = ["core", "ir", "codegen", "conformance", "runtime"];

/** Where a name may stand: the beginning of a path below packages/, and why. */
const EXCEPTIONS = {
  "core/src/targets/": "the table of targets and GPUs",
  "core/src/target.ts": "the names of capabilities",
  "ir/src/tile/verify/features.ts": "the capability of each transport",
  "ir/src/model/machine.ts": "the table of engines, whose names the GPUs' data files use",
  "conformance/src/assemble.ts": "what one ptxas takes for the oldest target",
  "runtime/src/timing/pause.ts": "PTX text that runs on every GPU",
  "runtime/src/diagnostics.ts": "how the name of an architecture is written",
};

const GENERATIONS = /^(volta|turing|ampere|ada|hopper|blackwell)$/;

/** Properties and parameters whose value is the name of a capability. */
const CAPABILITY = /^(feature|features|hasFeature|archsWith|targetsSupporting)$/;

/** @param {string} name @returns words of an identifier or a sentence, in lower case */
const wordsOf = (name) =>
  name.split(/(?<=[a-z0-9])(?=[A-Z])|[^A-Za-z0-9]+/).map((word) => word.toLowerCase());

/**
 * What is wrong with a name or a text, or null. An instruction's name has a dot behind its first word; `mma` alone is a statement of the tile IR.
 * @param {string} text @param {readonly string[]} backends
 */
function faultOf(text, backends) {
  const arch = /\bsm_\d+[af]?\b/.exec(text)?.[0] ?? wordsOf(text).find((word) => GENERATIONS.test(word));
  if (arch !== undefined) return `architecture ${arch}`;
  const flag = /--backend \w+/.exec(text)?.[0];
  if (flag !== undefined) return `flag ${flag}`;
  const alone = wordsOf(text.replace(/\b\w+(?=[.:])/g, ""));
  const backend = backends.find((name) => name !== "mma" && alone.includes(name));
  return backend === undefined ? null : `backend ${backend}`;
}

/** @param {ts.Node} node whether its text is the name of a capability by where it stands */
function isCapability(node) {
  const { parent } = node;
  if (ts.isPropertyAssignment(parent) || ts.isPropertySignature(parent))
    return CAPABILITY.test(parent.name.getText());
  if (ts.isCallExpression(parent)) return CAPABILITY.test(parent.expression.getText());
  return false;
}

/** @param {string} path @param {readonly string[]} backends */
function faultsIn(path, backends) {
  const text = readFileSync(path, "utf8");
  const source = ts.createSourceFile(path, text, ts.ScriptTarget.Latest, true);
  /** @type {string[]} */
  const found = [];
  /** @param {ts.Node} node */
  const visit = (node) => {
    const isName = ts.isIdentifier(node);
    const isText =
      ts.isStringLiteralLike(node) ||
      node.kind === ts.SyntaxKind.TemplateHead ||
      node.kind === ts.SyntaxKind.TemplateMiddle ||
      node.kind === ts.SyntaxKind.TemplateTail;
    if ((isName || isText) && !isCapability(node)) {
      const fault = faultOf(/** @type {ts.LiteralLikeNode | ts.Identifier} */ (node).text, backends);
      const { line } = source.getLineAndCharacterOfPosition(node.getStart());
      if (fault !== null) found.push(`${line + 1}: ${fault}`);
    }
    ts.forEachChild(node, visit);
  };
  visit(source);
  return found;
}

/** @param {string} dir @returns {readonly string[]} */
const under = (dir) =>
  readdirSync(dir, { withFileTypes: true, recursive: true })
    .filter((entry) => entry.isFile() && entry.name.endsWith(".ts"))
    .map((entry) => join(entry.parentPath, entry.name))
    .sort();

const root = process.argv[2] ?? fileURLToPath(new URL("..", import.meta.url));
const folders = readdirSync(join(root, "packages"));
const backends = folders.flatMap((name) =>
  name.startsWith("backend-") ? [name.slice("backend-".length)] : [],
);
const used = new Set();
let failed = false;
for (const folder of SHARED.filter((name) => folders.includes(name))) {
  for (const path of under(join(root, "packages", folder, "src"))) {
    const name = relative(join(root, "packages"), path);
    const inName = faultOf(name.replace(/\.ts$/, ""), backends);
    const faults = [...(inName === null ? [] : [`1: ${inName} in the path`]), ...faultsIn(path, backends)];
    if (faults.length === 0) continue;
    const exception = Object.keys(EXCEPTIONS).find((begin) => name.startsWith(begin));
    if (exception !== undefined) used.add(exception);
    else {
      failed = true;
      for (const fault of faults) process.stdout.write(`shared-names: packages/${name}:${fault}\n`);
    }
  }
}
for (const [begin, why] of Object.entries(EXCEPTIONS)) {
  const idle =
    !used.has(begin) && folders.includes(begin.split("/")[0] ?? "") && process.argv[2] === undefined;
  failed ||= idle;
  process.stdout.write(
    `${idle ? "shared-names: needless exception" : "exception"}: packages/${begin} (${why})\n`,
  );
}
process.exitCode = failed ? 1 : 0;
