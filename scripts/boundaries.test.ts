import { spawnSync } from "node:child_process";
import { mkdirSync, mkdtempSync, readdirSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterEach, describe, expect, test } from "vitest";

// The rules of .dependency-cruiser.cjs and of shared-names.mjs, run on small workspaces made for the purpose: a rule that lets its own
// violation pass guards nothing.

const root = fileURLToPath(new URL("..", import.meta.url));
const cruiser = join(root, "node_modules/dependency-cruiser/bin/dependency-cruiser.mjs");
const made: string[] = [];

afterEach(() => {
  for (const dir of made.splice(0)) rmSync(dir, { recursive: true, force: true });
});

const scopedName = (folder: string) => (folder === "cli" ? "tilewright" : `@tilewright/${folder}`);

/** A folder of these files (path -> text). */
function folderOf(files: Readonly<Record<string, string>>): string {
  const dir = mkdtempSync(join(tmpdir(), "tilewright-boundaries-"));
  made.push(dir);
  for (const [path, text] of Object.entries(files)) {
    mkdirSync(dirname(join(dir, path)), { recursive: true });
    writeFileSync(join(dir, path), text);
  }
  return dir;
}

/** Builds a workspace with these source files (path -> text); `broken` lists "rule: file" for what it violates. */
function cruise(files: Readonly<Record<string, string>>): { broken: string[]; output: string } {
  const dir = folderOf(files);
  mkdirSync(join(dir, "node_modules/@tilewright"), { recursive: true });
  mkdirSync(join(dir, "node_modules/dev-tool"));
  writeFileSync(join(dir, "node_modules/dev-tool/package.json"), `{"name": "dev-tool", "main": "index.js"}`);
  writeFileSync(join(dir, "node_modules/dev-tool/index.js"), "exports.here = 1;");
  const folders = readdirSync(join(dir, "packages"));
  for (const folder of folders) {
    const manifest = {
      name: scopedName(folder),
      type: "module",
      exports: { ".": { "@tilewright/source": "./src/index.ts" } },
      dependencies: Object.fromEntries(folders.map((other) => [scopedName(other), "*"])),
      devDependencies: { "dev-tool": "*" },
    };
    writeFileSync(join(dir, "packages", folder, "package.json"), JSON.stringify(manifest));
    symlinkSync(join(dir, "packages", folder), join(dir, "node_modules", scopedName(folder)), "junction");
  }
  const result = spawnSync(
    process.execPath,
    [cruiser, "packages", "--config", join(root, ".dependency-cruiser.cjs"), "--output-type", "json"],
    { cwd: dir, encoding: "utf8" },
  );
  const output = result.stdout + result.stderr;
  // No report at all: the configuration itself was refused. A name no rule has, so no expectation of [] passes.
  if (!result.stdout.startsWith("{")) return { broken: ["no-report"], output };
  const report = JSON.parse(result.stdout) as {
    summary: { violations: { rule: { name: string }; from: string }[] };
  };
  const lines = report.summary.violations.map((v) => `${v.rule.name}: ${v.from.replace("packages/", "")}`);
  return { broken: [...new Set(lines)].sort(), output };
}

const index = (text = "") => `${text}\nexport const here = 1;\n`;
const use = (name: string) => index(`import { here as there } from "${name}";\nexport { there };`);

test("the design's directions pass, and types that name each other", () => {
  const { broken, output } = cruise({
    "packages/core/src/index.ts": index(),
    "packages/ir/src/index.ts": use("./tree.ts"),
    "packages/ir/src/tree.ts": `import type { Leaf } from "./leaf.ts";\nexport interface Tree { leaf: Leaf }\n${index()}`,
    "packages/ir/src/leaf.ts": `import type { Tree } from "./tree.ts";\nexport interface Leaf { tree: Tree }\n`,
    "packages/ptx/src/index.ts": use("@tilewright/core"),
    "packages/codegen/src/index.ts": use("@tilewright/ptx"),
    "packages/backend-simt/src/index.ts": use("@tilewright/codegen"),
    "packages/emulator/src/index.ts": use("@tilewright/ptx"),
    "packages/runtime/src/index.ts": `import { readFileSync } from "node:fs";\nexport { readFileSync };\n${use("@tilewright/emulator")}`,
    "packages/cli/src/index.ts": use("@tilewright/runtime"),
  });
  expect(broken).toEqual([]);
  expect(output).toContain("packages/backend-simt/src/index.ts");
});

test("each planted violation is reported, and nothing else", () => {
  const node = `import { readFileSync } from "node:fs";\nexport { readFileSync };\n`;
  const { broken } = cruise({
    "packages/core/src/index.ts": index(),
    "packages/core/src/up.ts": use("@tilewright/ir"),
    "packages/core/src/node.ts": node,
    "packages/ir/src/index.ts": index(),
    "packages/ptx/src/index.ts": index(),
    "packages/backend-simt/src/index.ts": index(),
    "packages/emulator/src/index.ts": index(),
    "packages/runtime/src/index.ts": index(),
    "packages/cli/src/index.ts": index(),
    // A row of the table each.
    "packages/ir/src/up.ts": use("@tilewright/ptx"),
    "packages/ptx/src/up.ts": use("@tilewright/ir"),
    "packages/codegen/src/index.ts": index(),
    "packages/codegen/src/up.ts": use("@tilewright/backend-simt"),
    "packages/backend-mma/src/index.ts": use("@tilewright/backend-simt"),
    "packages/backend-simt/src/up.ts": use("@tilewright/emulator"),
    "packages/emulator/src/up.ts": use("@tilewright/ir"),
    "packages/runtime/src/up.ts": use("@tilewright/backend-simt"),
    "packages/runtime/src/top.ts": use("tilewright"),
    "packages/cli/src/page.ts": use("@tilewright/explorer"),
    "packages/explorer/src/index.ts": use("@tilewright/codegen"),
    "packages/conformance/src/index.ts": use("@tilewright/ptx"),
    "packages/emulator/src/type.ts": `export type { Row } from "@tilewright/runtime";\n`,
    // Node in portable packages.
    "packages/ir/src/node.ts": node,
    "packages/ptx/src/node.ts": node,
    "packages/backend-simt/src/node.ts": node,
    "packages/emulator/src/node.ts": node,
    // A path into another package; a cycle; imports that lead nowhere or are for development only.
    "packages/core/src/inner.ts": index(),
    "packages/ptx/src/path.ts": use("../../core/src/inner.ts"),
    "packages/ir/src/a.ts": use("./b.ts"),
    "packages/ir/src/b.ts": use("./a.ts"),
    "packages/ir/src/absent.ts": use("./not-there.ts"),
    "packages/cli/src/absent.ts": use("not-installed-anywhere"),
    "packages/cli/src/dev.ts": use("dev-tool"),
    // Fakes are for tests, which reach them by their front door only.
    "packages/runtime/test/fake/index.ts": index(),
    "packages/runtime/test/fake/nvml.ts": index(),
    "packages/cli/src/fake.ts": use("../../runtime/test/fake/index.ts"),
    "packages/cli/test/fake.test.ts": use("../../runtime/test/fake/index.ts"),
    "packages/cli/test/nvml.test.ts": use("../../runtime/test/fake/nvml.ts"),
  });
  expect(broken).toEqual([
    "backend-*-imports-only-its-row: backend-mma/src/index.ts",
    "backend-*-imports-only-its-row: backend-simt/src/up.ts",
    "cli-imports-only-its-row: cli/src/page.ts",
    "codegen-imports-only-its-row: codegen/src/up.ts",
    "conformance-imports-only-its-row: conformance/src/index.ts",
    "core-imports-only-its-row: core/src/up.ts",
    "emulator-imports-only-its-row: emulator/src/type.ts",
    "emulator-imports-only-its-row: emulator/src/up.ts",
    "explorer-imports-only-its-row: explorer/src/index.ts",
    "ir-imports-only-its-row: ir/src/up.ts",
    "no-cycles: ir/src/a.ts",
    "no-node-in-portable-packages: backend-simt/src/node.ts",
    "no-node-in-portable-packages: core/src/node.ts",
    "no-node-in-portable-packages: emulator/src/node.ts",
    "no-node-in-portable-packages: ir/src/node.ts",
    "no-node-in-portable-packages: ptx/src/node.ts",
    "no-tests-in-sources: cli/src/fake.ts",
    "no-undeclared-dependency: cli/src/dev.ts",
    "no-unresolvable: cli/src/absent.ts",
    "no-unresolvable: ir/src/absent.ts",
    "ptx-imports-only-its-row: ptx/src/up.ts",
    "runtime-imports-only-its-row: runtime/src/top.ts",
    "runtime-imports-only-its-row: runtime/src/up.ts",
    "through-the-front-door: cli/test/nvml.test.ts",
    "through-the-front-door: ptx/src/path.ts",
  ]);
  const { forbidden } = createRequire(import.meta.url)("../.dependency-cruiser.cjs") as {
    forbidden: { name: string }[];
  };
  expect(new Set(broken.map((line) => line.split(":")[0]))).toEqual(
    new Set(forbidden.map((rule) => rule.name)),
  );
});

test("a new package needs a row in the table", () => {
  const { output } = cruise({ "packages/surprise/src/index.ts": index() });
  expect(output).toContain("packages/surprise has no row in the table ALLOWED");
});

describe("nothing shared names a backend or an architecture", () => {
  /** Exit status, and lines about violations. */
  const check = (files: Readonly<Record<string, string>>) => {
    const dir = folderOf({
      "packages/backend-simt/src/index.ts": index(),
      "packages/backend-wgmma/src/index.ts": index(),
      ...files,
    });
    const { status, stdout } = spawnSync(process.execPath, [join(root, "scripts/shared-names.mjs"), dir], {
      encoding: "utf8",
    });
    return { status, faults: stdout.split("\n").filter((line) => line.startsWith("shared-names:")) };
  };

  test.each([
    {
      what: "an architecture in a hint",
      text: "export const hint = `needs sm_90a or later`;",
      says: "architecture sm_90a",
    },
    { what: "a generation in a name", text: "export const isHopper = 1;", says: "architecture hopper" },
    {
      what: "a comparison with a backend",
      text: 'export const own = (engine: string) => engine === "wgmma";',
      says: "backend wgmma",
    },
    { what: "a backend in a name", text: "export const simtTile = 1;", says: "backend simt" },
    { what: "a flag", text: 'export const hint = "use --backend mma";', says: "flag --backend mma" },
    {
      what: "a place after a value",
      text: "export const hint = (n: number) => `$" + "{n} of simt`;",
      says: "backend simt",
    },
  ])("$what", ({ text, says }) => {
    expect(check({ "packages/ir/src/planted.ts": `\n${text}\n` })).toEqual({
      status: 1,
      faults: [`shared-names: packages/ir/src/planted.ts:2: ${says}`],
    });
  });

  test("a file's name", () => {
    expect(check({ "packages/codegen/src/wgmma/fence.ts": index() }).faults).toEqual([
      "shared-names: packages/codegen/src/wgmma/fence.ts:1: backend wgmma in the path",
    ]);
  });

  test("instructions, capabilities, comments, and the packages that own an architecture", () => {
    const text = `
      // sm_90 and the simt backend
      export const fence = "wgmma.fence";
      export const row = { feature: "wgmma", kind: "mma" };
      export const has = (target: string) => hasFeature(target, "wgmma");
    `;
    const own = 'export const arch = "sm_90a";';
    expect(
      check({
        "packages/ir/src/index.ts": text,
        "packages/core/src/targets/table.ts": own,
        "packages/backend-wgmma/src/arch.ts": own,
        "packages/ptx/src/rows.ts": own,
      }),
    ).toEqual({ status: 0, faults: [] });
  });
});
