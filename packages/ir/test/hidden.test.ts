import { readFileSync } from "node:fs";
import { describe, expect, test } from "vitest";
import { parseAxisProgram, printAxisProgram } from "../src/index.ts";
import { iterationsSeen, maskedIterations } from "../src/program/hidden.ts";
import { mul, v } from "../src/tile/expr.ts";
import { printCond, printExpr } from "../src/tile/printExpr.ts";
import { iterationsWithin } from "../src/tile/within.ts";

const text = readFileSync(new URL("../../../examples/online-softmax.tile", import.meta.url), "utf8");

function parsed(from: string, to: string) {
  expect(text).toContain(from);
  const program = parseAxisProgram(text.replace(from, to));
  if (!program.ok) throw new Error(JSON.stringify(program.error));
  return program.value;
}

/** Turns of the loop over parts of 32 keys, in tiles of 16 queries. */
function turns(from: string, to: string): string | null {
  const program = parsed(from, to);
  const loop = program.body.find((stmt) => stmt.kind === "for");
  if (loop?.kind !== "for") throw new Error("no loop");
  const seen = iterationsSeen(program, loop, { at: mul(v("mt"), 16), rows: 16, width: 32 });
  return seen?.map(printExpr).join(" .. ") ?? null;
}

const mask = "select(s, q + 80, %S, (-inf))";

describe("turns of which a mask leaves nothing", () => {
  test.each([
    // Query q sees keys before q + 80: the tile's last row those before mt * 16 + 95.
    [mask, mask, "0 .. (%mt * 16 + 126) / 32"],
    [mask, "select(q + 79, s, (-inf), %S)", "0 .. (%mt * 16 + 126) / 32"],
    [mask, "select(s, q + 20, (-inf), %S)", "(%mt * 16 + 20) / 32 .. 5"],
    [
      mask,
      "select(s, q - 20, (-inf), select(s, q + 30, %S, (-inf)))",
      "(%mt * 16 - 20) / 32 .. (%mt * 16 + 76) / 32",
    ],
    [mask, "select(s, 64, %S, (-inf))", "0 .. 2"],
    [mask, "select(s, 100 - q, %S, (-inf))", "0 .. (%mt * -16 + 131) / 32"],
  ])("%s as %s: %s", (from, to, seen) => {
    expect(turns(from, to)).toBe(seen);
  });

  test.each([
    ["another value, of which something is left", mask, "select(s, q + 80, %S, -1)"],
    ["no mask", mask, "%S * 1"],
    ["a mask of values", mask, "select(%S, q + 80, %S, (-inf))"],
    ["a mask that hides nothing", mask, "select(s, q + 150, %S, (-inf))"],
    ["keys that count without a weight", "reduce %l += sum(%S)", "reduce %l += sum(1)"],
    ["sums that are not scaled back to themselves", "map %acc = %acc * %z", "map %acc = %acc * %z * 0.5"],
    ["what is read behind the loop", "store %O = %acc / %l", "store %O = %acc / %x"],
    ["all turns asked for", "for s {", "for s all {"],
  ])("%s: none is left out", (_, from, to) => {
    expect(turns(from, to)).toBeNull();
  });

  test.each([
    // Rows 16 mt to 16 mt + 15 see keys before q + 80: all of them those before 16 mt + 80.
    [mask, ["%at + 32 > %mt * 16 + 80"]],
    ["select(s, q + 20, (-inf), %S)", ["%at < %mt * 16 + 35"]],
    [
      "select(s, q - 20, (-inf), select(s, q + 30, %S, (-inf)))",
      ["%at < %mt * 16 - 5", "%at + 32 > %mt * 16 + 30"],
    ],
    ["select(s, q + 30, %S * 2, (-inf))", null],
    ["select(s, q + 30, %S, %S)", null],
    ["select(%S, q + 30, %S, (-inf))", null],
  ])("%s masks in %j", (to, conditions) => {
    const program = parsed(mask, to);
    const loop = program.body.find((stmt) => stmt.kind === "for");
    const body = loop?.kind === "for" ? loop.body : [];
    const map = body.find((stmt) => stmt.kind === "map");
    if (map?.kind !== "map") throw new Error("no map");
    const made = maskedIterations(program, "s", map, { at: mul(v("mt"), 16), rows: 16, width: 32 }, v("at"));
    expect(made?.map(printCond) ?? null).toEqual(conditions);
  });

  test("a loop of all turns prints and parses back", () => {
    const program = parsed("for s {", "for s all {");
    expect(parseAxisProgram(printAxisProgram(program))).toMatchObject({ value: program });
  });

  test.each([
    [
      [0, 8],
      [-3, 4],
      [0, 4],
    ],
    [
      [0, 8],
      [3, 20],
      [3, 8],
    ],
    [
      [0, 8],
      [5, 2],
      [5, 6],
    ],
    [
      [0, 8],
      [9, 12],
      [7, 8],
    ],
    [
      [2, 8],
      [0, 1],
      [2, 3],
    ],
  ] as const)("of turns %j bounds %j take %j", (own, within, taken) => {
    const [first, end] = taken;
    expect(iterationsWithin(own, within, "all")).toEqual(taken);
    expect(iterationsWithin(own, within, "first")).toEqual([first, first + 1]);
    expect(iterationsWithin(own, within, "rest")).toEqual([first + 1, end]);
    expect(iterationsWithin(own, within, "last")).toEqual([end - 1, end]);
  });
});
