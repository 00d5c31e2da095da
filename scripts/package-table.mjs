// Prints docs/packages.md: size for a browser and time to import, by package. `--write` writes it. Needs the build.

import { spawnSync } from "node:child_process";
import { readdirSync, readFileSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { cpus, loadavg } from "node:os";
import { join } from "node:path";
import { gzipSync } from "node:zlib";
import { root, toolNode } from "./lib/workspace.mjs";

/** Imports of each package; the least is taken, which is the one that nothing disturbed. */
const ROUNDS = 7;

/** @type {typeof import("esbuild")} */
const esbuild = createRequire(import.meta.url)("esbuild");

const names = readdirSync(join(root, "packages"))
  .map((folder) => JSON.parse(readFileSync(join(root, "packages", folder, "package.json"), "utf8")))
  .filter((manifest) => manifest.private !== true)
  .map(({ name }) => name);

/** Bytes of everything that the package exports, with all that it imports, minified and gzipped. @param {string} name */
function bundled(name) {
  const { outputFiles } = esbuild.buildSync({
    stdin: { contents: `export * from "${name}";`, resolveDir: root, loader: "js" },
    bundle: true,
    write: false,
    minify: true,
    platform: "node",
    format: "esm",
    external: ["koffi"],
    logLevel: "error",
  });
  const contents = outputFiles[0]?.contents ?? new Uint8Array();
  return { minified: contents.byteLength, zipped: gzipSync(contents).byteLength };
}

/** Milliseconds that `import` takes in a fresh process. @param {string} name */
function importTime(name) {
  const script = `const t = performance.now(); await import("${name}"); console.log(performance.now() - t);`;
  const times = Array.from({ length: ROUNDS }, () =>
    Number(
      spawnSync(toolNode(), ["--input-type=module", "-e", script], { cwd: root, encoding: "utf8" }).stdout,
    ),
  );
  return Math.min(...times);
}

const kilobytes = (/** @type {number} */ bytes) => (bytes / 1000).toFixed(0);
const rows = names.map((name) => {
  const { minified, zipped } = bundled(name);
  return `| \`${name}\` | ${kilobytes(minified)} | ${kilobytes(zipped)} | ${importTime(name).toFixed(0)} |`;
});
const version = spawnSync(toolNode(), ["--version"], { encoding: "utf8" }).stdout.trim();
const page = `# Sizes of the packages

Everything that a package exports with all that it imports, bundled and minified (kB of 1000 bytes), and the time of the first \`import\` of the built package
in a fresh process: the least of ${ROUNDS}, on ${cpus().length} cores of ${cpus()[0]?.model.trim() || "an unnamed processor"}, Node ${version}. koffi is not counted. What an application imports by
name alone is smaller: every package is free of side effects. Load of the machine at the time: ${loadavg()[0]?.toFixed(1)} (busy machines import slowly). Written by
\`node scripts/package-table.mjs --write\` after a build.

| package | minified, kB | gzipped, kB | import, ms |
|---|---|---|---|
${rows.join("\n")}
`;
if (process.argv.includes("--write")) writeFileSync(join(root, "docs/packages.md"), page);
else process.stdout.write(page);
