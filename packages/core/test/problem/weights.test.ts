/** Weights in few bits: what packWeights makes is what the reference reads, and requests that contradict themselves are refused. */
import { expect, test } from "vitest";
import {
  createRandom,
  defineProblem,
  type ProblemRequest,
  packWeights,
  referenceGemm,
  roundTo,
} from "../../src/index.ts";

type WeightsRequest = NonNullable<ProblemRequest["weights"]>;

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

/** The weights, row after row of W: a product of the unit matrix with them is W^T. */
function unpacked(
  weights: WeightsRequest,
  made: { readonly b: Uint8Array; readonly sfb: Uint8Array },
): number[] {
  const problem = defineProblem({ m: k, n, k, weights, d: { dtype: "f32" } });
  if (!problem.ok) throw new Error(JSON.stringify(problem.error));
  const a = Uint16Array.from({ length: k * k }, (_, i) => (i % (k + 1) === 0 ? 0x3f80 : 0));
  const { values } = referenceGemm(problem.value, { a, ...made }).d;
  return Array.from({ length: n * k }, (_, i) => values[(i % k) * n + Math.floor(i / k)] ?? Number.NaN);
}

test.each([true, false])("codes of s8 with scales and zero points (%s) come back out of memory", (points) => {
  const codes = Int8Array.from({ length: n * k }, (_, i) => (i * 7) % 256);
  const scales = Float64Array.from({ length: n * groups }, (_, i) => 2 ** ((i % 5) - 2));
  const zeros = Int8Array.from({ length: n * groups }, (_, i) => i * 37);
  const usual = { n, k, group, weights: "s8", codes, scales, dtype: "bf16" } as const;
  const made = packWeights(points ? { ...usual, zeros } : usual);
  expect([made.b.length, made.sfb.length]).toEqual([n * k, 2 * n * groups * (points ? 2 : 1)]);
  const expected = Array.from(codes, (code, i) => {
    const factor = Math.floor(i / group);
    return (code - (points ? (zeros[factor] ?? 0) : 0)) * (scales[factor] ?? 0);
  });
  expect(unpacked({ dtype: "s8", group, zeros: points }, made)).toEqual(expected.map((x) => x + 0));
});

test("codes of e4m3 with a scale come back out of memory", () => {
  const codes = Uint8Array.from({ length: n * k }, (_, i) => (i % 128 === 127 ? 0 : i % 256));
  const scales = Float64Array.from({ length: n * groups }, (_, i) => 2 ** ((i % 5) - 2));
  const made = packWeights({ n, k, group, weights: "e4m3", codes, scales, dtype: "bf16" });
  const expected = Array.from(codes, (code, i) => {
    // OCP 8-bit Floating Point: 4 bits of exponent from -6 on, 3 of mantissa; without infinities.
    const [exponent, mantissa] = [(code >> 3) & 15, code & 7];
    const size = exponent === 0 ? mantissa * 2 ** -9 : (8 + mantissa) * 2 ** (exponent - 10);
    return (code > 127 ? -1 : 1) * size * (scales[Math.floor(i / group)] ?? 0) + 0;
  });
  expect(unpacked({ dtype: "e4m3", group }, made)).toEqual(expected);
});

test("the first words have what lane 0 holds of 16 x 16 weights of 8 bits", () => {
  const codes = new Int8Array(16 * 64);
  [0, 8 * 64, 1, 8 * 64 + 1, 8, 8 * 64 + 8, 9, 8 * 64 + 9].forEach((at, i) => {
    codes[at] = i + 1;
  });
  const scales = new Float32Array(16);
  const { b } = packWeights({ n: 16, k: 64, group: 64, weights: "s8", codes, scales, dtype: "bf16" });
  expect([...new Uint32Array(b.buffer, 0, 2)]).toEqual([0x04030201, 0x08070605]);
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
  expect(() => packWeights({ ...usual, weights: "s8", codes: codes.map(() => 128), scales })).toThrow("-128");
  expect(() => packWeights({ ...usual, codes, scales: scales.map(() => 2 ** 19) })).toThrow("524288 among");
  // Rounded to bf16 it is 2^19.
  expect(() => packWeights({ ...usual, codes, scales: scales.map(() => 524287) })).toThrow("524287 among");
  const floats = { ...usual, weights: "e4m3", scales } as const;
  expect(() => packWeights({ ...floats, codes, zeros: scales })).toThrow("e4m3 have no zero points");
  expect(() => packWeights({ ...floats, codes: codes.map((_, i) => (i === 70 ? 0xff : 0)) })).toThrow(
    "at 6 of row 1 is a NaN",
  );
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
  expect(refused({ ...usual, weights: {}, b: { dtype: "u8" } })).toContain("TW1021 b.dtype");
  expect(refused({ ...usual, weights: {}, b: { dtype: "s8" } })).toEqual([]);
  expect(refused({ ...usual, weights: { dtype: "s4" }, b: { dtype: "s8" } })).toEqual(["TW1021 b.dtype"]);
  expect(refused({ ...usual, weights: { dtype: "s8", zeros: true } })).toEqual([]);
  expect(refused({ ...usual, weights: { dtype: "e4m3", zeros: true } })).toEqual(["TW1021 weights.zeros"]);
  expect(refused({ ...usual, k: 96, weights: { dtype: "s8", group: 32 } })).toEqual(["TW1021 weights"]);
  expect(refused({ ...usual, weights: {}, b: { align: 8 } })).toEqual(["TW1021 b.align"]);
  const batch = { kind: "strided", count: 2 } as const;
  expect(refused({ ...usual, weights: {}, batch })).toEqual([]);
  expect(refused({ ...usual, weights: {}, batch: { ...batch, strideB: 0 } })).toEqual([]);
  expect(refused({ ...usual, weights: {}, batch: { ...batch, strideB: 8192 } })).toEqual([
    "TW1021 batch.strideB",
  ]);
  expect(refused({ ...usual, weights: {}, batch, symbolic: { m: {} } })).toEqual([]);
  expect(refused({ ...usual, weights: {}, batch, symbolic: { batch: {} } })).toEqual([
    "TW1021 symbolic.batch",
  ]);
  expect(refused({ ...usual, weights: {}, batch: { kind: "grouped", count: 2 } })).toContain("TW1021 batch");
  expect(refused({ ...usual, weights: {}, op: "ffn", gated: "matrices" })).toContain("TW1021 gated");
  expect(refused({ ...usual, weights: {}, op: "ffn" })).toEqual([]);
  expect(refused({ ...usual, weights: {}, symbolic: { m: {} } })).toEqual([]);
  expect(refused({ ...usual, weights: { dtype: "e2m1", zeros: true } })).toEqual(["TW1021 weights.zeros"]);
  expect(refused({ ...usual, dtype: "bf16", b: { dtype: "e2m1" } })).toEqual(["TW1006 b.dtype"]);
  expect(refused({ ...usual, weights: {}, symbolic: { k: {} } })).toContain("TW1021 symbolic.k");
  expect(refused({ ...usual, dtype: "bf16", b: { dtype: "s4" } })).toEqual(["TW1021 b.dtype"]);
});
