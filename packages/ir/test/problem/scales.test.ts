/** Scale factors: where they lie, what the reference makes of them, and the tiles that kernels see. */

import {
  blockFactors,
  createRandom,
  decodeScaled,
  defineProblem,
  encodeArray,
  encodeScaled,
  formatDiagnostic,
  type Problem,
  packScales,
  parseProblem,
  printProblem,
  randomScales,
  randomStorage,
  referenceGemm,
  type ScaledDType,
  type ScaleMatrix,
  scaledTypes,
  scaleMatrix,
  scaleOffset,
} from "@tilewright/core";
import { describe, expect, test } from "vitest";
import { gemmNest, interpret, parseProgram, printProgram, verifyProgram } from "../../src/index.ts";

function problemOf(request: object): Problem {
  const made = defineProblem({ m: 130, n: 70, k: 160, dtype: "mxf8", b: { layout: "col" }, ...request });
  if (!made.ok) throw new Error(made.error.map(formatDiagnostic).join("\n"));
  return made.value;
}

function matrixOf(problem: Problem, which: "a" | "b"): ScaleMatrix {
  const matrix = scaleMatrix(problem, which);
  if (matrix === null) throw new Error("has no factors");
  return matrix;
}

describe("memory order", () => {
  test("blocks of 128 rows by 4, rows 16 bytes apart and every 32nd beside the first", () => {
    const matrix = matrixOf(problemOf({}), "a");
    expect(matrix).toMatchObject({
      block: 32,
      rows: 130,
      factors: 5,
      blocks: [2, 2],
      bytes: 2048,
      stride: 0,
    });
    expect(
      [
        [0, 0],
        [0, 3],
        [1, 0],
        [32, 0],
        [127, 3],
        [0, 4],
        [128, 0],
      ].map(([row = 0, factor = 0]) => scaleOffset(matrix, row, factor)),
    ).toEqual([0, 3, 16, 4, 511, 512, 1024]);
  });

  test("each factor has a byte of its own", () => {
    const matrix = matrixOf(problemOf({ dtype: "nvf4", k: 144 }), "b");
    const seen = new Set<number>();
    for (let row = 0; row < matrix.rows; row++)
      for (let factor = 0; factor < matrix.factors; factor++) seen.add(scaleOffset(matrix, row, factor));
    expect(seen.size).toBe(70 * 9);
    expect(Math.max(...seen)).toBeLessThan(matrix.bytes);
  });

  test("problems of a batch follow each other, unless they share the operand", () => {
    const batch = { kind: "strided", count: 3, strideB: 0 };
    const problem = problemOf({ batch });
    expect(matrixOf(problem, "a")).toMatchObject({ stride: 2048, allBytes: 3 * 2048 });
    expect(matrixOf(problem, "b")).toMatchObject({ stride: 0, allBytes: 1024 });
  });

  test("what has no row is NaN, what stands behind the last factor 0", () => {
    const matrix = matrixOf(problemOf({}), "a");
    const codes = randomScales(problemOf({}), "a", { kind: "normal" }, 1) ?? new Uint8Array();
    expect(codes[scaleOffset(matrix, 130, 0)]).toBe(0xff);
    expect(codes[scaleOffset(matrix, 129, 5)]).toBe(0);
    expect(codes.length).toBe(2048);
  });
});

describe.each(["mxf8", "mxf8e5m2", "mxf6e2m3", "mxf6e3m2", "mxf4", "nvf4"] as const)(
  "%s",
  (dtype: ScaledDType) => {
    const problem = problemOf({ dtype, m: 3, n: 2, k: 64, d: { dtype: "f32" } });

    test("the reference multiplies elements by factors, as rows that were quantised decode", () => {
      const random = createRandom(5);
      const quantise = (rows: number, which: "a" | "b") => {
        const parts = Array.from({ length: rows }, () =>
          encodeScaled(
            dtype,
            Float64Array.from({ length: 64 }, () => random.normal()),
          ),
        );
        const data = Uint8Array.from(parts.flatMap((part) => [...(part.data as Uint8Array)]));
        const scales = packScales(
          matrixOf(problem, which),
          parts.flatMap((part) => [...part.scales]),
        );
        return { data, scales, values: parts.map((part) => decodeScaled(dtype, part, 64)) };
      };
      const [a, b] = [quantise(3, "a"), quantise(2, "b")];
      const { d } = referenceGemm(problem, { a: a.data, b: b.data, sfa: a.scales, sfb: b.scales });
      for (let i = 0; i < 3; i++)
        for (let j = 0; j < 2; j++) {
          let exact = 0;
          for (let p = 0; p < 64; p++) exact += (a.values[i]?.[p] ?? 0) * (b.values[j]?.[p] ?? 0);
          expect(d.values[i * 2 + j]).toBeCloseTo(exact, 9);
        }
      expect(() => referenceGemm(problem, { a: a.data, b: b.data })).toThrow("the scale factors of A");
    });

    test("a nest multiplies by them, and reads back", () => {
      const ragged = problemOf({ dtype, m: 130, n: 6, k: 4 * scaledTypes[dtype].block + 32 });
      const each = 4 * scaledTypes[dtype].block;
      const program = gemmNest({
        name: "k",
        arch: "sm_100a",
        problem: ragged,
        nest: {
          m: [
            { tier: "grid", extent: 2, stride: 1 },
            { tier: "atom", extent: 128, stride: 1 },
          ],
          n: [{ tier: "atom", extent: 128, stride: 1 }],
          k: [
            { tier: "block", extent: 2, stride: 1 },
            { tier: "atom", extent: each, stride: 1 },
          ],
        },
        threads: 32,
        cluster: [1, 1],
        atom: "fma",
        directives: [],
      });
      expect(verifyProgram(program, null)).toEqual([]);
      expect(parseProgram(printProgram(program))).toEqual({ ok: true, value: program });
      const distribution = { kind: "integers" } as const;
      const [a, b] = [
        randomStorage(dtype, 130 * ragged.k, distribution, 1),
        randomStorage(dtype, 6 * ragged.k, distribution, 2),
      ];
      const [sfa, sfb] = (["a", "b"] as const).map((which, i) =>
        randomScales(ragged, which, distribution, 3 + i),
      );
      const words = (codes: Uint8Array | null | undefined) =>
        new Int32Array((codes ?? new Uint8Array()).slice().buffer);
      const element = (codes: typeof a, count: number) => decodeElements(dtype, codes, count);
      const run = interpret(program, {
        a: element(a, 130 * ragged.k),
        b: element(b, 6 * ragged.k),
        sfa: words(sfa),
        sfb: words(sfb),
      });
      if (!run.ok) throw new Error(run.error.map(formatDiagnostic).join("\n"));
      const { d } = referenceGemm(ragged, { a, b, sfa: sfa ?? null, sfb: sfb ?? null });
      d.values.forEach((value, i) => {
        expect(Math.abs((run.value.d[i] ?? 0) - value)).toBeLessThanOrEqual(d.bounds[i] ?? 0);
      });
    });
  },
);

/** The elements of a block-scaled storage without their factors. */
function decodeElements(dtype: ScaledDType, storage: ReturnType<typeof randomStorage>, count: number) {
  const ones = new Uint8Array(Math.ceil(count / scaledTypes[dtype].block)).fill(
    scaledTypes[dtype].scale === "ue8m0" ? 127 : 0x38,
  );
  return decodeScaled(dtype, { data: storage, scales: ones }, count);
}

describe("factors in f32 of 128 along K", () => {
  const scaled = (request: object = {}): Problem =>
    problemOf({
      dtype: "e4m3",
      m: 130,
      n: 70,
      k: 300,
      d: { dtype: "f32" },
      blockScales: { a: "1x128", b: "128x128" },
      ...request,
    });

  test("rows are contiguous; squares have K contiguous, padded to four", () => {
    expect(blockFactors(scaled(), "a")).toMatchObject({
      rows: 130,
      factors: 3,
      strides: [1, 130],
      bytes: 1560,
    });
    expect(blockFactors(scaled(), "b")).toMatchObject({ rows: 1, factors: 3, strides: [4, 1], bytes: 16 });
    const batch = { kind: "strided", count: 3, strideB: 0 };
    expect(blockFactors(scaled({ batch }), "a")).toMatchObject({ stride: 390, allBytes: 3 * 1560 });
    expect(blockFactors(scaled({ batch }), "b")).toMatchObject({ stride: 0, allBytes: 16 });
    expect(blockFactors(problemOf({}), "a")).toBe(null);
  });

  test("the reference multiplies every element by the factor of its row and run, or of its square", () => {
    const problem = scaled({ m: 2, n: 130, k: 130 });
    const a = encodeArray("e4m3", new Float64Array(2 * 130).fill(1));
    const b = encodeArray("e4m3", new Float64Array(130 * 130).fill(1));
    const bytes = (values: readonly number[]) => new Uint8Array(Float32Array.from(values).buffer);
    // Rows 0 and 1 of A: 2 and 3, then 5 and 7 for the last two of K. Columns under 128 of B: 11, then 13; above: 17, then 19.
    const sfa = bytes([2, 3, 5, 7]);
    const sfb = bytes([11, 13, Number.NaN, Number.NaN, 17, 19, Number.NaN, Number.NaN]);
    const { d } = referenceGemm(problem, { a, b, sfa, sfb });
    const at = (row: number, column: number) => d.values[row * 130 + column];
    expect([at(0, 0), at(0, 127), at(1, 0), at(0, 128), at(1, 129)]).toEqual([
      128 * 2 * 11 + 2 * 5 * 13,
      128 * 2 * 11 + 2 * 5 * 13,
      128 * 3 * 11 + 2 * 7 * 13,
      128 * 2 * 17 + 2 * 5 * 19,
      128 * 3 * 17 + 2 * 7 * 19,
    ]);
  });

  test("sums that are promoted have a tighter bound", () => {
    const request = { m: 1, n: 1, k: 4096, blockScales: undefined };
    const ones = encodeArray("e4m3", new Float64Array(4096).fill(1));
    const bound = (more: object) =>
      referenceGemm(scaled({ ...request, ...more }), { a: ones, b: ones }).d.bounds[0] ?? 0;
    expect(bound({ precision: "promoted" })).toBeLessThan(bound({}) / 8);
  });

  test("belong to byte floats into f32 at fixed sizes", () => {
    const faults = (request: object) => {
      const made = defineProblem({ m: 8, n: 8, k: 8, blockScales: { a: "1x128", b: "1x128" }, ...request });
      return made.ok ? [] : made.error.map(({ code, at }) => `${code} ${at}`);
    };
    expect(faults({ dtype: "e5m2", b: { dtype: "e4m3" } })).toEqual([]);
    expect(faults({ dtype: "f16" })).toEqual(["TW1017 blockScales"]);
    expect(faults({ dtype: "e4m3", acc: "f16" })).toEqual(["TW1017 blockScales"]);
    expect(faults({ dtype: "e4m3", symbolic: { m: {} } })).toEqual(["TW1017 blockScales"]);
    expect(faults({ dtype: "f16", blockScales: undefined, precision: "promoted" })).toEqual([
      "TW1014 precision",
    ]);
  });

  test("the text of a problem has them", () => {
    const text = printProblem(scaled());
    expect(text).toContain(" blockScales=1x128,128x128 ");
    expect(parseProblem(text)).toEqual({ ok: true, value: scaled() });
  });
});
