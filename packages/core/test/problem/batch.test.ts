import { describe, expect, test } from "vitest";
import { batchAxes, batchOffset, operandElements } from "../../src/problem/batch.ts";
import { readProblemRequest } from "../../src/problem/request.ts";
import { parseProblem, printProblem } from "../../src/problem/text.ts";

/** Heads of attention: two of three axes in one line of A and D, B shared along the last. */
const heads = {
  m: 72,
  n: 48,
  k: 40,
  dtype: "f16",
  a: { ld: 160 },
  b: { layout: "col" },
  d: { dtype: "f16", ld: 192 },
  batch: {
    kind: "strided",
    count: 8,
    axes: {
      extents: [2, 2, 2],
      a: [11520, 80, 40],
      b: [3840, 1920, 0],
      d: [13824, 96, 48],
      steps: [] as number[][],
    },
  },
};

const read = (request: object) => {
  const made = readProblemRequest(request);
  if (!made.ok) throw new Error(JSON.stringify(made.error));
  return made.value;
};
const faults = (batch: object): readonly string[] => {
  const made = readProblemRequest({ ...heads, batch: { ...heads.batch, ...batch } });
  return made.ok ? [] : made.error.map(({ at, message }) => `${at}: ${message}`);
};

describe("a batch over several axes", () => {
  test("matrices begin where the strides say, and neighbouring axes of one stride are one", () => {
    const problem = read(heads);
    const starts = (which: "a" | "b") =>
      Array.from({ length: 8 }, (_, i) => batchOffset(batchAxes(problem, which), i));
    expect(starts("a")).toEqual([0, 40, 80, 120, 11520, 11560, 11600, 11640]);
    expect(starts("b")).toEqual([0, 0, 1920, 1920, 3840, 3840, 5760, 5760]);
    expect(batchAxes(problem, "a")).toEqual([
      { extent: 2, below: 4, stride: 11520 },
      { extent: 4, below: 1, stride: 40 },
    ]);
    expect(batchAxes(problem, "b")).toEqual([{ extent: 4, below: 2, stride: 1920 }]);
    expect(operandElements(problem, "a")).toBe(2 * 11520);
    expect(problem.batch).toMatchObject({ strideA: 40, strideB: 1920, strideD: 48 });
  });

  test("prints and parses back", () => {
    const problem = read({ ...heads, epilogue: "bias(n,f32)|relu" });
    const batch = { ...heads.batch, axes: { ...heads.batch.axes, steps: [[48, 0, 48], []] } };
    const biased = read({ ...heads, batch, epilogue: "bias(n,f32)|relu" });
    for (const each of [problem, biased]) {
      const parsed = parseProblem(printProblem(each));
      expect(parsed.ok && printProblem(parsed.value)).toBe(printProblem(each));
    }
    expect(printProblem(problem)).toContain(
      " batch=strided:8:40:1920:0:48:2x2x2/11520x80x40/3840x1920x0/13824x96x48 ",
    );
  });

  test("every fault is said", () => {
    const { axes } = heads.batch;
    expect(faults({ count: 6, strideA: 41, axes: { ...axes, b: [1920] } })).toEqual([
      "batch.count: 6 problems along axes of 8",
      "batch.axes.b: 1 strides along 3 axes",
      "batch.strideA: 41 where the axes say 40",
    ]);
    expect(faults({ axes: { ...axes, d: [13824, 96, 0] } })).toEqual(["batch.axes.d: the outputs overlap"]);
    expect(faults({ axes: { ...axes, d: [13824, 96, 24] } })).toEqual(["batch.axes.d: the outputs overlap"]);
  });
});
