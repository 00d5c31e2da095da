/**
 * Tensor copies beside a model that goes element by element: maps of every rank, type width and swizzle, boxes that hang over every
 * edge of their tensor, element strides. The model shares no code with the engine, which goes row by row.
 */
import {
  checkTensorMap,
  type TensorMapSpec,
  type TensorMapSwizzle,
  type TensorMapType,
} from "@tilewright/core";
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { orders } from "./support.ts";
import { type Case, pattern, Replay, windowBytes } from "./tma-replay.ts";

const widths = { u8: 1, u16: 2, f16: 2, u32: 4, u64: 8 } as const satisfies Partial<
  Record<TensorMapType, number>
>;
type Width = keyof typeof widths;
const isWidth = (type: string): type is Width => Object.hasOwn(widths, type);

/** Bytes from a swizzled row to the next; null follows the box. */
const spans = {
  none: null,
  "32B": 32,
  "64B": 64,
  "128B": 128,
  "128B_ATOM_32B": 128,
  "128B_ATOM_32B_FLIP_8B": 128,
  "128B_ATOM_64B": 128,
} as const satisfies Record<TensorMapSwizzle, number | null>;

/** Pairs of address bits: the second is XORed into the first. */
const flips: Readonly<Record<TensorMapSwizzle, readonly (readonly [to: number, from: number])[]>> = {
  none: [],
  "32B": [[4, 7]],
  "64B": [
    [4, 7],
    [5, 8],
  ],
  "128B": [
    [4, 7],
    [5, 8],
    [6, 9],
  ],
  "128B_ATOM_32B": [
    [5, 7],
    [6, 8],
  ],
  "128B_ATOM_32B_FLIP_8B": [
    [5, 7],
    [6, 8],
    [3, 7],
  ],
  "128B_ATOM_64B": [[6, 7]],
};

const swizzled = (swizzle: TensorMapSwizzle, address: number): number =>
  flips[swizzle].reduce((at, [to, from]) => at ^ (((address >> from) & 1) << to), address);

/** Elements that a copy moves along dimension k: the stride of dimension 0 is not heeded without interleave. */
const extent = (spec: TensorMapSpec, k: number): number =>
  k === 0 ? (spec.box[0] ?? 1) : Math.ceil((spec.box[k] ?? 1) / (spec.elementStrides[k] ?? 1));

/** Every element of the box: its number in the box's row, the row, where it is in the tensor (null outside), in elements and bytes. */
function* elements(spec: TensorMapSpec, coordinates: readonly number[]) {
  const extents = spec.dims.map((_, k) => extent(spec, k));
  const count = extents.reduce((n, x) => n * x, 1);
  for (let e = 0; e < count; e++) {
    let [rest, offset, inside] = [e, 0, true];
    for (const [k, n] of extents.entries()) {
      const step = rest % n;
      rest = Math.floor(rest / n);
      const x = (coordinates[k] ?? 0) + step * (k === 0 ? 1 : (spec.elementStrides[k] ?? 1));
      if (x < 0 || x >= (spec.dims[k] ?? 1)) inside = false;
      const width = isWidth(spec.dtype) ? widths[spec.dtype] : 1;
      offset += k === 0 ? x * width : x * (spec.strides[k - 1] ?? 0);
    }
    const inner = extents[0] ?? 1;
    yield { column: e % inner, row: Math.floor(e / inner), offset: inside ? offset : null };
  }
}

/** Shared memory after a load, or the tensor's memory after a store or a reduction by addition. */
function model({ op, spec, coordinates, offset, seeds }: Case): Uint8Array {
  const width = isWidth(spec.dtype) ? widths[spec.dtype] : 1;
  const pitch = spans[spec.swizzle] ?? extent(spec, 0) * width;
  const tensor = pattern(seeds[0]);
  const origin = Number(spec.address);
  const shared = op === 0 ? new Uint8Array(windowBytes).fill(0xcd) : pattern(seeds[1]);
  // 0x7ff7 in every 16 bits.
  const outside = spec.fill === "nan" ? [0xf7, 0x7f] : [0, 0];
  const places = new Map<number, number>();
  for (const { column, row, offset: at } of elements(spec, coordinates)) {
    const bytes = Array.from({ length: width }, (_, b) =>
      swizzled(spec.swizzle, offset + row * pitch + column * width + b),
    );
    if (op === 0)
      bytes.forEach((to, b) => {
        shared[to] = at === null ? (outside[b & 1] ?? 0) : (tensor[origin + at + b] ?? 0);
      });
    else if (at !== null) {
      let carry = 0;
      bytes.forEach((from, b) => {
        const sum = (shared[from] ?? 0) + (op === 2 ? (tensor[origin + at + b] ?? 0) + carry : 0);
        carry = sum >> 8;
        places.set(origin + at + b, sum & 255);
      });
    }
  }
  for (const [at, byte] of places) tensor[at] = byte;
  return op === 0 ? shared : tensor;
}

const multiple = (n: number, of: number): number => Math.ceil(n / of) * of;

/** Copies that the hardware takes, with a tensor of at most 32 KB in a window of 64. */
const copies = fc
  .record({
    op: fc.constantFrom(0, 0, 1, 2),
    dtype: fc.constantFrom<Width>("u8", "u16", "f16", "u32", "u64"),
    swizzle: fc.constantFrom(...(Object.keys(spans) as TensorMapSwizzle[])),
    fill: fc.constantFrom("zero" as const, "nan" as const),
    rank: fc.integer({ min: 1, max: 5 }),
    dims: fc.array(fc.integer({ min: 1, max: 7 }), { minLength: 5, maxLength: 5 }),
    inner: fc.integer({ min: 1, max: 120 }),
    padding: fc.array(fc.integer({ min: 0, max: 3 }), { minLength: 5, maxLength: 5 }),
    box: fc.array(fc.integer({ min: 1, max: 6 }), { minLength: 5, maxLength: 5 }),
    units: fc.integer({ min: 1, max: 8 }),
    steps: fc.array(fc.integer({ min: 1, max: 3 }), { minLength: 5, maxLength: 5 }),
    start: fc.array(fc.integer({ min: -4, max: 8 }), { minLength: 5, maxLength: 5 }),
    place: fc.integer({ min: 0, max: 40 }),
    seed: fc.integer({ min: 1, max: 99 }),
  })
  .map((r): Case => {
    const width = widths[r.dtype];
    const perUnit = 16 / width;
    // Stores write whole pieces of 16 bytes (the replay of an H200's copies covers it): here rows end with a piece.
    const inner = r.op === 0 ? r.inner : multiple(r.inner, perUnit);
    const dims = [inner, ...r.dims.slice(1)].slice(0, r.rank);
    const strides: number[] = [];
    let stride = inner * width;
    for (let k = 1; k < r.rank; k++) {
      stride = multiple(stride, 16) + 16 * (r.padding[k] ?? 0);
      strides.push(stride);
      stride *= dims[k] ?? 1;
    }
    const elementStrides = r.steps.slice(0, r.rank);
    const span = spans[r.swizzle];
    const units = span === null ? r.units : Math.min(r.units, span / 16);
    const box = [units * perUnit, ...r.box.slice(1)].slice(0, r.rank);
    const [first = 0, ...rest] = r.start.slice(0, r.rank).map((x) => (r.op === 0 ? x : Math.abs(x)));
    const spec: TensorMapSpec = {
      dtype: r.dtype,
      address: 512n,
      dims,
      strides,
      box,
      elementStrides,
      interleave: "none",
      swizzle: r.swizzle,
      l2: "none",
      // Other than zeros are for floating point.
      fill: r.dtype === "f16" ? r.fill : "zero",
    };
    const rows = box.reduce((n, _, k) => (k === 0 ? n : n * extent(spec, k)), 1);
    return {
      op: r.op === 2 && width < 4 ? 1 : r.op,
      spec,
      coordinates: [first * perUnit, ...rest],
      offset: 128 * r.place,
      bytes: rows * units * 16,
      seeds: [r.seed, r.seed + 1],
    };
  })
  .filter(({ spec, offset, bytes }) => {
    const end = spec.strides.reduce((sum, stride, k) => sum + stride * ((spec.dims[k + 1] ?? 1) - 1), 2048);
    return checkTensorMap(spec).length === 0 && end < windowBytes / 2 && offset + 8 * bytes < windowBytes;
  });

describe("tensor copies do what a model of single elements does", () => {
  const replay = new Replay();
  test("loads, stores and sums of random maps", () => {
    const ranks = new Set<string>();
    fc.assert(
      fc.property(copies, fc.constantFrom(...orders), (copy, order) => {
        const { report, image } = replay.run(copy, order, 1);
        expect(report.findings.map((f) => f.message)).toEqual([]);
        ranks.add(`${copy.op} ${copy.spec.dims.length}`);
        expect(Buffer.compare(image, model(copy))).toBe(0);
      }),
      { numRuns: 400, seed: 3 },
    );
    // Loads, stores and reductions of all five ranks have been seen.
    expect(ranks.size).toBe(15);
  });
});
