// The bundle's JavaScript: each entry and all it imports in one file, from the sources, so that no build comes first.

import { readdirSync, readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { join } from "node:path";
import { root } from "../lib/workspace.mjs";

/** Output under lib/ (without .mjs) and the source it comes from. */
const ENTRIES = {
  tilewright: "packages/cli/src/bin.ts",
  // Forked by the runtime, which looks for it beside itself.
  "isolation-worker": "packages/runtime/src/isolation/isolation-worker.ts",
  // Started by `tilewright tune`, which looks for it beside itself.
  "compile-worker": "packages/cli/src/tune/compile-worker.ts",
  "self-test": "scripts/bundle/self-test.ts",
  "gpu/device": "packages/runtime/test/device.gpu.test.ts",
  "gpu/launching": "packages/runtime/test/launching.gpu.test.ts",
  "gpu/simt": "packages/backend-simt/test/simt.gpu.test.ts",
  "gpu/mma": "packages/backend-mma/test/mma.gpu.test.ts",
  "gpu/wgmma": "packages/backend-wgmma/test/wgmma.gpu.test.ts",
  "gpu/repetitions": "packages/backend-wgmma/test/repetitions.gpu.test.ts",
};

/** execa's dependencies are CommonJS: esbuild leaves their `require("fs")` in, which an ES module does not have. */
const BANNER =
  'import { createRequire as bundleRequire } from "node:module"; const require = bundleRequire(import.meta.url);';

/**
 * Bundles the entries. Test files run on vitest-shim.ts in place of vitest. koffi stays outside: it is native code.
 * @param {Readonly<Record<string, string>>} [entries] as {@link ENTRIES}; paths relative to the repository or absolute
 * @returns {{ files: import("./tar.mjs").BundleFile[], packages: string[] }} files under lib/, and the folders of the
 *   npm packages whose code is in them
 */
export function bundleCode(entries = ENTRIES) {
  // At run time, because a fresh clone has no esbuild until the script has installed it.
  /** @type {typeof import("esbuild")} */
  const esbuild = createRequire(import.meta.url)("esbuild");
  const { outputFiles, metafile } = esbuild.buildSync({
    absWorkingDir: root,
    entryPoints: entries,
    bundle: true,
    // What entries share lies in lib/ once, beside the entries: code looks for its neighbours by its own place.
    splitting: Object.keys(entries).length > 1,
    chunkNames: "shared-[hash]",
    platform: "node",
    format: "esm",
    target: "node24",
    conditions: ["@tilewright/source"],
    external: ["koffi"],
    alias: { vitest: join(root, "scripts/bundle/vitest-shim.ts") },
    banner: { js: BANNER },
    legalComments: "none",
    outdir: join(root, "lib"),
    outExtension: { ".js": ".mjs" },
    metafile: true,
    write: false,
    logLevel: "warning",
  });
  const packages = Object.keys(metafile.inputs).flatMap((path) => {
    const folder = /^.*node_modules\/(?:@[^/]+\/)?[^/]+/.exec(path)?.[0];
    return folder === undefined ? [] : [folder];
  });
  return {
    files: outputFiles.map(({ path, contents }) => ({
      path: path.slice(root.length).replaceAll("\\", "/"),
      data: contents,
    })),
    packages: [...new Set(packages)].sort(),
  };
}

/**
 * The licence texts of these packages in one text, as their terms ask for. A package without one throws: what may not
 * be passed on must not get in unseen.
 * @param {readonly string[]} folders relative to the repository
 */
export function licencesOf(folders) {
  return folders
    .map((folder) => {
      const at = join(root, folder);
      const { name, version, license } = JSON.parse(readFileSync(join(at, "package.json"), "utf8"));
      const file = readdirSync(at).find((entry) => /^licen[cs]e/i.test(entry));
      if (file === undefined && license === undefined) throw new Error(`${folder} names no licence`);
      const text =
        file === undefined ? `${license} (no text in the package)` : readFileSync(join(at, file), "utf8");
      return `${name} ${version}\n${"=".repeat(78)}\n${text.trim()}\n`;
    })
    .join("\n\n");
}
