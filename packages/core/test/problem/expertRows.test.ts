/** Experts: text and request forms, where each one's operands lie, what numbers of rows cannot be. */
import { describe, expect, test } from "vitest";
import {
  addedRows,
  checkExpertRows,
  checkProblem,
  checkRowIndex,
  createRandom,
  defineProblem,
  expertRowsData,
  groupStart,
  groupStrides,
  operandShape,
  type ProblemRequest,
  parseProblem,
  printProblem,
  readProblem,
  referenceGemm,
} from "../../src/index.ts";

const problemOf = (request: ProblemRequest) => {
  const made = defineProblem(request);
  if (!made.ok) throw new TypeError(made.error.map(({ message }) => message).join());
  return made.value;
};
const base = { m: 40, n: 24, k: 16, dtype: "bf16", experts: 5, b: { ld: 30 } } as const;

test("is a grouped batch, of which m alone is left to the launch", () => {
  const problem = problemOf(base);
  expect(problem.batch).toEqual({ kind: "grouped", count: 5, rows: "offsets" });
  expect(problem.symbolic).toEqual({ m: { min: 1, max: 40, multiple: 1 } });
  expect(problem).toEqual(
    problemOf({ ...base, experts: undefined, batch: { kind: "grouped", count: 5, rows: "offsets" } }),
  );
  const counts = problemOf({ ...base, expertRows: "counts" });
  expect(printProblem(counts)).toContain("batch=grouped:5:counts");
  for (const each of [problem, counts]) {
    expect(parseProblem(printProblem(each))).toEqual({ ok: true, value: each });
    expect(readProblem(JSON.parse(JSON.stringify(each)))).toEqual({ ok: true, value: each });
  }
});

test.each([
  [
    "offsets",
    { a: [32, 0], b: [0, 960], d: [48, 0], 0: [0, 96], 1: [4, 0], 2: [0, 4], 3: [96, 0], 4: [0, 0] },
  ],
  [
    "counts",
    { a: [0, 1280], b: [0, 960], d: [0, 1920], 0: [0, 96], 1: [0, 160], 2: [0, 4], 3: [0, 3840], 4: [0, 0] },
  ],
] as const)(
  "bytes from expert to expert, by %s: of rows, of experts, of what they share",
  (expertRows, bytes) => {
    const problem = problemOf({
      ...base,
      expertRows,
      epilogue: [
        { kind: "bias", along: "n", dtype: "f32" },
        { kind: "scale", by: "m", dtype: "f32" },
        { kind: "scale", by: "tensor", dtype: "f32" },
        { kind: "residual", operand: { dtype: "f32" } },
        { kind: "scale", by: "scalar", dtype: "f32" },
      ],
    });
    const found = Object.keys(bytes).map((name) => {
      const { row, group } = groupStrides(
        problem,
        name.length === 1 && name > "9" ? (name as "a") : `epilogue${Number(name)}`,
      );
      return [name, [row, group]];
    });
    expect(Object.fromEntries(found)).toEqual(bytes);
  },
);

test.each([
  // Of 40 rows by 3 runs of 128, and of 24 columns or one square of them, padded to 4 runs.
  ["offsets", "128x128", [4, 0], [0, 16]],
  ["counts", "1x128", [0, 480], [0, 288]],
] as const)("bytes from expert to expert of factors, by %s, B by %s", (expertRows, b, sfa, sfb) => {
  const problem = problemOf({
    ...{ m: 40, n: 24, k: 300, dtype: "e4m3", experts: 5, expertRows },
    blockScales: { a: "1x128", b },
  });
  expect(
    (["sfa", "sfb"] as const).map((which) => groupStrides(problem, which)).map((s) => [s.row, s.group]),
  ).toEqual([sfa, sfb]);
});

describe("scales in bytes of a quantised D", () => {
  const quantized = (more: object) =>
    problemOf({
      ...{ ...base, m: 1000, n: 256, b: {}, d: { dtype: "mxf8" }, epilogue: "quantize(32,u8)" },
      ...more,
    });
  // A line of blocks of 128 rows has 256 / 32 factors for each.
  const line = 8 * 128;

  test.each([
    ["offsets begin at blocks of their own", {}, { row: line, group: 0, blocks: { rows: 128, slack: 127 } }],
    [
      "offsets of whole blocks follow each other",
      { symbolic: { m: { multiple: 128 } }, m: 1024 },
      { row: line, group: 0, blocks: { rows: 128, slack: 0 } },
    ],
    ["counts have as many as all rows", { expertRows: "counts" }, { row: 0, group: 8 * line }],
    [
      "sums over rows have a D each",
      { expertAxis: "k", a: { layout: "col" }, b: { layout: "row" } },
      { row: 0, group: 8 * line },
    ],
  ] as const)("%s", (_, more, strides) => {
    expect(groupStrides(quantized(more), "epilogue0")).toEqual(strides);
  });

  test("a D of 4 bits has rows of half as many bytes", () => {
    const problem = quantized({ d: { dtype: "nvf4" }, epilogue: "quantize(16,u8)" });
    expect(groupStrides(problem, "d")).toEqual({ row: 128, group: 0 });
  });

  test("no two experts have a block in common, and the last one ends with the buffer", () => {
    for (const slack of [0, 127]) {
      const strides = { row: 1, group: 0, blocks: { rows: 128, slack } };
      const random = createRandom(slack);
      for (let draw = 0; draw < 200; draw++) {
        const counts = Array.from({ length: 6 }, () => {
          const rows = random.integer(0, 3) === 0 ? random.integer(0, 2) : random.integer(0, 400);
          return slack === 0 ? 128 * rows : rows;
        });
        let first = 0;
        counts.forEach((count, g) => {
          const after = groupStart(strides, first, g) + Math.ceil(count / 128);
          first += count;
          expect(after).toBeLessThanOrEqual(groupStart(strides, first, g + 1));
          if (slack === 0) expect(after).toBe(first / 128);
        });
      }
    }
  });
});

describe("along k", () => {
  const sums = { ...base, b: undefined, a: { layout: "col" }, expertAxis: "k" } as const;

  test("is a grouped batch, of which k alone is left to the launch", () => {
    const problem = problemOf({ ...sums, symbolic: { k: { multiple: 8 } } });
    expect(problem.batch).toEqual({ kind: "grouped", count: 5, rows: "offsets", axis: "k" });
    expect(problem.symbolic).toEqual({ k: { min: 8, max: 16, multiple: 8 } });
    expect(printProblem(problem)).toContain("batch=grouped:5:offsets:k");
    expect(parseProblem(printProblem(problem))).toEqual({ ok: true, value: problem });
    expect(readProblem(JSON.parse(JSON.stringify(problem)))).toEqual({ ok: true, value: problem });
    expect(problemOf({ ...base, expertAxis: "m" })).toEqual(problemOf(base));
  });

  test.each([
    ["offsets", "col", "row", { a: [80, 0], b: [48, 0], d: [0, 1920], 0: [0, 80], 1: [0, 1920] }],
    ["offsets", "row", "col", { a: [2, 0], b: [2, 0], d: [0, 1920], 0: [0, 80], 1: [0, 1920] }],
    ["counts", "col", "row", { a: [0, 1280], b: [0, 768], d: [0, 1920], 0: [0, 80], 1: [0, 1920] }],
  ] as const)("bytes from row to row of A and B, and from D to D: %s, %s x %s", (expertRows, a, b, bytes) => {
    const problem = problemOf({
      ...sums,
      ...{ expertRows, a: { layout: a }, b: { layout: b } },
      epilogue: [
        { kind: "bias", along: "m", dtype: "bf16" },
        { kind: "residual", operand: { dtype: "bf16", layout: "col" } },
      ],
    });
    for (const [which, [row, group]] of Object.entries(bytes))
      expect([
        which,
        groupStrides(problem, /\d/.test(which) ? (`epilogue${Number(which)}` as const) : (which as "a")),
      ]).toEqual([which, { row, group }]);
  });

  test("rows are those of k, and what needs one k for all is refused at once", () => {
    const problem = problemOf({ ...sums, symbolic: { k: { multiple: 8 } } });
    expect(checkExpertRows(problem, [8, 3, 24, 16, 16]).map(({ message }) => message)).toEqual([
      "3 is no multiple of 8",
      "24 is no number of rows from 0 to 16",
      "16 is less than the offset before it, 24",
    ]);
    const made = defineProblem({
      ...{ ...sums, dtype: "e4m3", gather: 4, gated: "halves", epilogue: "silu(acc) * up" },
      ...{ symbolic: { m: {} }, blockScales: { a: "1x128", b: "1x128" } },
    });
    const faults = made.ok ? [] : made.error.filter(({ code }) => code === "TW1020").map(({ at }) => at);
    expect(faults).toEqual(["symbolic", "gated", "blockScales", "gather", "gather"]);
  });
});

test("a divisor of the rows of every expert", () => {
  const problem = problemOf({ ...base, symbolic: { m: { multiple: 8 } } });
  expect(problem.symbolic).toEqual({ m: { min: 8, max: 40, multiple: 8 } });
  expect(parseProblem(printProblem(problem))).toEqual({ ok: true, value: problem });
  expect(checkExpertRows(problem, [0, 8, 8, 12, 40]).map(({ at }) => at)).toEqual(["offsets[3]"]);
  for (const m of [{ max: 32 }, { min: 0 }, { multiple: 16 }])
    expect(defineProblem({ ...base, symbolic: { m } }).ok).toBe(false);
});

describe("scales in bytes of A and B", () => {
  const request = { ...base, m: 1000, n: 200, k: 384, b: { layout: "col" }, dtype: "mxf8" } as const;
  // 12 factors, three words of four, for each of 128 rows; and two such lines for 200 columns.
  const line = 12 * 128;

  test.each([
    ["offsets", {}, { row: line, group: 0, blocks: { rows: 128, slack: 127 } }],
    [
      "multiples of a block",
      { m: 1024, symbolic: { m: { multiple: 256 } } },
      { row: line, group: 0, blocks: { rows: 128, slack: 0 } },
    ],
    ["counts", { expertRows: "counts" }, { row: 0, group: 8 * line }],
  ] as const)(
    "%s: those of A lie as those of a D that is quantised, those of B by expert",
    (_, more, strides) => {
      const problem = problemOf({ ...request, ...more });
      expect(groupStrides(problem, "sfa")).toEqual(strides);
      expect(groupStrides(problem, "sfb")).toEqual({ row: 0, group: 2 * line });
      const made = problemOf({
        ...request,
        ...more,
        n: 384,
        d: { dtype: "mxf8" },
        epilogue: "quantize(32,u8)",
      });
      expect(groupStrides(made, "epilogue0")).toEqual(strides);
    },
  );

  test.each([
    ["gather", { gather: 64 }, ["gather"]],
    ["axis", { expertAxis: "k", a: { layout: "col" }, b: { layout: "row" } }, ["a.dtype"]],
  ] as const)("%s is refused", (_, more, places) => {
    const made = defineProblem({ ...request, ...more });
    expect(made.ok || made.error.map(({ code, at }) => [code, at])).toEqual(
      places.map((at) => ["TW1020", at]),
    );
  });
});

describe("what device memory says", () => {
  test("of counts", () => {
    expect([...expertRowsData("offsets", [3, 0, 4])]).toEqual([3, 3, 7]);
    expect([...expertRowsData("counts", [3, 0, 4])]).toEqual([3, 0, 4]);
  });

  test.each([
    ["offsets", [0, 0, 7, 40, 40], []],
    ["offsets", [9, 4, 41, -1], ["offsets", "offsets[1]", "offsets[2]", "offsets[3]"]],
    ["counts", [40, 0, 40, 1, 7], []],
    ["counts", [41, 0.5, 3, 3, 3, 3], ["counts", "counts[0]", "counts[1]"]],
  ] as const)("%s %j", (expertRows, given, places) => {
    const found = checkExpertRows(problemOf({ ...base, expertRows }), given);
    expect(found.map(({ at, code }) => [at, code])).toEqual(places.map((at) => [at, "TW1020"]));
  });
});

test("every reason why experts cannot be, at once", () => {
  const made = defineProblem({
    ...base,
    dtype: "e4m3",
    batch: { kind: "none" },
    a: { layout: "col" },
    d: { layout: "col" },
    blockScales: { a: "128x128", b: "128x128" },
    symbolic: { k: {} },
    epilogue: [
      { kind: "reduce", op: "amax", over: "n", dtype: "f32" },
      { kind: "output", operand: { dtype: "f32", layout: "col" } },
    ],
  });
  const found = made.ok ? [] : made.error.filter(({ code }) => code === "TW1020");
  expect(found.map(({ at }) => at)).toEqual([
    "experts",
    "symbolic",
    "a.layout",
    "d.layout",
    "epilogue[0]",
    "epilogue[1].operand.layout",
    "blockScales.a",
  ]);
  expect(checkProblem({ ...problemOf(base), symbolic: {} }).map(({ code }) => code)).toEqual(["TW1020"]);
  const none = defineProblem({ ...base, experts: undefined, expertRows: "counts" });
  expect(none.ok || none.error.map(({ at }) => at)).toEqual(["expertRows"]);
});

describe("rows that an index names", () => {
  const named = { ...base, gather: 7, scatter: 50 } as const;

  test("have a pointer each in the order of the experts' rows, and one A and D for all", () => {
    const problem = problemOf({ ...named, epilogue: "scale(m,f32)" });
    expect(printProblem(problem)).toContain("epilogue=scale(m,f32)|gather(7)|scatter(50)");
    expect(parseProblem(printProblem(problem))).toEqual({ ok: true, value: problem });
    expect([operandShape(problem, "a"), operandShape(problem, "d")]).toEqual([
      [7, 16],
      [50, 24],
    ]);
    for (const which of ["a", "d"] as const)
      expect(groupStrides(problem, which)).toEqual({ row: 0, group: 0 });
    expect(groupStrides(problem, "epilogue1")).toEqual({ row: 4, group: 0 });
    expect(
      groupStrides({ ...problem, batch: { kind: "grouped", count: 5, rows: "counts" } }, "epilogue2"),
    ).toEqual({
      row: 0,
      group: 160,
    });
  });

  test("the reference reads and places them so", () => {
    const problem = {
      ...problemOf({ ...named, m: 2, n: 1, k: 1, b: {}, dtype: "f32" }),
      batch: { kind: "none" },
    } as const;
    const [a, b] = [Float32Array.of(1, 2, 3, 4, 5, 6, 7), Float32Array.of(10)];
    const steps = [Int32Array.of(6, 1), Int32Array.of(30, 0)];
    const { d, places } = referenceGemm(problem, { a, b, steps });
    expect([[...d.values], places]).toEqual([
      [70, 20],
      [30, 0],
    ]);
  });

  test("are rows that there are, of D each once", () => {
    const problem = problemOf(named);
    const at = (which: "a" | "d", rows: readonly number[]) =>
      checkRowIndex(problem, which, rows).map(({ code, at }) => `${code} ${at}`);
    expect(at("a", [0, 6, 6, 7, -1, 0.5])).toEqual(
      ["gather[3]", "gather[4]", "gather[5]"].map((x) => `TW1020 ${x}`),
    );
    expect(at("d", [0, 49, 0, 50])).toEqual(["scatter[2]", "scatter[3]"].map((x) => `TW1020 ${x}`));
  });

  test.each([
    [{ ...named, experts: undefined }, ["gather", "scatter"]],
    [{ ...named, epilogue: "gather(3)|gather(4)" }, ["epilogue[1]"]],
    [{ ...base, experts: undefined, scatterAdd: 50 }, ["scatterAdd"]],
    [{ ...named, scatterAdd: 50 }, ["epilogue[2]"]],
    [{ ...base, dtype: "e4m3", d: { dtype: "e4m3" }, scatterAdd: 50 }, ["d.dtype"]],
    [
      { ...base, dtype: "e4m3", d: { dtype: "e4m3" }, epilogue: "quantize(8,f32)", scatterAdd: 50 },
      ["scatter", "d.dtype"],
    ],
    [{ ...named, dtype: "e4m3", d: { dtype: "e4m3" }, epilogue: "quantize(8,f32)" }, ["scatter"]],
  ])("%j is refused", (request, places) => {
    const made = defineProblem(request as ProblemRequest);
    expect(made.ok ? [] : made.error.map(({ at }) => at)).toEqual(places);
  });
});

describe("rows that are added", () => {
  const problem = problemOf({ ...base, experts: 2, n: 3, k: 2, d: { dtype: "bf16" }, scatterAdd: 4, b: {} });

  test("say so in texts, and may be named often", () => {
    expect(printProblem(problem)).toContain("epilogue=scatter(4,add)");
    expect(parseProblem(printProblem(problem))).toEqual({ ok: true, value: problem });
    expect(checkRowIndex(problem, "d", [0, 3, 0, 0])).toEqual([]);
    expect(checkRowIndex(problem, "d", [0, 4]).map(({ at }) => at)).toEqual(["scatter[1]"]);
  });

  test("are sums of what goes to a place, within a bound that holds in every order", () => {
    // Rows of 256 and of ones, in bf16, whose units from 256 on are 2.
    const referenceOf = (rows: readonly number[], places: readonly number[]) =>
      referenceGemm(
        { ...problem, batch: { kind: "none" }, symbolic: undefined, m: rows.length },
        {
          a: Float64Array.from(rows.flatMap((x) => [x, 0])),
          b: Float64Array.from([1, 1, 1, 0, 0, 0]),
          steps: [Int32Array.from(places)],
        },
      );
    const sums = addedRows(problem, [referenceOf([256, 1, 7], [2, 2, 0]), referenceOf([1, 1], [2, 2])]);
    expect(sums.map(({ d }) => Array.from(d.values.filter((_, i) => i % 3 === 0)))).toEqual([
      [259, 259, 7],
      [259, 259],
    ]);
    const [first] = sums;
    // One after the other to 256 they are lost, each; together before it one is.
    expect(first?.d.bounds[0]).toBeGreaterThanOrEqual(3);
    expect(first?.d.bounds[0]).toBeLessThan(8);
    // What meets only zero is exact.
    expect(first?.d.bounds[6]).toBeLessThan(0.1);
  });
});
