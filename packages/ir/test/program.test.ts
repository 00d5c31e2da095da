import { readFileSync } from "node:fs";
import { formatDiagnostic } from "@tilewright/core";
import { describe, expect, test } from "vitest";
import { anchorOf, measureProgram, parseAxisProgram, printAxisProgram } from "../src/index.ts";

const example = (name: string): string =>
  readFileSync(new URL(`../../../examples/${name}.tile`, import.meta.url), "utf8");

const parse = (text: string) => {
  const parsed = parseAxisProgram(text);
  if (!parsed.ok) throw new Error(parsed.error.map(formatDiagnostic).join("\n"));
  return parsed.value;
};

/** What is said of the example after some edits: place, message and hint. */
function faults(name: string, ...edits: readonly (readonly [string, string])[]): readonly string[] {
  const text = edits.reduce((before, [from, to]) => {
    expect(before).toContain(from);
    return before.replace(from, to);
  }, example(name));
  const parsed = parseAxisProgram(text);
  return parsed.ok
    ? []
    : parsed.error.map(({ location, message, hint }) => `${location?.line}: ${message}; ${hint}`);
}

describe("programs over axes", () => {
  test.each(["softmax", "rmsnorm", "layernorm", "two-products", "grouped-heads", "online-softmax"])(
    "%s prints and parses back",
    (name) => {
      const text = example(name);
      expect(text.split("\n").length).toBeLessThan(60);
      expect(text).not.toMatch(/sm_|warp|thread|lane/);
      const program = parse(text);
      const blank = (line: string): string => line.replace(/\/\/.*\n/g, "").replaceAll(" ", "");
      expect(blank(printAxisProgram(program))).toBe(blank(text));
      expect(parse(printAxisProgram(program))).toEqual(program);
    },
  );

  test("errors have line and hint, all at once", () => {
    expect(
      faults(
        "softmax",
        ["param %B f16[k, n]", "param %B bf16[k, n]"],
        ["tile %x f32[m]", "tile %x f32[mm]"],
        ["axis k = 80", "axis k = 99999999999"],
      ),
    ).toEqual([
      "6: the extent of an axis must be an integer of at most 2147483647, found 99999999999; write an integer of at most 2147483647",
      "11: no axis is called mm; did you mean 'm'?",
    ]);
    expect(faults("softmax", ["param %B f16[k, n]", "param %B bf16[k, n]"])).toEqual([
      "16: multiplies f16 by bf16; make %B f16",
    ]);
  });

  test.each([
    [["along n\n    map", "along q\n    map"], "no axis is called q"],
    [["axis n = 96 whole", "axis n = 96"], "a tile does not hold whole rows along n"],
    [["exp(%S - %x)", "exp(%S - %A)"], "the expression has axis k"],
    [["exp(%S - %x)", "exp(%S - k)"], "a tile does not know positions along k"],
    [["exp(%S - %x)", "select(m <= %x <= 3, 1, 2)"], "expected"],
    [["exp(%S - %x)", `${"(".repeat(5000)}%S`], "parentheses within each other are at most 64"],
    [["exp(%S - %x)", "max(%S)"], "'max' takes 2, found 1"],
    [["exp(%S - %x)", "expp(%S)"], "'expp' is no function of elements"],
    [["store %D = %S * %x", "store %S = %x"], "%S is no parameter"],
    [["    fill %S = 0\n", ""], "%S is read before anything is written to it"],
    [["mma %S += %A * %B", "mma %S += %B * %A"], "multiplies %B f16[k, n] by %A f16[m, k]"],
    [["for k {", "for n {"], "a product over k outside a loop over it"],
    [["param %B f16[k, n]", "param %B f16[n, n]"], "%B has axis n twice"],
  ] as const)("%j: %s", (edit, message) => {
    expect(faults("softmax", edit).some((fault) => fault.includes(message))).toBe(true);
  });

  test.each([
    ["for d {", "for s {", "a loop over s inside one over s"],
    ["%m = %x", "%m = %x - d", "a tile does not know positions along d"],
    ["sum(%S) along s", "sum(%Q) along d", "reduces along d in a loop over s"],
    [
      "store %O = %acc / %l",
      "map %S = %S\n    store %O = %acc / %l",
      "%S is read before anything is written to it",
    ],
  ])("parts with %j as %j: %s", (from, to, message) => {
    expect(faults("online-softmax", [from, to]).filter((fault) => fault.includes(message))).toHaveLength(1);
  });

  test.each([
    ["tile %S f32[q, s]", "tile %S f32[h, q, s]", "%S has an axis of the batch"],
    ["tiles q, e", "tiles q, h", "h is an axis of the batch"],
    ["for d {", "for g {", "g is an axis of the batch"],
    ["%V bf16[b, h, s, e]", "%V bf16[b, h]", "by %V bf16[] into"],
    ["%V bf16[b, h, s, e]", "%V bf16[s, e, h]", "%V is contiguous along none of s and e"],
    ["%V bf16[b, h, s, e]", "%V bf16[b, h, s, e] strides 9, 5", "expected ','"],
  ])("heads with %j as %j: %s", (from, to, message) => {
    expect(faults("grouped-heads", [from, to]).filter((fault) => fault.includes(message))).toHaveLength(1);
  });

  test.each([
    ["bf16[b, s, h, d]", [9856, 128, 64, 1], "col"],
    ["bf16[b, h, s, d]", [9856, 4928, 64, 1], "col"],
    ["bf16[b, h, d, s]", [9856, 4928, 77, 1], "row"],
    ["bf16[b, h, d, s] layout col", [9856, 4928, 1, 64], "col"],
    ["bf16[s, d] strides 80, 1", [80, 1], "col"],
  ])("%%K as %s", (declared, strides, layout) => {
    const text = example("grouped-heads").replace("bf16[b, s, h, d]", declared);
    const program = parse(text);
    const key = program.params.find(({ name }) => name === "K");
    expect(key).toMatchObject({ axes: ["d", "s"], layout });
    expect(key?.memory.map(({ stride }) => stride)).toEqual(strides);
    expect(printAxisProgram(program)).toContain(`param %K ${declared}\n`);
    expect(parse(printAxisProgram(program))).toEqual(program);
  });

  const multiplied = "      mma %S += %A * %B\n";
  test.each([
    ["softmax", multiplied, `${multiplied}      fill %x = 0\n`, "does more than multiply in the loop over k"],
    ["rmsnorm", "      reduce %r", "      map %r = %r + 1\n      reduce %r", "has 'map' in the loop over k"],
    ["rmsnorm", "sum(%A * %A)", "sum(%A * %r)", "reads %r in the loop over k"],
    [
      "softmax",
      "    reduce %x = max(%S) along n\n",
      "    fill %x = 0\n    for n {\n      reduce %x += sum(%S) along n\n    }\n",
      "reads %S in the loop over n",
    ],
    ["softmax", "store %D = %S", "store %D = %D", "reads %D, which it stores"],
    [
      "softmax",
      "  param %D",
      "  param %C f32[k, n]\n  param %D",
      "has parameter %C, which is not multiplied and has other axes than the tiles",
    ],
    [
      "softmax",
      "tile %x f32[m]",
      "tile %x f32[m]\n  tile %y f32[n]",
      "tiles, sums and what is stored differ in axes",
    ],
    [
      "online-softmax",
      "  param %O",
      "  param %C f32[s, q]\n  param %O",
      "has parameter %C, which is not multiplied and has other axes than the tiles",
    ],
    ["two-products", "axis j = 64 whole", "axis j = 64", "has j in parts, along which a product follows"],
    ["grouped-heads", "O bf16[b, q, h, g, e]", "O bf16[b, q, h, e]", "stores %O, which lacks g"],
    [
      "online-softmax",
      "axis s = 150",
      "axis s = 150 whole",
      "has a loop over parts of s, of which work tiles have all or their own",
    ],
    [
      "online-softmax",
      "      mma %S +=",
      "      fill %x = 0\n      mma %S +=",
      "does more than multiply in the loop over d",
    ],
    ["two-products", "map %Q = %P", "fill %Q = 1", "multiplies %Q, which is no result of a map"],
    [
      "two-products",
      "f16[m, k]\n  param %B f16[k, j]",
      "bf16[m, k]\n  param %B bf16[k, j]",
      "multiplies f16 behind bf16",
    ],
  ])("%s with %j as %j is not scheduled: %s", (name, from, to, message) => {
    const anchor = anchorOf(parse(example(name).replace(from, to)));
    expect(anchor.ok ? [] : anchor.error).toMatchObject([{ code: "TW3170", message }]);
  });

  test("rows of a softmax add up to 1, within their bounds", () => {
    const program = parse(example("softmax").replace("axis m = 200", "axis m = 3"));
    const values = (count: number): Float64Array =>
      Float64Array.from({ length: count }, (_, i) => ((i * 7) % 11) / 8);
    const made = measureProgram(
      program,
      new Map([
        ["A", values(3 * 80)],
        ["B", values(80 * 96)],
      ]),
    ).get("D");
    for (let row = 0; row < 3; row++) {
      const sum = made?.values.slice(row * 96, (row + 1) * 96).reduce((total, x) => total + x, 0);
      expect(sum).toBeCloseTo(1, 12);
    }
    expect(Math.max(...(made?.bounds ?? []))).toBeLessThan(1e-3);
    expect(Math.min(...(made?.bounds ?? []))).toBeGreaterThan(0);
  });
});
