/** Weights in few bits: what packWeights makes is what the reference reads, and requests that contradict themselves are refused. */
import { expect, test } from "vitest";
import { createRandom, defineProblem, packWeights, referenceGemm, roundTo } from "../../src/index.ts";

const [n, k, group] = [32, 128, 32];
const groups = k / group;

test.each(["bf16", "f16"] as const)(
  "codes, scales and zero points in %s come back out of memory",
  (dtype) => {
    const random = createRandom(3);
    const codes = Uint8Array.from({ length: n * k }, () => random.integer(0, 15));
    const scales = Float64Array.from({ length: n * groups }, () => roundTo(dtype, 0.1 + random.uniform()));
    const zeros = Uint8Array.from({ length: n * groups }, () => random.integer(0, 15));
    const { b, sfb } = packWeights({ n, k, group, codes, scales, zeros, dtype });
    const problem = defineProblem({
      m: k,
      n,
      k,
      dtype,
      weights: { group, zeros: true },
      d: { dtype: "f32" },
    });
    if (!problem.ok) throw new Error(JSON.stringify(problem.error));
    // The product with the unit matrix is W^T.
    const one = Float64Array.from({ length: k * k }, (_, i) => (i % (k + 1) === 0 ? 1 : 0));
    const a = Uint16Array.from(one, (x) => (x === 0 ? 0 : dtype === "bf16" ? 0x3f80 : 0x3c00));
    const { d } = referenceGemm(problem.value, { a, b, sfb });
    const expected = Float64Array.from({ length: k * n }, (_, i) => {
      const [row, column] = [Math.floor(i / n), i % n];
      const factor = column * groups + Math.floor(row / group);
      const code = (codes[column * k + row] ?? 0) - (zeros[factor] ?? 0);
      return roundTo(dtype, code * (scales[factor] ?? 0));
    });
    expect(d.values).toEqual(expected);
  },
);

test("codes of e2m1 with a scale come back out of memory", () => {
  // OCP Microscaling Formats, table of e2m1.
  const values = [0, 0.5, 1, 1.5, 2, 3, 4, 6];
  const codes = Uint8Array.from({ length: n * k }, (_, i) => (i * 7) % 16);
  const scales = Float64Array.from({ length: n * (k / 16) }, (_, i) => 2 ** ((i % 9) - 4));
  const { b, sfb } = packWeights({ n, k, group: 16, codes, scales, dtype: "bf16" });
  const weights = { dtype: "e2m1", group: 16 } as const;
  const problem = defineProblem({ m: k, n, k, weights, d: { dtype: "f32" } });
  if (!problem.ok) throw new Error(JSON.stringify(problem.error));
  const a = Uint16Array.from({ length: k * k }, (_, i) => (i % (k + 1) === 0 ? 0x3f80 : 0));
  const { d } = referenceGemm(problem.value, { a, b, sfb });
  const expected = Float64Array.from({ length: k * n }, (_, i) => {
    const [row, column] = [Math.floor(i / n), i % n];
    const code = codes[column * k + row] ?? 0;
    const scale = scales[column * (k / 16) + Math.floor(row / 16)] ?? 0;
    // Sums with zeros have no negative zero.
    return (code > 7 ? -1 : 1) * (values[code % 8] ?? 0) * scale + 0;
  });
  expect(d.values).toEqual(expected);
});

test("the first word has what lane 0 holds of 16 x 16 weights", () => {
  const codes = new Uint8Array(16 * 64);
  const place = (column: number, along: number, code: number): void => {
    codes[column * 64 + along] = code;
  };
  [
    [0, 0, 1],
    [8, 0, 2],
    [0, 8, 3],
    [8, 8, 4],
    [0, 1, 5],
    [8, 1, 6],
    [0, 9, 7],
    [8, 9, 8],
  ].forEach(([column = 0, along = 0, code = 0]) => {
    place(column, along, code);
  });
  const { b } = packWeights({ n: 16, k: 64, group: 64, codes, scales: new Float32Array(16), dtype: "bf16" });
  expect(new Uint32Array(b.buffer)[0]).toBe(0x87654321);
});

test("packWeights refuses what is no weights", () => {
  const usual = { n: 16, k: 64, group: 64, dtype: "bf16" } as const;
  const codes = new Uint8Array(16 * 64);
  const scales = new Float32Array(16);
  expect(() => packWeights({ ...usual, n: 24, codes, scales })).toThrow("whole blocks");
  expect(() => packWeights({ ...usual, codes: codes.slice(1), scales })).toThrow("1023 codes");
  expect(() => packWeights({ ...usual, codes: codes.map(() => 16), scales })).toThrow("16 among the codes");
  expect(() => packWeights({ ...usual, codes, scales, zeros: scales.map(() => 0.5) })).toThrow("0.5 among");
});

const refused = (request: Parameters<typeof defineProblem>[0]): readonly string[] => {
  const made = defineProblem(request);
  return made.ok ? [] : made.error.map(({ code, at }) => `${code} ${at}`);
};

test("requests that contradict themselves are refused by name", () => {
  const usual = { m: 4, n: 32, k: 128 };
  expect(refused({ ...usual, weights: {} })).toEqual([]);
  expect(refused({ ...usual, k: 192, weights: { group: 128 } })).toEqual(["TW1021 weights.group"]);
  expect(refused({ ...usual, weights: { group: 48 } })).toEqual(["TW1021 weights.group"]);
  expect(refused({ ...usual, n: 24, k: 96, weights: { group: 32 } })).toEqual(["TW1021 weights"]);
  expect(refused({ ...usual, dtype: "f32", weights: {} })).toContain("TW1021 a.dtype");
  expect(refused({ ...usual, weights: {}, b: { layout: "row" } })).toEqual(["TW1021 b"]);
  expect(refused({ ...usual, weights: {}, b: { dtype: "s8" } })).toContain("TW1021 b.dtype");
  expect(refused({ ...usual, weights: {}, b: { align: 8 } })).toEqual(["TW1021 b.align"]);
  expect(refused({ ...usual, weights: {}, batch: { kind: "strided", count: 2 } })).toEqual(["TW1021 batch"]);
  expect(refused({ ...usual, weights: {}, op: "ffn" })).toContain("TW1021 gated");
  expect(refused({ ...usual, weights: {}, symbolic: { m: {} } })).toEqual([]);
  expect(refused({ ...usual, weights: { dtype: "e2m1", zeros: true } })).toEqual(["TW1021 weights.zeros"]);
  expect(refused({ ...usual, dtype: "bf16", b: { dtype: "e2m1" } })).toEqual(["TW1006 b.dtype"]);
  expect(refused({ ...usual, weights: {}, symbolic: { k: {} } })).toContain("TW1021 symbolic.k");
  expect(refused({ ...usual, dtype: "bf16", b: { dtype: "s4" } })).toEqual(["TW1021 b.dtype"]);
});
