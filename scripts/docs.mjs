// npm run docs: the site, in out/docs/site/.vitepress/dist. Its tools come from the npm registry into out/docs/tools, so that nobody who
// only works on the compiler installs them. The pages of docs/ are joined by those that follow from the code (docs/pages.ts) and the API.

import { spawnSync } from "node:child_process";
import { cpSync, existsSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join, relative } from "node:path";
import { wrongAnswers } from "./docs/searched.mjs";
import { install, progress, root, runMain, Stop, toolEnv, toolNode } from "./lib/workspace.mjs";

/** The last stable line of vitepress, and the typedoc that goes with TypeScript 6. */
const TOOLS = {
  vitepress: "1.6.4",
  typedoc: "0.28.20",
  "typedoc-plugin-markdown": "4.14.1",
  typescript: "6.0.3",
};

const out = join(root, "out/docs");
const tools = join(out, "tools");
const site = join(out, "site");
const blob = "https://github.com/tilewright/tilewright/blob/main";

/** Runs a program to its end; its output is shown when it fails. @param {string} what @param {string} command @param {string[]} args @param {string} cwd */
function must(what, command, args, cwd) {
  const { status, stdout, stderr } = spawnSync(command, args, {
    cwd,
    env: toolEnv({ NODE_OPTIONS: "--max-old-space-size=3072" }),
    encoding: "utf8",
    shell: process.platform === "win32",
  });
  if (status !== 0) throw new Stop(`${what} failed:\n${stdout}${stderr}`);
}

function installTools() {
  mkdirSync(tools, { recursive: true });
  const manifest = `${JSON.stringify({ private: true, type: "module", dependencies: TOOLS })}\n`;
  const file = join(tools, "package.json");
  if (existsSync(file) && readFileSync(file, "utf8") === manifest && existsSync(join(tools, "node_modules")))
    return;
  writeFileSync(file, manifest);
  progress("installing vitepress and typedoc");
  must(
    "npm install",
    "npm",
    ["install", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error"],
    tools,
  );
}

/** Links of docs/ that lead out of it or to files of runs point at the repository; README.md of a folder is its index. @param {string} folder */
function adapt(folder) {
  for (const entry of readdirSync(folder, { withFileTypes: true, recursive: true })) {
    if (!entry.isFile() || !entry.name.endsWith(".md")) continue;
    const path = join(entry.parentPath, entry.name);
    const depth = relative(site, path).split(/[\\/]/).length - 1;
    const up = "../".repeat(depth + 1);
    const text = readFileSync(path, "utf8")
      .replaceAll(`](${up}`, `](${blob}/`)
      .replace(/\]\((runs\/[^)]+\.csv)\)/g, `](${blob}/docs/perf/$1)`)
      .replaceAll("README.md", "index.md");
    const target = entry.name === "README.md" ? join(entry.parentPath, "index.md") : path;
    if (target !== path) rmSync(path);
    writeFileSync(target, text);
  }
}

/** What a program imports. @param {string} folder of packages/ */
const importName = (folder) => (folder === "cli" ? "tilewright" : `@tilewright/${folder}`);

/** Packages that programs import: those that are published. */
const published = readdirSync(join(root, "packages"))
  .map((folder) => ({
    folder,
    manifest: JSON.parse(readFileSync(join(root, "packages", folder, "package.json"), "utf8")),
  }))
  .filter(({ manifest }) => manifest.private !== true);

/** The API's first page: each package with what it is. */
const apiIndex = () =>
  [
    "# API by package",
    "",
    "Every exported name has a page, which the search finds by that name. Guides come first: [compile a kernel from a program](../for-compiler-authors.md), [from PyTorch](../for-pytorch.md).",
    "",
    "| package | what it is |",
    "|---|---|",
    ...published.map(
      ({ folder, manifest }) => `| [${manifest.name}](./${folder}/src/index.md) | ${manifest.description} |`,
    ),
    "",
  ].join("\n");

/** Reference of every exported name, from the sources. */
function makeApi() {
  const entries = published.map(({ folder }) => `packages/${folder}/src/index.ts`);
  must(
    "typedoc",
    toolNode(),
    [
      join(tools, "node_modules/typedoc/bin/typedoc"),
      ...["--plugin", join(tools, "node_modules/typedoc-plugin-markdown/dist/index.js")],
      ...[
        "--out",
        join(site, "api"),
        "--tsconfig",
        "tsconfig.json",
        "--skipErrorChecking",
        "--readme",
        "none",
      ],
      ...["--entryFileName", "index", "--disableSources", "--logLevel", "Error", "--router", "member"],
      ...entries.flatMap((entry) => ["--entryPoints", entry]),
      ...["--name", "Tilewright's API", "--hidePageHeader"],
    ],
    root,
  );
  // `core/src` is how typedoc names a module; who imports it writes `@tilewright/core`.
  for (const entry of readdirSync(join(site, "api"), { withFileTypes: true, recursive: true })) {
    if (!entry.name.endsWith(".md")) continue;
    const path = join(entry.parentPath, entry.name);
    const text = readFileSync(path, "utf8");
    writeFileSync(
      path,
      text.replace(/(\[|# |\/ )([\w-]+)\/src(?=\]|$)/gm, (_, before, name) => before + importName(name)),
    );
  }
  writeFileSync(join(site, "api/index.md"), apiIndex());
}

async function main() {
  install("npm run docs");
  installTools();
  rmSync(site, { recursive: true, force: true });
  cpSync(join(root, "docs"), site, { recursive: true });
  progress("pages that follow from the code");
  must("the generator", toolNode(), ["--conditions=@tilewright/source", "scripts/docs/write.ts", site], root);
  adapt(site);
  cpSync(join(root, "scripts/docs/index.md"), join(site, "index.md"));
  // Turbo has built it before, and others may be looking at it.
  if (process.env.TURBO_HASH === undefined) {
    progress("the explorer");
    must(
      "the explorer's build",
      toolNode(),
      [join(root, "node_modules/vite/bin/vite.js"), "build"],
      join(root, "packages/explorer"),
    );
  }
  cpSync(join(root, "packages/explorer/dist"), join(site, "public/explorer"), { recursive: true });
  cpSync(join(root, "docs/pictures/path.svg"), join(site, "public/path.svg"));
  if (!process.argv.includes("--no-api")) {
    progress("typedoc");
    makeApi();
  }
  mkdirSync(join(site, ".vitepress"));
  for (const name of ["config.mjs", "search.mjs"])
    cpSync(join(root, "scripts/docs", name), join(site, ".vitepress", name));
  progress("vitepress");
  // A link that leads nowhere is an error of vitepress.
  must("vitepress", toolNode(), [join(tools, "node_modules/vitepress/bin/vitepress.js"), "build", "."], site);
  const dist = join(site, ".vitepress/dist");
  if (!process.argv.includes("--no-api")) {
    progress("search");
    const wrong = await wrongAnswers(dist, join(tools, "node_modules"));
    if (wrong.length > 0)
      throw new Stop(`the site's search answers otherwise than it should:\n${wrong.join("\n")}`);
  }
  progress("axe");
  must("the look at the site", toolNode(), ["packages/explorer/test/browser/site.ts", dist], root);
  console.log(relative(process.cwd(), dist));
  return 0;
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
