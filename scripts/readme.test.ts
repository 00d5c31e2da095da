import { spawnSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { packageFolders, root } from "./lib/files.ts";
import { toolNode } from "./lib/workspace.mjs";

// The first example of each package's README runs as it stands there, in a process of its own.

/** What each example must print, runs of white space as one space; a new package needs a row. */
const prints: Readonly<Record<string, RegExp>> = {
  "packages/cli": /^mma Float64Array\(4\) \[/,
  "packages/emulator": /^\[\] 7 Uint8Array\(16\) \[ 0, 0, 0, 0, 2, 0, 0, 0, 4, 0, 0, 0, 6, 0, 0, 0 \] $/,
  "packages/core": /^m=300 n=200 k=77 .*none true $/,
  "packages/ir": /^tile\.ir \d+ 0 true $/,
  "packages/ptx": /^\.version 6\.3 .*\.entry scale\(.*fma\.rn\.f32 /,
  "packages/runtime": /^1\.5 $/,
};

/** A backend's example prints the kernel that it makes. */
const kernel = /^\.version \S+ \.target sm_\d+[af]? .*\.entry gemm_.* ret; }/;
const printOf = (folder: string): RegExp | undefined =>
  prints[folder] ?? (folder.startsWith("packages/backend-") ? kernel : undefined);

/** Examples that are no whole programs, and why. */
const sketches: Readonly<Record<string, string>> = {
  "packages/codegen": "an engine is a backend's: the lowerings that it names are its own",
  "packages/explorer": "never published; its example is the command that serves it",
  "packages/conformance": "never published; the example is a test of some backend",
};

const published = packageFolders().filter((folder) => !(folder in sketches));

test.each(published)("the example of %s/README.md runs", (folder) => {
  const [, example] =
    /^```ts\n(.*?)^```$/ms.exec(readFileSync(join(root, folder, "README.md"), "utf8")) ?? [];
  expect(example, "a README without an example").toBeDefined();
  expect(printOf(folder), "no row says what the example prints").toBeDefined();
  const flags = ["--conditions=@tilewright/source", "--input-type=module-typescript", "-e", example ?? ""];
  const { status, stdout, stderr } = spawnSync(toolNode(), flags, {
    cwd: join(root, folder),
    env: { ...process.env, NO_COLOR: "1", CUDA_VISIBLE_DEVICES: "-1" },
    encoding: "utf8",
  });
  expect([status, stderr]).toEqual([0, ""]);
  const said = stdout.replace(/\s+/g, " ");
  // Not the text itself, which may be long.
  expect(printOf(folder)?.test(said), said.slice(0, 300)).toBe(true);
});
