import { cpSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type Context, main } from "tilewright";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { root } from "../lib/files.ts";
import { npy } from "../lib/npy.mjs";

// The commands of the pages that people read first run as they stand there, in a folder that has the files they name.

const folder = mkdtempSync(join(tmpdir(), "tilewright-commands-"));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

beforeAll(() => {
  cpSync(join(root, "examples"), join(folder, "examples"), { recursive: true });
  writeFileSync(join(folder, "A.npy"), npy(24, 20));
  writeFileSync(join(folder, "B.npy"), npy(20, 12));
  const body = ".visible .entry f()\n{\n  ret;\n}\n";
  writeFileSync(join(folder, "kernel.ptx"), `.version 6.0\n.target sm_70\n.address_size 64\n${body}`);
  writeFileSync(join(folder, "launch.json"), JSON.stringify({ entry: "f", grid: 1, block: 32 }));
  writeFileSync(join(folder, "lost.json"), JSON.stringify({ entry: "f", order: "eager", switches: [] }));
});

/** Words of a line up to a comment, quoted ones as one. */
const wordsOf = (line: string): readonly string[] =>
  [...line.replace(/ +# .*/, "").matchAll(/"([^"]*)"|(\S+)/g)].map(
    ([, quoted, plain]) => quoted ?? plain ?? "",
  );

const exact = (line: string): string => wordsOf(line).join(" ");

/** The lines of a page's shell blocks that are this command line, and the others. */
function linesOf(page: string): { readonly commands: readonly string[]; readonly others: readonly string[] } {
  const blocks = [...readFileSync(join(root, page), "utf8").matchAll(/^```sh\n(.*?)^```$/gms)];
  const lines = blocks.flatMap(([, text = ""]) => text.trim().split("\n"));
  const commands = lines.flatMap((line) => /^(?:npx )?tilewright (.*)$/.exec(line)?.[1] ?? []);
  return { commands, others: lines.filter((line) => !/^(?:npx )?tilewright /.test(line)).map(exact) };
}

async function run(line: string): Promise<{ readonly code: number; readonly said: string }> {
  let said = "";
  const write = (data: string | Uint8Array): void => {
    said += String(data);
  };
  const sink = { write, isTTY: false };
  const context: Context = {
    ...{ stdout: sink, stderr: sink, readPipe: () => "", env: { PATH: process.env.PATH }, cwd: folder },
    now: () => performance.now(),
    progress: () => () => {},
    onInterrupt() {},
  };
  return { code: await main(wordsOf(line), context), said };
}

/** What CI runs of the lines that are no command of ours: a step of a workflow, or what the job that it names runs. */
const elsewhere: Readonly<Record<string, { readonly workflow: string; readonly run: RegExp }>> = {
  "npm start": { workflow: "ci.yml", run: /^npm start$/ },
  "npm test": { workflow: "ci.yml", run: /^npm run ci -- check$/ },
  "npm run bundle": { workflow: "ci.yml", run: /^npm run ci -- bundle$/ },
  "npm run bundle -- --xz": { workflow: "ci.yml", run: /^npm run bundle -- --xz$/ },
  "tar xf tilewright-linux-x64.tar.gz": {
    workflow: "gpu.yml",
    run: /^tar xf tilewright-linux-x64\.tar\.gz$/,
  },
  "tilewright-linux-x64/self-test --gpu": {
    workflow: "gpu.yml",
    run: /tilewright-linux-x64\/self-test --gpu/,
  },
  // What the archive's self-test runs before the archive takes its place.
  "tilewright-linux-x64/tilewright run --arch sm_70 -m 300 -n 200 -k 77": {
    workflow: "ci.yml",
    run: /^npm run ci -- bundle$/,
  },
};

/** The commands of a workflow's steps that are one line. */
const stepsOf = (name: string): readonly string[] =>
  [...readFileSync(join(root, ".github/workflows", name), "utf8").matchAll(/^ +- run: (.+)$/gm)].map(
    ([, command = ""]) => command,
  );

const pages = [
  ...["README.md", "docs/tutorial.md", "docs/course.md", "docs/debug-a-kernel.md", "docs/for-pytorch.md"],
  ...["docs/for-compiler-authors.md", "docs/tune-your-gpu.md"],
  "scripts/docs/index.md",
];

/** Goes on until it is interrupted; packages/cli/test/explore.test.ts has what it serves. */
const endless = /^explore\b/;

describe.each(pages)("%s", (page) => {
  const { commands: all, others } = linesOf(page);
  const commands = all.filter((line) => !endless.test(line));

  test.each(commands)("%s", async (line) => {
    const { code, said } = await run(line);
    expect([code, code === 0 ? "" : said]).toEqual([0, ""]);
    expect(said.length).toBeGreaterThan(40);
  });

  test("what is no command of ours runs in a workflow", () => {
    expect(commands.length).toBeGreaterThan(1);
    // Needs torch and a GPU.
    for (const line of others.filter((other) => other !== "python examples/pytorch/linear_gelu.py out")) {
      const row = elsewhere[line];
      expect(row, `${line} runs nowhere`).toBeDefined();
      expect(
        stepsOf(row?.workflow ?? "").some((step) => row?.run.test(step)),
        line,
      ).toBe(true);
    }
  });
});
