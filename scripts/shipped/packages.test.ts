import { spawnSync } from "node:child_process";
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import ts from "typescript";
import { describe, expect, test } from "vitest";
import { root, systemNode } from "../lib/workspace.mjs";

// What users get: the built files, on the Node that the user has (the shipped floor where CI provides it).
// `npm test` names that Node; run by hand, it is the first on PATH outside of this workspace.
const node = process.env.TILEWRIGHT_SYSTEM_NODE ?? systemNode();
const nodeVersion = spawnSync(node, ["--version"], { encoding: "utf8" }).stdout.trim();

interface Manifest {
  readonly name: string;
  readonly version: string;
  readonly private?: boolean;
  readonly bin?: Readonly<Record<string, string>>;
  readonly dependencies?: Readonly<Record<string, string>>;
  readonly peerDependencies?: Readonly<Record<string, string>>;
  readonly optionalDependencies?: Readonly<Record<string, string>>;
}

const packages = readdirSync(join(root, "packages"))
  .map((folder) => {
    const dir = join(root, "packages", folder);
    const manifest = JSON.parse(readFileSync(join(dir, "package.json"), "utf8")) as Manifest;
    return { folder, dir, manifest };
  })
  .filter(({ manifest }) => manifest.private !== true);

/** Packages that also run in a browser: the same list as in .dependency-cruiser.cjs. */
const isPortable = (folder: string) => /^(?:ir|ptx|codegen|emulator|backend-.+)$/.test(folder);

/** All that the built files import from outside of themselves. */
function importsOf(dir: string): string[] {
  const files = readdirSync(join(dir, "dist")).filter((name) => name.endsWith(".js"));
  const found = files.flatMap((name) =>
    ts
      .preProcessFile(readFileSync(join(dir, "dist", name), "utf8"), true, true)
      .importedFiles.map((f) => f.fileName),
  );
  return [...new Set(found)].filter((name) => !name.startsWith("./")).sort();
}

describe.each(packages)("$folder, as built", ({ folder, dir, manifest }) => {
  const declared = Object.keys({
    ...manifest.dependencies,
    ...manifest.peerDependencies,
    ...manifest.optionalDependencies,
  });

  test("imports only what its package.json declares", () => {
    const outside = importsOf(dir).filter((name) => !name.startsWith("node:"));
    expect(outside.filter((name) => !declared.some((d) => name === d || name.startsWith(`${d}/`)))).toEqual(
      [],
    );
  });

  if (isPortable(folder)) {
    test("imports nothing of Node", () => {
      expect(importsOf(dir).filter((name) => name.startsWith("node:"))).toEqual([]);
    });
  }

  test(`loads on Node ${nodeVersion} and exports something`, () => {
    const url = pathToFileURL(join(dir, "dist/index.js")).href;
    const script = `console.log(Object.keys(await import(${JSON.stringify(url)})).length)`;
    const { stdout, stderr } = spawnSync(node, ["--input-type=module", "-e", script], { encoding: "utf8" });
    expect(stderr).toBe("");
    expect(Number(stdout)).toBeGreaterThan(0);
  });
});

test(`the command runs on Node ${nodeVersion}`, () => {
  const cli = packages.find(({ folder }) => folder === "cli");
  const bin = join(cli?.dir ?? "", cli?.manifest.bin?.tilewright ?? "");
  const version = spawnSync(node, [bin, "--version"], { encoding: "utf8" });
  expect(version.stderr).toBe("");
  expect(version.stdout).toContain(cli?.manifest.version);
  expect(version.status).toBe(0);
  const targets = spawnSync(node, [bin, "targets", "--json"], { encoding: "utf8" });
  expect(targets.stderr).toBe("");
  expect(JSON.stringify(JSON.parse(targets.stdout))).toContain("sm_70");
});
