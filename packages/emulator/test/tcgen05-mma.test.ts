/** tcgen05.mma by meaning: every kind, major, group and layout against float64, on images that the test lays out itself. */
import {
  type AccumulatorLayout,
  accumulatorLayout,
  encodeInstructionDescriptor,
  encodeSharedDescriptor,
  type Tcgen05Accumulator,
  type Tcgen05Element,
  type Tcgen05Kind,
  type Tcgen05ScaleFormat,
  type Tcgen05ScaleVector,
  tcgen05KindRow,
} from "@tilewright/ptx";
import { describe, expect, test } from "vitest";
import { fromF16, toF16 } from "../src/numerics/floats.ts";
import { clean, generator, orders } from "./support.ts";
import {
  codeBits,
  codesOf,
  elementValue,
  type Layout,
  type MmaLaunch,
  type Placed,
  packRow,
  packTensorRow,
  placeK,
  placeMn,
  plainDescriptor,
  runMma,
} from "./tcgen05.ts";

interface Case {
  readonly kind: Tcgen05Kind;
  readonly m: number;
  readonly n: number;
  readonly group?: 1 | 2;
  readonly ws?: boolean;
  readonly a?: Tcgen05Element;
  readonly b?: Tcgen05Element;
  readonly d?: Tcgen05Accumulator;
  readonly aMajor?: "k" | "mn";
  readonly bMajor?: "k" | "mn";
  readonly aLayout?: Layout;
  readonly bLayout?: Layout;
  readonly aInTensor?: boolean;
  readonly negate?: boolean;
  readonly vector?: Tcgen05ScaleVector;
  readonly format?: Tcgen05ScaleFormat;
  readonly scaleIds?: readonly [number, number];
  readonly integers?: boolean;
  readonly accumulate?: boolean;
  /** Modifiers after the kind, and operands after A, B and the descriptor. */
  readonly modifiers?: string;
  readonly operands?: string;
  /** Instructions before it. */
  readonly first?: string;
  readonly dLane?: number;
  /** What the first of the two instructions counts for. */
  readonly weight?: number;
  /** Rows of A come from one lane further up. */
  readonly shifted?: boolean;
  /** Half of A is stored, with metadata at this sparsity selector. */
  readonly selector?: number;
  readonly seed?: number;
  readonly launch?: MmaLaunch["launch"];
}

const elementOf: Record<Tcgen05Kind, Tcgen05Element> = {
  f16: "f16",
  tf32: "tf32",
  f8f6f4: "e4m3",
  i8: "s8",
  mxf8f6f4: "e5m2",
  mxf4: "e2m1",
  mxf4nvf4: "e2m1",
};
const steps = 2;
const f32 = new Float32Array(1);
const f32Bits = new Int32Array(f32.buffer);
const wordOf = (d: Tcgen05Accumulator, value: number): number => {
  if (d === "s32") return value;
  if (d === "f16") return toF16(value);
  f32[0] = value;
  return f32Bits[0] as number;
};
const numberOf = (d: Tcgen05Accumulator, word: number): number => {
  if (d === "s32") return word;
  if (d === "f16") return fromF16(word & 0xffff);
  f32Bits[0] = word;
  return f32[0] as number;
};

/** Lane of row r of a block's D in a part of N, written down from the figures of the ISA. */
const laneOf = (layout: AccumulatorLayout, row: number, part: number, lane: number): number =>
  layout.id === "F" || layout.id === "C"
    ? lane + Math.floor(row / 16) * 32 + (row % 16)
    : row + (part * 128) / layout.parts;

/** Lay out, run, and read D back: [row of the whole M][n], with the numbers that it should be. */
function run(c: Case) {
  const { kind, m, n, group = 1, ws = false, dLane = 0 } = c;
  const row = tcgen05KindRow(kind);
  const a = c.a ?? elementOf[kind];
  const b = c.b ?? a;
  const d = c.d ?? (kind === "i8" ? "s32" : "f32");
  const { aMajor = "k", bMajor = "k", integers = true, aInTensor = false } = c;
  const fallback = (major: "k" | "mn"): Layout => (major === "mn" && row.bits === 32 ? "128B/32B" : "128B");
  const { aLayout = fallback(aMajor), bLayout = fallback(bMajor) } = c;
  const sparse = c.selector !== undefined;
  const layout = accumulatorLayout(m, group, ws, sparse);
  if (layout === null) throw new Error("no such M");
  const random = generator(c.seed ?? 1);
  const pick = <T>(from: readonly T[]): T => from[Math.floor(random() * from.length)] as T;
  const depth = row.k * steps;
  const bK = sparse ? 2 * row.k : row.k;
  const codes = (rows: number, element: Tcgen05Element, length: number): number[][] => {
    const set = codesOf(element, integers);
    return Array.from({ length: rows }, () => Array.from({ length }, () => pick(set)));
  };
  const aCodes = codes(m, a, depth);
  const bCodes = codes(n, b, bK * steps);
  // Of 8, 4 or 2 elements half are stored: those of two quarters, or one of two.
  const chunk = row.bits === 4 ? 8 : row.bits === 32 ? 2 : 4;
  const nibbles = Array.from({ length: m }, () =>
    Array.from({ length: bK / chunk }, () => pick(chunk === 2 ? [4, 14] : [4, 8, 9, 12, 13, 14])),
  );
  const storedColumn = (r: number, stored: number): number => {
    if (!sparse) return stored;
    const [c0, i] = [Math.floor(stored / (chunk / 2)), stored % (chunk / 2)];
    const nibble = nibbles[r]?.[c0 % (bK / chunk)] ?? 0;
    if (chunk === 2) return c0 * 2 + (nibble === 14 ? 1 : 0);
    const size = chunk / 4;
    return c0 * chunk + (i < size ? nibble & 3 : nibble >> 2) * size + (i % size);
  };

  const place = (
    all: number[][],
    element: Tcgen05Element,
    major: "k" | "mn",
    how: Layout,
    k: number,
  ): Placed => {
    const packed = all.map((r) => packRow(kind, element, r));
    if (major === "k") {
      const wide = k / row.k;
      const placed = placeK(packed, how, steps * wide);
      return { ...placed, starts: placed.starts.filter((_, i) => i % wide === 0) };
    }
    const size = codeBits[element] / 8;
    return placeMn(
      (r, at) => (packed[r] as Uint8Array).subarray(at * size, (at + 1) * size),
      all.length,
      k,
      size,
      how,
      steps,
    );
  };
  const blocks = Array.from({ length: group }, (_, rank) => ({
    a: place(aCodes.slice((rank * m) / group, ((rank + 1) * m) / group), a, aMajor, aLayout, row.k),
    b: place(bCodes.slice((rank * n) / group, ((rank + 1) * n) / group), b, bMajor, bLayout, bK),
  }));
  const first = blocks[0];
  if (first === undefined) throw new Error("no block");
  const bAt = Math.ceil(first.a.bytes.length / 1024) * 1024;
  const size = Math.ceil((bAt + first.b.bytes.length) / 2048) * 2048;
  const shared = blocks.map((block) => {
    const bytes = new Uint8Array(size);
    bytes.set(block.a.bytes, 0);
    bytes.set(block.b.bytes, bAt);
    return bytes;
  });

  // Columns: D, then A, then the factors of A and of B.
  const width = n / layout.parts;
  const aColumn = Math.ceil(width / 8) * 8;
  const sColumn = aColumn + (aInTensor ? 8 * steps : 0);
  const sbColumn = sColumn + 4;
  const mColumn = row.scales === null ? sColumn : sbColumn + 12;
  const columns = sparse ? mColumn + 8 : mColumn;
  const vector = c.vector ?? (kind === "mxf8f6f4" ? 1 : 2);
  const format = c.format ?? "ue8m0";
  const [aId = 0, bId = 0] = c.scaleIds ?? [];
  const scaleCodes = format === "ue8m0" ? [126, 127, 128] : [0x38, 0x40, 0x3c];
  const scaleValue = (code: number): number =>
    format === "ue8m0" ? 2 ** (code - 127) : code === 0x3c ? 1.5 : code === 0x38 ? 1 : 2;
  const factors = (rows: number): number[][] =>
    Array.from({ length: rows }, () => Array.from({ length: vector }, () => pick(scaleCodes)));
  const aScales = factors(m);
  const bScales = factors(n);
  const start = (r: number, column: number): number => {
    const value = integers ? ((r * 7 + column * 3) % 17) - 8 : Math.sin(r * 31 + column);
    return c.accumulate === true ? numberOf(d, wordOf(d, value)) : value;
  };
  const tensor = blocks.map((_, rank) => {
    const words = new Int32Array(128 * columns).fill(0x3f800000);
    for (let r = 0; r < layout.rows; r++)
      for (let part = 0; part < layout.parts; part++) {
        const lane = laneOf(layout, r, part, dLane);
        const at = lane * columns;
        const whole = rank * layout.rows + r;
        for (let i = 0; i < width; i++) words[at + i] = wordOf(d, start(whole, part * width + i));
        if (aInTensor) {
          const bytes = packTensorRow(kind, a, aCodes[whole] ?? []);
          words.set(new Int32Array(bytes.slice().buffer), at + aColumn);
        }
      }
    if (sparse)
      for (let r = 0; r < layout.rows; r++)
        nibbles[rank * layout.rows + r]?.forEach((nibble, c0) => {
          const wide = row.bits >= 16;
          const lane = wide ? Math.floor(r / 16) * 16 + (c0 >= 4 ? 8 : 0) + (r % 8) : r;
          const bit = wide ? (r % 16 >= 8 ? 16 : 0) + 4 * (c0 % 4) : 4 * (c0 % 8);
          const at =
            laneOf(layout, lane, 0, dLane) * columns +
            mColumn +
            (wide ? (c.selector ?? 0) : Math.floor(c0 / 8));
          words[at] = ((words[at] as number) & ~(15 << bit)) | (nibble << bit);
        });
    if (row.scales !== null) {
      const bytes = new Uint8Array(words.buffer);
      for (let lane = 0; lane < 128; lane++) {
        const half = layout.id === "B" && lane >= 64 ? 1 : 0;
        for (let j = 0; j < vector; j++) {
          for (let q = 0; q < layout.rows / 32; q++)
            bytes[(lane * columns + sColumn + q) * 4 + aId + j] =
              aScales[rank * layout.rows + q * 32 + (lane % 32)]?.[j] ?? 0;
          for (let q = 0; q < Math.ceil(width / 32); q++)
            bytes[(lane * columns + sbColumn + q) * 4 + bId + j] =
              bScales[half * width + q * 32 + (lane % 32)]?.[j] ?? 0;
        }
      }
    }
    return words;
  });

  const descriptor = encodeInstructionDescriptor(
    kind,
    plainDescriptor({
      m,
      n,
      a,
      b,
      d,
      aMajor,
      bMajor,
      negateA: c.negate ?? false,
      ...(c.selector === undefined ? {} : { selector: c.selector }),
      scale: row.scales === null ? null : { format, a: aId, b: bId },
    }),
  );
  const shape = (placed: Placed, swizzle: Layout, at: number, s: number): bigint =>
    encodeSharedDescriptor({
      address: at + (placed.starts[s] ?? 0),
      leading: placed.leading,
      stride: placed.stride,
      baseOffset: 0,
      swizzle,
    });
  const scaled =
    row.scales === null ? "" : `.block_scale.${sparse ? `scale_vec::${vector}X` : `block${row.k / vector}`}`;
  const result = runMma({
    group,
    mma: `${c.first ?? ""} add.u32 %m7, %r7, ${(dLane << 16) | mColumn}; tcgen05.mma${ws ? ".ws" : ""}${sparse ? ".sp" : ""}.cta_group::${group}.kind::${kind}${scaled}${c.modifiers ?? ""} [%dt], ${aInTensor ? "[%at]" : "%da"}, %db,${sparse ? " [%m7]," : ""} %id,${row.scales === null ? "" : " [%sa], [%sb],"} ${c.operands ?? "%pa"};`,
    shared,
    tensor,
    columns,
    steps: Array.from({ length: steps }, (_, s) => [
      aInTensor ? BigInt((dLane << 16) | (aColumn + 8 * s)) : shape(first.a, aLayout, 0, s),
      shape(first.b, bLayout, bAt, s),
    ]),
    descriptor,
    d: dLane << 16,
    scaleA: sColumn,
    scaleB: sbColumn,
    accumulate: c.accumulate ?? false,
    ...(c.launch === undefined ? {} : { launch: c.launch }),
  });

  // What it should be, and how far off rounding may take it. Factors are powers of two or have two bits: products stay exact.
  const values = (
    all: number[][],
    element: Tcgen05Element,
    scales: number[][],
    sign: number,
    perStep: number,
  ): readonly Float64Array[] =>
    all.map((codes, r) =>
      Float64Array.from(codes, (code, k) => {
        const j = Math.floor((k % perStep) / (perStep / vector));
        const factor = row.scales === null ? 1 : scaleValue(scales[r]?.[j] ?? 0);
        return sign * factor * elementValue(element, code);
      }),
    );
  const sources = aCodes.map((own, r) =>
    c.shifted === true && (r + 1) % layout.rows !== 0 ? (aCodes[r + 1] ?? own) : own,
  );
  const aValues = values(sources, a, aScales, c.negate === true ? -1 : 1, row.k);
  for (const x of aValues) for (let k = 0; k < row.k; k++) x[k] = (x[k] as number) * (c.weight ?? 1);
  const bValues = values(bCodes, b, bScales, 1, bK);
  const expected = (r: number, column: number): { readonly value: number; readonly magnitude: number } => {
    const [x, y] = [aValues[r] as Float64Array, bValues[column] as Float64Array];
    let value = c.accumulate === true ? start(r, column) : 0;
    let magnitude = Math.abs(value);
    for (let k = 0; k < depth; k++) {
      const term = (x[k] as number) * (y[storedColumn(r, k)] as number);
      value += term;
      magnitude += Math.abs(term);
    }
    return { value, magnitude };
  };
  const read = (r: number, column: number): number => {
    const block = Math.floor(r / layout.rows);
    const lane = laneOf(layout, r % layout.rows, Math.floor(column / width), dLane);
    return numberOf(d, result.tensor[block]?.[lane * columns + (column % width)] ?? Number.NaN);
  };
  return { ...result, expected, read, before: tensor, columns, d, depth, layout };
}

/** All of D against float64: exactly for integers, within the bound of the tensor cores' arithmetic otherwise. */
function check(c: Case): void {
  const { report, expected, read, d, depth } = run(c);
  clean(report);
  let wrong = 0;
  let at = "";
  for (let r = 0; r < c.m; r++)
    for (let column = 0; column < c.n; column++) {
      const { value, magnitude } = expected(r, column);
      const off = Math.abs(read(r, column) - value);
      const bound =
        c.integers === false
          ? (depth / 16 + 8) * 2 ** -23 * magnitude + (d === "f16" ? 2 ** -10 * (magnitude + 1) : 0)
          : 0;
      if (!(off <= bound)) {
        wrong += 1;
        at ||= `D[${r}][${column}] is ${read(r, column)}, should be ${value}`;
      }
    }
  expect(at).toBe("");
  expect(wrong).toBe(0);
}

const plainKinds = ["f16", "tf32", "f8f6f4", "i8"] as const;
const shapes = [
  { group: 1, m: 64, n: 48 },
  { group: 1, m: 128, n: 64 },
  { group: 2, m: 128, n: 64 },
  { group: 2, m: 256, n: 96 },
] as const;

describe("kinds, groups and shapes", () => {
  for (const kind of plainKinds)
    for (const shape of shapes)
      test(`${kind} ${shape.m} x ${shape.n}, cta_group::${shape.group}`, () => {
        check({ kind, ...shape, accumulate: true });
        check({ kind, ...shape, aInTensor: true, n: 32 });
        if (kind !== "i8") check({ kind, ...shape, integers: false, seed: 3, accumulate: true });
      });
  test("the largest and the smallest N", () => {
    check({ kind: "f16", m: 128, n: 256 });
    check({ kind: "f16", m: 64, n: 8, group: 1 });
    check({ kind: "f16", m: 256, n: 256, group: 2, a: "bf16" });
    check({ kind: "i8", m: 128, n: 8 });
  });
});

describe("a sparse A", () => {
  for (const kind of plainKinds)
    test(`${kind}: one block and a pair, from shared and tensor memory, .ws`, () => {
      const selector = kind === "tf32" ? 3 : kind === "f16" ? 1 : 0;
      check({ kind, m: 128, n: 64, selector, accumulate: true });
      check({ kind, m: 128, n: 64, group: 2, selector, dLane: 16, aInTensor: true });
      check({ kind, m: 256, n: 64, group: 2, selector, bMajor: kind === "tf32" ? "k" : "mn" });
      check({ kind, m: 64, n: 32, selector, dLane: 16 });
      for (const m of [32, 64]) check({ kind, m, n: 64, ws: true, selector });
      if (kind !== "i8") check({ kind, m: 64, n: 32, selector, integers: false, seed: 5 });
    });
  test.each([
    ["mxf8f6f4", 1],
    ["mxf4", 2],
    ["mxf4nvf4", 4],
  ] as const)("%s", (kind, vector) => {
    check({ kind, m: 128, n: 64, vector, selector: 0 });
    check({ kind, m: 256, n: 64, vector, selector: 0, group: 2, aInTensor: true });
  });
});

describe("element types", () => {
  test.each([
    ["f16", "bf16", "bf16", "f32"],
    ["f16", "f16", "f16", "f16"],
    ["f8f6f4", "e5m2", "e4m3", "f32"],
    ["f8f6f4", "e2m3", "e3m2", "f32"],
    ["f8f6f4", "e2m1", "e5m2", "f16"],
    ["i8", "u8", "s8", "s32"],
  ] as const)("%s: %s by %s into %s", (kind, a, b, d) => {
    for (const aInTensor of [false, true])
      check({ kind, a, b, d, m: 128, n: 32, aInTensor, accumulate: true });
    if (kind !== "i8") check({ kind, a, b, d, m: 64, n: 16, integers: false, negate: true, seed: 5 });
  });
});

describe("majors and swizzles", () => {
  const layouts = ["none", "32B", "64B", "128B"] as const;
  for (const kind of plainKinds)
    test(`${kind}: K contiguous in every swizzle`, () => {
      for (const aLayout of layouts)
        for (const bLayout of layouts) check({ kind, m: 64, n: 32, aLayout, bLayout });
    });
  for (const kind of ["f16", "f8f6f4", "i8"] as const)
    test(`${kind}: M and N contiguous in every swizzle`, () => {
      for (const layout of layouts) {
        check({ kind, m: 128, n: 64, aMajor: "mn", bMajor: "mn", aLayout: layout, bLayout: layout });
        check({ kind, m: 64, n: 64, bMajor: "mn", bLayout: layout });
        check({ kind, m: 256, n: 64, group: 2, aMajor: "mn", aLayout: layout });
      }
      check({ kind, m: 256, n: 128, group: 2, aMajor: "mn", bMajor: "mn" });
    });
  test("tf32: M and N contiguous in atoms of 32 bytes", () => {
    check({ kind: "tf32", m: 128, n: 64, aMajor: "mn", bMajor: "mn" });
    check({ kind: "tf32", m: 128, n: 64, group: 2, aMajor: "mn" });
    check({ kind: "tf32", m: 64, n: 32, bMajor: "mn" });
  });
});

describe("block scaling", () => {
  test.each([
    ["mxf8f6f4", "e4m3", "e5m2", 1, "ue8m0", [0, 0]],
    ["mxf8f6f4", "e2m1", "e3m2", 1, "ue8m0", [3, 1]],
    ["mxf4", "e2m1", "e2m1", 2, "ue8m0", [2, 0]],
    ["mxf4nvf4", "e2m1", "e2m1", 2, "ue8m0", [0, 2]],
    ["mxf4nvf4", "e2m1", "e2m1", 4, "ue4m3", [0, 0]],
    ["mxf4nvf4", "e2m1", "e2m1", 4, "ue8m0", [0, 0]],
  ] as const)("%s: %s by %s, %i factors of %s", (kind, a, b, vector, format, scaleIds) => {
    const shared = { kind, a, b, vector, format, scaleIds } as const;
    check({ ...shared, m: 128, n: 40, accumulate: true });
    check({ ...shared, m: 256, n: 48, group: 2 });
    check({ ...shared, m: 128, n: 16, aInTensor: true, integers: false, seed: 9 });
    if (kind !== "mxf8f6f4") check({ ...shared, m: 128, n: 64, group: 2 });
  });
});

describe("weight stationary", () => {
  for (const kind of plainKinds)
    test(`${kind}: M of 32, 64 and 128`, () => {
      for (const m of [32, 64, 128]) check({ kind, m, n: 64, ws: true, accumulate: true });
      check({ kind, m: 32, n: 128, ws: true, aInTensor: true });
    });
});

describe("modifiers and operands", () => {
  test("disabled lanes keep what they had", () => {
    const { report, tensor, before, expected, read, columns } = run({
      kind: "f16",
      m: 128,
      n: 32,
      first: "mov.u32 %m0, 0xffff; mov.u32 %m1, 0; mov.u32 %m2, 0x80000001; mov.u32 %m3, 0xffffffff;",
      operands: "{%m0, %m1, %m2, %m3}, %pa",
    });
    clean(report);
    const disabled = (lane: number): boolean => lane < 16 || lane === 64 || lane === 95 || lane >= 96;
    for (let lane = 0; lane < 128; lane++)
      for (let i = 0; i < 32; i++)
        if (disabled(lane)) expect(tensor[0]?.[lane * columns + i]).toBe(before[0]?.[lane * columns + i]);
        else expect(read(lane, i)).toBe(expected(lane, i).value);
  });
  test("D is scaled down by a power of two before each instruction", () => {
    // The first instruction does not read D; the second adds to an eighth of it.
    for (const kind of ["f16", "tf32"] as const) {
      check({ kind, m: 128, n: 16, operands: "%pa, 3", weight: 1 / 8 });
      check({ kind, m: 256, n: 32, group: 2, operands: "%pa, 0" });
    }
  });
  test("rows of A move down by one lane", () => {
    for (const kind of plainKinds) {
      check({ kind, m: 128, n: 16, aInTensor: true, modifiers: ".ashift", shifted: true });
      check({ kind, m: 256, n: 32, group: 2, aInTensor: true, modifiers: ".ashift", shifted: true });
    }
  });
  test("rows of M = 64 may take the upper lanes of each quarter", () => {
    check({ kind: "f16", m: 64, n: 16, dLane: 16, accumulate: true });
    check({ kind: "f16", m: 64, n: 16, dLane: 16, aInTensor: true });
  });
  test("lanes and columns that D does not take are left alone", () => {
    const { tensor, before, columns, layout } = run({ kind: "f16", m: 64, n: 16, aInTensor: true });
    expect(layout.id).toBe("F");
    for (let lane = 0; lane < 128; lane++)
      for (let i = lane % 32 < 16 ? 16 : 0; i < columns; i++)
        expect(tensor[0]?.[lane * columns + i]).toBe(before[0]?.[lane * columns + i]);
  });
  test("all orders and twenty seeds give the same bits", () => {
    const c: Case = { kind: "f16", m: 256, n: 64, group: 2, integers: false, accumulate: true };
    const want = run(c).tensor;
    const launches = [
      ...orders.map((order) => ({ order })),
      ...Array.from({ length: 20 }, (_, seed) => ({ order: "random" as const, seed })),
    ];
    for (const launch of launches) {
      const { report, tensor } = run({ ...c, launch });
      clean(report);
      expect(tensor).toEqual(want);
    }
  });
});
