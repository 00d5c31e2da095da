import { expect, test } from "vitest";
import {
  checkPages,
  checkProblem,
  defineProblem,
  evenProblem,
  gpus,
  type Problem,
  parseProblem,
  printProblem,
  roofline,
  rowInPage,
  runData,
  runEnds,
  runsOf,
} from "../../src/index.ts";

const runs = { outer: false, most: 10, total: 24, pages: { size: 4, table: 2 } };
const table = (columns: number) =>
  ({
    kind: "factor",
    rows: 1,
    columns,
    operand: { dtype: "s32", layout: "row", ld: columns },
    name: "table",
  }) as const;

/** Three problems whose rows of a further factor lie in six pages of four. */
const made = (size = 4, columns = 3) =>
  defineProblem({
    ...{ m: 2, n: 8, k: 16, b: { layout: "col" } },
    batch: {
      ...{ kind: "strided", count: 3 },
      axes: { extents: [3], a: [32], b: [0], d: [16], steps: [[0], [1], [columns]] },
    },
    epilogue: [
      { kind: "factor", rows: 24, columns: 8, operand: { layout: "row", ld: 8 }, name: "v" },
      {
        ...{
          kind: "factor",
          rows: 1,
          columns: 1,
          operand: { dtype: "s32", layout: "row", ld: 1 },
          name: "n",
        },
        runs: { ...runs, pages: { ...runs.pages, size } },
      },
      table(columns),
    ],
  });
const problem = (): Problem => {
  const found = made();
  if (!found.ok) throw new Error(JSON.stringify(found.error));
  return found.value;
};

test("a problem with pages is text, and back", () => {
  const text = printProblem(problem());
  expect(text).toContain("inner:10:24:4:2");
  const { name: _, ...step } = problem().epilogue[1] as { readonly name?: string };
  const back = parseProblem(text);
  expect(back.ok && back.value.epilogue[1]).toEqual(step);
  expect(checkProblem(problem())).toEqual([]);
});

test("pages that are no powers of two, and a table that is too short, are refused together", () => {
  const found = made(5, 1);
  expect(found.ok ? [] : found.error.map(({ code, at }) => [code, at])).toEqual([
    ["TW1020", "epilogue[1].runs.pages.size"],
    ["TW1020", "epilogue[1].runs.pages.table"],
  ]);
});

test("a row lies in the page that the table has for it", () => {
  const numbers = [5, 0, 3];
  expect([0, 3, 4, 9].map((row) => rowInPage({ size: 4 }, row, (page) => numbers[page] ?? -1))).toEqual([
    20, 23, 0, 13,
  ]);
  expect(runEnds(runs, 1, (at) => [7, 9][at] ?? -1)).toEqual([0, 9]);
});

test("data: lengths up to the longest, each page taken once while there are any, none behind the last row", () => {
  for (const seed of [undefined, 1, 2, 3]) {
    const of = (step: number, elements: number) => [
      ...(runData(problem(), step, elements, () => seed) ?? []),
    ];
    const [lengths, pages] = [of(1, 3), of(2, 9)];
    expect(lengths[0]).toBe(10);
    expect(lengths.every((rows) => rows >= 0 && rows <= 10)).toBe(true);
    const used = pages.filter((_, at) => (at % 3) * 4 < (lengths[Math.floor(at / 3)] ?? 0));
    expect(new Set(used).size).toBe(Math.min(6, used.length));
    expect(used.every((page) => page >= 0 && page < 6)).toBe(true);
    // What is never read is no page.
    expect(pages.filter((page) => page >= 6)).toHaveLength(9 - used.length);
    const [told] = runsOf(problem());
    expect(told && checkPages(told, lengths, pages, String)).toEqual([]);
  }
  expect(runData(problem(), 0, 192)).toBeNull();
});

test("every length and page that there is not is found", () => {
  const [told] = runsOf(problem());
  if (told === undefined) throw new Error("has no runs");
  const found = checkPages(told, [11, 5, 0], [0, 0, 0, 6, -1, 99, 7, 7, 7], String);
  expect(found.map(({ code, at }) => `${code} ${at}`)).toEqual([
    "TW1020 lengths[0]",
    "TW1020 table[3]",
    "TW1020 table[4]",
  ]);
  expect(checkPages(told, [3, 3, 3], null, String)).toEqual([]);
});

test("bytes are those of the pool, which all problems share, and FLOP those of the longest", () => {
  const [gpu] = gpus;
  if (gpu === undefined) throw new Error("there are GPUs");
  const { bytes, flops } = roofline(problem(), gpu);
  const [a, b, d, pool, lengths, pages] = [3 * 2 * 16, 16 * 24, 3 * 2 * 8, 24 * 8, 3, 9];
  expect(bytes).toBe(4 * (a + b + d + pool + lengths + pages));
  expect(flops).toBe(2 * 2 * 10 * 16 * 3);
  expect(evenProblem(problem()).epilogue[0]).toMatchObject({ rows: 10 });
});
