// The explorer's page in the bundle, built from the sources as the rest of it.

import { spawnSync } from "node:child_process";
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, relative } from "node:path";
import { root, Stop, toolEnv, toolNode } from "../lib/workspace.mjs";

const EXPLORER = join(root, "packages/explorer");

/**
 * The page's files under lib/explorer/, where `tilewright explore` looks for them. About 5 s. A {@link Stop} where Vite fails.
 * @returns {import("./tar.mjs").BundleFile[]}
 */
export function explorerFiles() {
  const scratch = mkdtempSync(join(tmpdir(), "tilewright-explorer-"));
  try {
    const vite = join(root, "node_modules/vite/bin/vite.js");
    const { status, stdout, stderr } = spawnSync(
      toolNode(),
      [vite, "build", "--logLevel", "error", "--outDir", scratch, "--emptyOutDir"],
      { cwd: EXPLORER, encoding: "utf8", env: toolEnv() },
    );
    if (status !== 0) throw new Stop(`the explorer's page does not build:\n${stdout}${stderr}`);
    return readdirSync(scratch, { recursive: true, withFileTypes: true })
      .filter((entry) => entry.isFile())
      .map(({ parentPath, name }) => join(parentPath, name))
      .sort()
      .map((path) => ({ path: `lib/explorer/${relative(scratch, path)}`, data: readFileSync(path) }));
  } finally {
    rmSync(scratch, { recursive: true, force: true });
  }
}

/** Folders of the npm packages that the page is made of, theirs included, relative to the repository. @returns {string[]} */
export function explorerPackages() {
  /** @type {Set<string>} */
  const found = new Set();
  /** @param {string} folder of a package, absolute */
  const add = (folder) => {
    const { dependencies = {} } = JSON.parse(readFileSync(join(folder, "package.json"), "utf8"));
    for (const name of Object.keys(dependencies)) {
      const path = `node_modules/${name}`;
      // Packages of the workspace are links; what the command line brings is known already.
      if (found.has(path) || /^(?:@tilewright\/|tilewright$)/.test(name) || !existsSync(join(root, path)))
        continue;
      found.add(path);
      add(join(root, path));
    }
  };
  add(EXPLORER);
  return [...found].sort();
}
