import { expect, test } from "vitest";
import {
  checkProblem,
  checkRunOffsets,
  defineProblem,
  outerRuns,
  type Problem,
  parseProblem,
  printProblem,
  runAt,
  runOffsets,
  runsOf,
} from "../../src/index.ts";

const runs = { outer: true, most: 5, total: 12 };

/** Three problems whose rows of A and D are runs of 12. */
const problem = (): Problem => {
  const made = defineProblem({
    ...{ m: 12, n: 8, k: 16 },
    batch: { kind: "strided", count: 3, axes: { extents: [3], a: [0], b: [0], d: [0], steps: [[1]] } },
    epilogue: [
      {
        kind: "factor",
        rows: 1,
        columns: 2,
        operand: { dtype: "s32", layout: "row", ld: 2 },
        runs,
        name: "offsets",
      },
    ],
  });
  if (!made.ok) throw new Error(JSON.stringify(made.error));
  return made.value;
};

test("a run is inside of the matrix, and no longer than the longest, whatever offsets say", () => {
  const at = (from: number, to: number) => Object.values(runAt(runs, [from, to]));
  expect(at(3, 7)).toEqual([3, 4]);
  expect(at(3, 11)).toEqual([3, 5]);
  expect(at(9, 99)).toEqual([9, 3]);
  expect(at(7, 3)).toEqual([7, 0]);
  expect(at(-4, 2)).toEqual([0, 2]);
  expect(at(40, 50)).toEqual([12, 0]);
});

test("offsets that are made have all rows, in runs as long as there may be", () => {
  expect([...runOffsets(runs, 3)]).toEqual([0, 4, 8, 12]);
  for (let seed = 0; seed < 20; seed++) {
    const offsets = runOffsets(runs, 3, seed);
    expect(checkRunOffsets(runs, offsets, "o")).toEqual([]);
    expect(offsets.at(-1)).toBe(12);
  }
  // More rows than runs can have stay without one.
  expect(runOffsets({ ...runs, total: 40 }, 3).at(-1)).toBe(15);
});

test("every offset that cannot be is told", () => {
  expect(checkRunOffsets(runs, [0, 4, 3, 13, 2.5], "o").map(({ code, at }) => [code, at])).toEqual([
    ["TW1020", "o[2]"],
    ["TW1020", "o[3]"],
    ["TW1020", "o[4]"],
  ]);
  expect(checkRunOffsets(runs, [0, 6], "o")[0]?.message).toBe("a run of 6 rows, where the longest has 5");
});

test("a problem has its runs in its text, and its outputs lie in one matrix", () => {
  const own = problem();
  expect(checkProblem(own)).toEqual([]);
  expect(printProblem(own)).toContain("factor(1,2,s32:row:2:16,outer:5:12)");
  const read = parseProblem(printProblem(own));
  expect(read.ok && printProblem(read.value)).toBe(printProblem(own));
  expect(runsOf(own)).toEqual([{ ...runs, step: 0, first: "first0", count: "count0" }]);
  expect(outerRuns({ epilogue: [] })).toBeNull();
});
