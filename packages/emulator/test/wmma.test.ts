/** wmma as nvcc writes it: every shape, against sums in JavaScript. The numbers are small integers, so that every sum is exact. */
import { decode, encode } from "@tilewright/core";
import { describe, expect, test } from "vitest";
import { clean, fixture, generator, machine, orders } from "./support.ts";

const device = machine(fixture("cuda/fragments.ptx"));
const next = generator(7);
const small = (n: number, from = -4, to = 4): number[] =>
  Array.from({ length: n }, () => from + Math.floor(next() * (to - from + 1)));
const halves = (values: readonly number[]): Uint16Array =>
  Uint16Array.from(values, (x) => Number(encode("f16", x)));
const fromHalves = (words: Uint16Array): number[] => Array.from(words, (x) => decode("f16", x));

/** Rows of A[m][k] times rows of B[n][k]. */
const product = (m: number, n: number, k: number, a: readonly number[], b: readonly number[]): number[] =>
  Array.from({ length: m * n }, (_, at) => {
    const [i, j] = [Math.floor(at / n), at % n];
    let sum = 0;
    for (let q = 0; q < k; q++) sum += (a[i * k + q] ?? 0) * (b[j * k + q] ?? 0);
    return sum;
  });
const transposed = (rows: number, columns: number, from: readonly number[]): number[] =>
  Array.from({ length: rows * columns }, (_, at) => from[(at % rows) * columns + Math.floor(at / rows)] ?? 0);

describe.each(orders)("in order %s", (order) => {
  test("m16n16k16 of f16 with f32 sums, a loop over K, elements of the fragment scaled", () => {
    const [a, b] = [small(16 * 48), small(16 * 48)];
    const out = device.blank(1024);
    clean(
      device.launch("gemm", 1, 32, [device.put(halves(a)), device.put(halves(b)), out, 16, 48], { order }),
    );
    expect([...device.f32(out, 256)]).toEqual(product(16, 16, 48, a, b).map((x) => x / 2));
  });

  test("m32n8k16 of f16: columns of A in shared memory, rows of B, C by rows and D by columns", () => {
    const [a, b, c] = [small(32 * 16), small(8 * 16), small(32 * 8)];
    const out = device.put(halves(c));
    const [byColumns, byRows] = [transposed(16, 32, transposed(32, 16, a)), transposed(8, 16, b)];
    const columnsOfA = transposed(32, 16, byColumns);
    clean(
      device.launch("wide", 1, 32, [device.put(halves(columnsOfA)), device.put(halves(byRows)), out], {
        order,
      }),
    );
    const want = product(32, 8, 16, a, b).map((x, k) => x + (c[k] ?? 0));
    expect(fromHalves(device.u16(out, 256))).toEqual(transposed(32, 8, want));
  });
});

test("m8n32k16 of s8", () => {
  const [a, b] = [small(8 * 16, -128, 127), small(32 * 16, -128, 127)];
  const out = device.blank(1024);
  clean(device.launch("bytes", 1, 32, [device.put(Uint8Array.from(a)), device.put(Uint8Array.from(b)), out]));
  expect([...device.i32(out, 256)]).toEqual(product(8, 32, 16, a, b).map((x) => x + 1));
});

test("m16n16k8 of tf32", () => {
  const [a, b] = [small(128), small(128)];
  const out = device.blank(1024);
  clean(
    device.launch("tf", 1, 32, [device.put(Float32Array.from(a)), device.put(Float32Array.from(b)), out]),
  );
  expect([...device.f32(out, 256)]).toEqual(product(16, 16, 8, a, b));
});

test("m16n16k8 of tf32 adds four products at a time, as an H100 does", () => {
  // 2^24 - 2^24 in the first four leave nothing; with 2^-3 beside them its bit would be cut off.
  const a = Array.from({ length: 16 }, () => [4096, 4096, 0, 0, 0.125, 0, 0, 0]).flat();
  const columnsOfB = Array.from({ length: 16 }, () => [4096, -4096, 0, 0, 1, 0, 0, 0]).flat();
  const out = device.blank(1024);
  clean(
    device.launch("tf", 1, 32, [
      device.put(Float32Array.from(a)),
      device.put(Float32Array.from(columnsOfB)),
      out,
    ]),
  );
  expect([...device.f32(out, 256)]).toEqual(new Array(256).fill(0.125));
});

test("m8n8k4 of f64", () => {
  const [a, b] = [small(32), small(32)];
  const out = device.blank(512);
  clean(
    device.launch("dbl", 1, 32, [device.put(Float64Array.from(a)), device.put(Float64Array.from(b)), out]),
  );
  expect([...device.f64(out, 64)]).toEqual(product(8, 8, 4, a, b).map((x) => x + 0.5));
});

test("m8n8k32 of s4 and m8n8k128 of single bits", () => {
  const [a, b] = [small(256, -8, 7), small(256, -8, 7)];
  const packed = (values: readonly number[]): Uint8Array =>
    Uint8Array.from(
      { length: 128 },
      (_, k) => ((values[2 * k] ?? 0) & 15) | (((values[2 * k + 1] ?? 0) & 15) << 4),
    );
  const out = device.blank(256);
  clean(device.launch("nib", 1, 32, [device.put(packed(a)), device.put(packed(b)), out]));
  expect([...device.i32(out, 64)]).toEqual(product(8, 8, 32, a, b));

  const bits = (values: Uint8Array): number[] =>
    Array.from({ length: 1024 }, (_, k) => ((values[k >> 3] ?? 0) >> (k & 7)) & 1);
  const [x, y] = [packed(a), packed(b)];
  const counts = device.blank(256);
  clean(device.launch("bit", 1, 32, [device.put(x), device.put(y), counts]));
  const [xs, ys] = [bits(x), bits(y)];
  const differing = Array.from(
    { length: 64 },
    (_, at) =>
      xs.slice((at >> 3) * 128, ((at >> 3) + 1) * 128).filter((bit, k) => bit !== ys[(at & 7) * 128 + k])
        .length,
  );
  expect([...device.i32(counts, 64)]).toEqual(differing);
});

test("a fragment beyond the matrix's end is out of bounds", () => {
  const report = device.launch("tf", 1, 32, [
    device.put(new Float32Array(64)),
    device.put(new Float32Array(128)),
    device.blank(1024),
  ]);
  expect(report.findings.map(({ rule }) => rule)).toEqual(["H001"]);
});
