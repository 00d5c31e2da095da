import { cpSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type Context, main } from "tilewright";
import { afterAll, describe, expect, test } from "vitest";
import { root } from "../lib/files.ts";

// The commands of the tutorial run as they stand there, in a folder that has the examples.

const folder = mkdtempSync(join(tmpdir(), "tilewright-tutorial-"));
cpSync(join(root, "examples"), join(folder, "examples"), { recursive: true });
afterAll(() => rmSync(folder, { recursive: true, force: true }));

const blocks = [...readFileSync(join(root, "docs/tutorial.md"), "utf8").matchAll(/^```sh\n(.*?)^```$/gms)];
const lines = blocks.flatMap(([, text = ""]) => text.trim().split("\n"));
const commands = lines.flatMap((line) =>
  line.startsWith("npx tilewright ") ? [line.slice("npx tilewright ".length)] : [],
);

/** Words of a line, quoted ones as one. */
const wordsOf = (line: string): readonly string[] =>
  [...line.matchAll(/"([^"]*)"|(\S+)/g)].map(([, quoted, plain]) => quoted ?? plain ?? "");

describe("docs/tutorial.md", () => {
  test("has commands, and nothing else than those and two that need npm or a GPU", () => {
    expect(commands.length).toBeGreaterThan(4);
    expect(lines.filter((line) => !line.startsWith("npx tilewright "))).toEqual([
      "npm start",
      "python examples/pytorch/linear_gelu.py out",
    ]);
  });

  test.each(commands)("%s", async (line) => {
    let said = "";
    const write = (data: string | Uint8Array): void => {
      said += String(data);
    };
    const sink = { write, isTTY: false };
    const context: Context = {
      ...{ stdout: sink, stderr: sink, readStdin: () => "", env: { PATH: process.env.PATH }, cwd: folder },
      now: () => performance.now(),
      progress: () => () => {},
      onInterrupt() {},
    };
    const code = await main(wordsOf(line), context);
    expect([code, code === 0 ? "" : said]).toEqual([0, ""]);
    expect(said.length).toBeGreaterThan(40);
  });
});
