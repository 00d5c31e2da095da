/**
 * Three hundred wrong inputs, each with its message and its exit code. The files beside this one were read line by line: they say what is wrong, where, and
 * mostly what would work. `vitest -u` writes them anew; read what changed.
 */
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { cli, traceLines } from "../harness.ts";
import { scratch } from "../scratch.ts";
import { type BadInput, groups } from "./cases.ts";

/** Milliseconds that a refusal takes at most on a quiet machine; a busy runner is several times as slow. */
const MOST_MS = 2000;
const slack = process.env.CI === undefined ? 5 : 10;

const wordsOf = (line: string): readonly string[] =>
  [...line.replace("$P", "--arch sm_70 -m 64 -n 48 -k 40").matchAll(/"([^"]*)"|(\S+)/g)].map(
    ([, quoted, plain]) => quoted ?? plain ?? "",
  );

/** What is shown of a file: its beginning, in ASCII. */
const shown = (text: string | Uint8Array): string => {
  const whole = typeof text === "string" ? text : Buffer.from(text).toString("latin1");
  const start = JSON.stringify(whole.slice(0, 300)).replace(
    /[^ -~]/g,
    (each) => `\\u${each.charCodeAt(0).toString(16).padStart(4, "0")}`,
  );
  return whole.length > 300 ? `${start} … (${whole.length})` : start;
};

async function refusal({ line, files = {}, stdin = "" }: BadInput): Promise<string> {
  using folder = scratch();
  for (const [name, text] of Object.entries(files)) writeFileSync(join(folder.path, name), text);
  const before = folder.list();
  const began = performance.now();
  const { code, stdout, stderr } = await cli(wordsOf(line), { cwd: folder.path, stdin });
  const took = performance.now() - began;
  const given = Object.entries(files).map(([name, text]) => `  < ${name}: ${shown(text)}\n`);
  // A new command changes no message.
  const told = stderr.replaceAll(folder.path, "FOLDER").replace(/commands: [a-z, -]+$/gm, "commands: …");
  expect([line, code === 0 || code === 1]).toEqual([line, false]);
  expect([line, traceLines(stderr)]).toEqual([line, []]);
  expect([line, folder.list()]).toEqual([line, before]);
  expect([line, line.includes("--json") ? "" : stdout]).toEqual([line, ""]);
  expect([line, took < slack * MOST_MS]).toEqual([line, true]);
  return `$ tilewright ${line}\n${given.join("")}${told}exit ${code}\n`;
}

test("there are three hundred", () => {
  expect(Object.values(groups).flat().length).toBeGreaterThanOrEqual(300);
});

describe("every wrong input is told what is wrong", () => {
  test.each(Object.entries(groups))("%s", async (name, inputs) => {
    const told: string[] = [];
    for (const input of inputs) told.push(await refusal(input));
    await expect(told.join("\n")).toMatchFileSnapshot(`${name}.txt`);
  });
});
