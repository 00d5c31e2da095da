/**
 * Which package may import which, as docs/architecture.md draws it: dependencies point one way.
 *
 * ALLOWED is that table. A package folder that it does not list (a new one) is an error, so nobody adds a
 * package without deciding where it stands. A backend needs no row of its own: all folders that start with
 * `backend-` share one, and none of them may import another.
 */
const { readdirSync } = require("node:fs");

const ALLOWED = {
  core: [],
  ir: ["core"],
  ptx: ["core"],
  codegen: ["core", "ir", "ptx"],
  "backend-[^/]+": ["core", "ir", "ptx", "codegen"],
  emulator: ["core", "ptx"],
  runtime: ["core", "ptx", "emulator"],
  cli: ["core", "ir", "ptx", "codegen", "backend-[^/]+", "emulator", "runtime"],
  // Never published: a page, whose files the command line serves.
  explorer: ["core", "ir", "ptx", "emulator", "runtime", "cli"],
  // Never published: backends call it from their tests, which this table does not bind.
  conformance: ["core", "ir", "runtime"],
};

/** Packages that also run in a browser or a worker: nothing of Node in their sources. */
const PORTABLE = ["core", "ir", "ptx", "codegen", "backend-[^/]+", "emulator"];

const folders = (names) => `(?:${names.join("|")})`;

const unlisted = readdirSync("packages").filter(
  (dir) => !new RegExp(`^${folders(Object.keys(ALLOWED))}$`).test(dir),
);
if (unlisted.length > 0) {
  throw new Error(`packages/${unlisted[0]} has no row in the table ALLOWED of .dependency-cruiser.cjs`);
}

const packageRules = Object.entries(ALLOWED).map(([name, allowed]) => ({
  name: `${name.replace("-[^/]+", "-*")}-imports-only-its-row`,
  comment: `packages/${name}/src may import ${allowed.join(", ") || "no other package"}.`,
  severity: "error",
  from: { path: `^packages/(${name})/src/` },
  // $1 is the importing folder itself: its own files are always fine.
  to: { path: "^packages/", pathNot: `^packages/(?:$1|${folders([...allowed, "\\0"])})/` },
}));

/** @type {import("dependency-cruiser").IConfiguration} */
module.exports = {
  forbidden: [
    ...packageRules,
    {
      name: "through-the-front-door",
      comment:
        "Another package is imported by its name, never by a path into its files; only tests share fakes and fixtures.",
      severity: "error",
      from: { path: "^packages/([^/]+)/" },
      to: {
        path: "^packages/",
        pathNot: "^packages/(?:$1/|[^/]+/(?:src|test/fake|test/support)/index\\.ts$)",
      },
    },
    {
      name: "no-tests-in-sources",
      comment: "Fakes and fixtures stay out of what is published.",
      severity: "error",
      from: { path: "^packages/[^/]+/src/" },
      to: { path: "^packages/[^/]+/test/" },
    },
    {
      name: "no-node-in-portable-packages",
      comment: "core, ir, ptx, codegen, the backends and the emulator run in a browser: no node: imports.",
      severity: "error",
      from: { path: `^packages/${folders(PORTABLE)}/src/` },
      to: { dependencyTypes: ["core"] },
    },
    {
      name: "no-cycles",
      // A cycle with a type-only edge is none at run time: two data types may name each other.
      comment: "Two files that need each other are one file, or miss a third.",
      severity: "error",
      from: { path: "^packages/" },
      to: { circular: true, viaOnly: { dependencyTypesNot: ["type-only"] } },
    },
    {
      name: "no-unresolvable",
      comment:
        "An import that resolves to nothing here will resolve to nothing at the user's. `virtual:` is what a Vite plugin of the explorer makes.",
      severity: "error",
      from: { path: "^packages/" },
      to: { couldNotResolve: true, pathNot: "^virtual:" },
    },
    {
      name: "no-undeclared-dependency",
      comment: "What the shipped code imports stands in its package.json, and not under devDependencies.",
      severity: "error",
      from: { path: "^packages/[^/]+/src/", pathNot: "^packages/conformance/" },
      to: {
        dependencyTypes: ["npm-dev", "npm-no-pkg", "npm-unknown"],
        dependencyTypesNot: ["npm", "npm-peer", "npm-optional"],
      },
    },
  ],
  options: {
    // bin/ starts what the build writes to dist/, which this check neither needs nor waits for.
    exclude: "^packages/[^/]+/(?:dist/|bin/|tsup.config)",
    doNotFollow: { path: "node_modules" },
    combinedDependencies: false,
    // A type-only import is a dependency too: the d.ts of one package then needs the other.
    tsPreCompilationDeps: true,
    enhancedResolveOptions: {
      exportsFields: ["exports"],
      conditionNames: ["@tilewright/source", "types", "import", "node", "default"],
      extensions: [".ts", ".mjs", ".js", ".cjs", ".d.ts", ".json"],
    },
  },
};
