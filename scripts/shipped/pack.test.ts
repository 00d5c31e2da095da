import { execFileSync } from "node:child_process";
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { root } from "../lib/files.ts";

// What npm would publish of each package, and that its manifest is ready for it.

/** Of every package; tsup names the chunks that two entries share by their content. */
const usual = [
  "LICENSE",
  "README.md",
  "dist/index.d.ts",
  "dist/index.js",
  "dist/index.js.map",
  "package.json",
];

/** Besides those. */
const more: Readonly<Record<string, readonly string[]>> = {
  cli: [
    "bin/tilewright.js",
    "dist/bin.d.ts",
    "dist/bin.js",
    "dist/bin.js.map",
    "dist/docs/errors.md",
    "dist/docs/hazards/README.md",
    "dist/explorer/index.html",
    ...["d.ts", "js", "js.map"].map((suffix) => `dist/tune/compile-worker.${suffix}`),
    ...["types", "open", "operands", "extents", "plan", "run", "dispatch", "weights"].map(
      (part) => `launchers/c/${part}.h`,
    ),
    ...["c", "h", "hpp"].map((suffix) => `launchers/c/launcher.${suffix}`),
    ...["js", "d.ts"].map((suffix) => `launchers/esm/launcher.${suffix}`),
    ...[
      "__init__",
      "_attention",
      "_expressions",
      "_library",
      "_operands",
      "_plans",
      "_shim",
      "_torch",
      "_torch_attention",
      "_torch_reference",
    ].map((name) => `launchers/python/${name}.py`),
    "launchers/python/shim.c",
    "launchers/python/shim_launch.h",
    "launchers/rust/launcher.rs",
    "launchers/rust/weights.rs",
  ],
  runtime: [
    "dist/isolation/isolation-worker.d.ts",
    "dist/isolation/isolation-worker.js",
    "dist/isolation/isolation-worker.js.map",
  ],
};

interface Manifest {
  readonly name: string;
  readonly private?: boolean;
  readonly [field: string]: unknown;
}

const packages = readdirSync(join(root, "packages")).flatMap((folder) => {
  const manifest = JSON.parse(
    readFileSync(join(root, "packages", folder, "package.json"), "utf8"),
  ) as Manifest;
  return manifest.private === true ? [] : [{ folder, manifest }];
});

describe.each(packages)("packages/$folder", ({ folder, manifest }) => {
  test("npm packs these files and no others", () => {
    const said = execFileSync(
      "npm",
      ["pack", "--dry-run", "--json", "--ignore-scripts", "--loglevel=error"],
      {
        cwd: join(root, "packages", folder),
        encoding: "utf8",
        shell: process.platform === "win32",
      },
    );
    // npm 12 answers with an object by package name, earlier ones with an array.
    const [packed] = Object.values(JSON.parse(said) as object) as {
      readonly files: readonly { readonly path: string }[];
    }[];
    const paths = packed?.files.map(({ path }) => path) ?? [];
    const chunks = /^dist\/(?:chunk|dist|[\w-]+)-[A-Z0-9]{8}\.js(?:\.map)?$/;
    // The explorer's page: its bundler names files by their content.
    const page = /^dist\/explorer\/assets\/[\w-]+\.\w+$/;
    expect(paths.filter((path) => !chunks.test(path) && !page.test(path)).sort()).toEqual(
      [...usual, ...(more[folder] ?? [])].sort(),
    );
  });

  test("its manifest is that of an ES module with types, without side effects, published with provenance", () => {
    expect(manifest).toMatchObject({
      ...{ type: "module", sideEffects: false, license: "Apache-2.0", engines: { node: ">=20.19" } },
      exports: {
        ".": { types: "./dist/index.d.ts", default: "./dist/index.js" },
        "./package.json": "./package.json",
      },
      publishConfig: { access: "public", provenance: true },
      repository: { type: "git", directory: `packages/${folder}` },
    });
    expect(manifest.main).toBeUndefined();
    expect(manifest.scripts).not.toHaveProperty("postinstall");
  });
});
