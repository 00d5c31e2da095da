import fc from "fast-check";
import { describe, expect, it } from "vitest";
import {
  type AccumulatorLayout,
  accumulatorLayout,
  decodeInstructionDescriptor,
  decodeSharedDescriptor,
  encodeInstructionDescriptor,
  encodeSharedDescriptor,
  type InstructionDescriptor,
  instructionDescriptorFaults,
  type Major,
  mayTranspose,
  pieceOffsets,
  type SharedSwizzle,
  swizzledAddress,
  swizzleFault,
  type Tcgen05Accumulator,
  type Tcgen05Element,
  type Tcgen05Form,
  type Tcgen05Kind,
  type Tcgen05ScaleVector,
  tcgen05KindRow,
  tcgen05Kinds,
  tcgen05ShapeFaults,
} from "../src/index.ts";

/** Lane and column, from D's address, of element (row, column) in the block that holds the row. */
function accumulatorPlace(
  { parts, partLanes, halfLanes }: AccumulatorLayout,
  n: number,
  row: number,
  column: number,
): { readonly lane: number; readonly column: number } {
  const width = n / parts;
  const part = Math.floor(column / width);
  const lane = halfLanes ? (row >> 4) * 32 + (row & 15) : row;
  return { lane: part * partLanes + lane, column: column % width };
}

const kinds = Object.keys(tcgen05Kinds) as readonly Tcgen05Kind[];
const form = (kind: Tcgen05Kind, fields: Partial<Tcgen05Form> = {}): Tcgen05Form => ({
  kind,
  group: 1,
  weightStationary: false,
  aInTensor: false,
  scaleVector: (Number(Object.keys(tcgen05KindRow(kind).scales ?? {})[0] ?? 0) ||
    null) as Tcgen05ScaleVector | null,
  ...fields,
});
const bf16: InstructionDescriptor = {
  m: 256,
  n: 256,
  a: "bf16",
  b: "bf16",
  d: "f32",
  aMajor: "k",
  bMajor: "k",
  negateA: false,
  negateB: false,
  saturate: false,
  maxShift: 0,
  scale: null,
};

/** Legal descriptors of all forms. */
const legal = fc
  .record({
    kind: fc.constantFrom(...kinds),
    group: fc.constantFrom(1 as const, 2 as const),
    weightStationary: fc.boolean(),
    aInTensor: fc.boolean(),
    m: fc.constantFrom(32, 64, 128, 256),
    n: fc.integer({ min: 1, max: 32 }).map((x) => x * 8),
    pick: fc.nat(),
    bits: fc.nat(63),
  })
  .map(({ kind, pick, bits, m, n, ...rest }) => {
    const row = tcgen05KindRow(kind);
    const elements = Object.keys(row.elements) as readonly Tcgen05Element[];
    const a = elements[pick % elements.length] ?? "f16";
    const b = elements[(pick >> 4) % elements.length] ?? "f16";
    const ds = Object.keys(row.accumulators) as readonly Tcgen05Accumulator[];
    const vectors = Object.keys(row.scales ?? {}).map(Number) as Tcgen05ScaleVector[];
    const scaleVector = vectors[(pick >> 8) % Math.max(1, vectors.length)] ?? null;
    const formats = scaleVector === null ? [] : (row.scales?.[scaleVector] ?? []);
    const format = formats[(pick >> 9) % Math.max(1, formats.length)];
    const major = (element: Tcgen05Element, bit: number): Major =>
      mayTranspose(element) && (bits & bit) !== 0 ? "mn" : "k";
    const descriptor: InstructionDescriptor = {
      m,
      n,
      a,
      b,
      d: ds[(pick >> 10) % ds.length] ?? "f32",
      aMajor: major(a, 1),
      bMajor: major(b, 2),
      negateA: row.negate && (bits & 4) !== 0,
      negateB: row.negate && (bits & 8) !== 0,
      saturate: kind === "i8" && (bits & 16) !== 0,
      maxShift: rest.weightStationary && (bits & 32) !== 0 ? 16 : 0,
      scale:
        format === undefined || scaleVector === null
          ? null
          : { format, a: scaleVector === 4 ? 0 : (pick % (4 / scaleVector)) * scaleVector, b: 0 },
    };
    return { descriptor, form: { kind, scaleVector, ...rest } satisfies Tcgen05Form };
  })
  .filter(({ descriptor, form: f }) => instructionDescriptorFaults(descriptor, f).length === 0);

describe("instruction descriptor", () => {
  it("is the word that CUTLASS makes for a bf16 pair of 256 x 256", () => {
    expect(encodeInstructionDescriptor("f16", bf16).toString(16)).toBe("10400490");
  });

  it("reads back what was written, for every legal descriptor", () => {
    fc.assert(
      fc.property(legal, ({ descriptor, form: f }) => {
        const word = encodeInstructionDescriptor(f.kind, descriptor);
        const read = decodeInstructionDescriptor(word | 0, f);
        expect(read).toEqual({ descriptor, encoding: [], meaning: [] });
      }),
      { numRuns: 2000 },
    );
  });

  it("names every reserved bit", () => {
    const reserved: readonly (readonly [Tcgen05Kind, readonly number[]])[] = [
      ["f16", [6, 23, 29]],
      ["mxf8f6f4", [0, 1, 3, 6, 24, 25, 26, 31]],
      ["mxf4nvf4", [0, 1, 3, 6, 12, 24, 25, 26]],
    ];
    for (const [kind, bits] of reserved)
      for (let bit = 0; bit < 32; bit++) {
        const { encoding } = decodeInstructionDescriptor(1 << bit, form(kind));
        expect(
          encoding.some((x) => x === `bit ${bit} is reserved and has to be 0`),
          `${kind} ${bit}`,
        ).toBe(bits.includes(bit));
      }
  });

  it("names all that is wrong at once", () => {
    const word = encodeInstructionDescriptor("f16", { ...bf16, m: 96, n: 24 }) | (1 << 2) | (1 << 23);
    const { encoding, meaning } = decodeInstructionDescriptor(word, form("f16"));
    expect(encoding).toEqual([
      "bit 23 is reserved and has to be 0",
      "bit 2 asks for a sparse A, which only the .sp instructions read",
    ]);
    expect(meaning).toEqual(["M = 96: kind::f16 cta_group::1 has M 64, 128"]);
  });

  it.each([
    ["f16 results of bf16", "f16", {}, { d: "f16" }, "D of type f16 needs A and B of type f16"],
    [
      "fp4 with M contiguous",
      "f8f6f4",
      {},
      { a: "e2m1", b: "e4m3", aMajor: "mn" },
      "A of type e2m1 has to have K contiguous",
    ],
    [
      "A in tensor memory, M contiguous",
      "f16",
      { aInTensor: true },
      { aMajor: "mn" },
      "A in tensor memory has to have K contiguous",
    ],
    ["saturation of floats", "f16", {}, { saturate: true }, "only kind::i8 saturates"],
    [
      "negated integers",
      "i8",
      {},
      { a: "s8", b: "s8", d: "s32", negateA: true },
      "kind::i8 does not negate operands",
    ],
    ["shift without .ws", "f16", {}, { maxShift: 8 }, "only .ws instructions shift B"],
    [
      "narrow steps of N with B transposed",
      "f8f6f4",
      {},
      { m: 64, n: 24, a: "e4m3", b: "e4m3", bMajor: "mn" },
      "with B of 8 bits and N contiguous, N has to be a multiple of 16",
    ],
  ] as const)("refuses %s", (_name, kind, formFields, fields, message) => {
    const faults = instructionDescriptorFaults(
      { ...bf16, m: 128, n: 64, ...fields } as InstructionDescriptor,
      form(kind, formFields),
    );
    expect(faults).toHaveLength(1);
    expect(faults[0]).toContain(message);
  });

  it("refuses scale factors that the kind does not have", () => {
    const mx = { ...bf16, m: 128, n: 64, a: "e2m1", b: "e2m1" } as const;
    const faults = (kind: Tcgen05Kind, vector: Tcgen05ScaleVector, format: "ue8m0" | "ue4m3", a = 0) =>
      instructionDescriptorFaults({ ...mx, scale: { format, a, b: 0 } }, form(kind, { scaleVector: vector }));
    expect(faults("mxf4", 2, "ue8m0")).toEqual([]);
    expect(faults("mxf4", 2, "ue8m0", 1)[0]).toContain("scale factor id 1 of A");
    expect(faults("mxf4", 2, "ue4m3")[0]).toContain("no factors of type ue4m3");
    expect(faults("mxf4", 4, "ue8m0")[0]).toContain("no scale_vec::4X");
    expect(faults("mxf4nvf4", 4, "ue4m3")).toEqual([]);
    expect(faults("mxf8f6f4", 1, "ue8m0", 3)).toEqual([]);
  });

  it("knows the legal shapes", () => {
    const count = (f: Tcgen05Form, m: number): number => {
      let shapes = 0;
      for (let n = 0; n <= 512; n++) if (tcgen05ShapeFaults(f, m, n).length === 0) shapes += 1;
      return shapes;
    };
    expect(count(form("f16"), 64)).toBe(32);
    expect(count(form("f16"), 128)).toBe(16);
    expect(count(form("f16"), 256)).toBe(0);
    expect(count(form("tf32", { group: 2 }), 256)).toBe(16);
    expect(count(form("tf32", { group: 2, aInTensor: true }), 256)).toBe(8);
    expect(count(form("i8"), 128)).toBe(17);
    expect(count(form("i8", { group: 2 }), 128)).toBe(8);
    expect(count(form("mxf8f6f4"), 128)).toBe(32);
    expect(count(form("mxf8f6f4"), 64)).toBe(0);
    expect(count(form("mxf8f6f4", { group: 2 }), 128)).toBe(0);
    expect(count(form("f16", { weightStationary: true }), 32)).toBe(3);
    expect(count(form("mxf4", { weightStationary: true }), 128)).toBe(0);
  });
});

describe("shared memory descriptor", () => {
  it("is the word that DeepGEMM and CUTLASS make for 128-byte rows", () => {
    const word = encodeSharedDescriptor({
      address: 0x8000,
      leading: 0,
      stride: 1024,
      baseOffset: 0,
      swizzle: "128B",
    });
    expect(word.toString(16)).toBe("4000404000000800");
  });

  it("reads back what was written", () => {
    fc.assert(
      fc.property(
        fc.record({
          address: fc.nat(0x3fff).map((x) => x * 16),
          leading: fc.nat(0x3fff).map((x) => x * 16),
          stride: fc.nat(0x3fff).map((x) => x * 16),
          baseOffset: fc.nat(7),
          swizzle: fc.constantFrom<SharedSwizzle[]>("none", "32B", "64B", "128B", "128B/32B"),
        }),
        (descriptor) => {
          expect(decodeSharedDescriptor(encodeSharedDescriptor(descriptor))).toEqual({
            descriptor,
            faults: [],
          });
        },
      ),
    );
  });

  it("names wrong version bits, reserved bits and swizzles", () => {
    const good = encodeSharedDescriptor({
      address: 0,
      leading: 0,
      stride: 64,
      baseOffset: 0,
      swizzle: "32B",
    });
    expect(decodeSharedDescriptor(good & ~(1n << 46n)).faults[0]).toContain("descriptor of wgmma");
    expect(decodeSharedDescriptor(good | (1n << 47n)).faults[0]).toContain("0b011");
    expect(decodeSharedDescriptor(good | (3n << 56n)).faults).toEqual([
      "bits 56 to 57 are reserved and have to be 0",
    ]);
    expect(decodeSharedDescriptor(good | (1n << 14n)).faults).toEqual(["bit 14 is reserved and has to be 0"]);
    expect(decodeSharedDescriptor(good | (1n << 52n)).faults[0]).toContain("sm_103a");
    expect(decodeSharedDescriptor(good | (1n << 61n))).toMatchObject({ descriptor: null });
  });

  it("admits the swizzles of table 54", () => {
    expect(swizzleFault("128B", "mn", 32)).not.toBeNull();
    expect(swizzleFault("128B/32B", "mn", 32)).toBeNull();
    expect(swizzleFault("128B/32B", "mn", 16)).not.toBeNull();
    expect(swizzleFault("128B/32B", "k", 32)).not.toBeNull();
    expect(swizzleFault("64B", "k", 4)).toBeNull();
  });

  it.each([
    // The examples of the ISA: strides in bytes, and the layout that they describe in elements.
    [
      "K, none, tf32",
      "none",
      "k",
      16,
      8,
      32,
      256,
      128,
      (r: number, k: number) => (r % 8) * 4 + Math.floor(r / 8) * 32 + (k % 4) + Math.floor(k / 4) * 64,
    ],
    [
      "K, 32B, tf32",
      "32B",
      "k",
      16,
      8,
      32,
      0,
      256,
      (r: number, k: number) => (r % 8) * 8 + Math.floor(r / 8) * 64 + k,
    ],
    [
      "MN, none, bf16",
      "none",
      "mn",
      16,
      16,
      16,
      256,
      128,
      (r: number, k: number) => (r % 8) + Math.floor(r / 8) * 64 + (k % 8) * 8 + Math.floor(k / 8) * 128,
    ],
    [
      "MN, 32B, bf16",
      "32B",
      "mn",
      32,
      16,
      16,
      256,
      512,
      (r: number, k: number) => (r % 16) + Math.floor(r / 16) * 128 + (k % 8) * 16 + Math.floor(k / 8) * 256,
    ],
    [
      "MN, 64B, bf16",
      "64B",
      "mn",
      64,
      16,
      16,
      512,
      1024,
      (r: number, k: number) => (r % 32) + Math.floor(r / 32) * 256 + (k % 8) * 32 + Math.floor(k / 8) * 512,
    ],
  ] as const)(
    "places pieces as the canonical layout %s",
    (_name, swizzle, major, rows, k, bits, leading, stride, place) => {
      const offsets = pieceOffsets({ swizzle, leading, stride }, major, rows, k, bits);
      const size = bits / 8;
      const each = 16 / size;
      const seen: number[] = [];
      offsets.forEach((offset, i) => {
        const across = major === "k" ? k / each : rows / each;
        const [outer, inner] = [Math.floor(i / across), (i % across) * each];
        for (let e = 0; e < each; e++) {
          const [r, at] = major === "k" ? [outer, inner + e] : [inner + e, outer];
          expect(offset + e * size).toBe(place(r, at) * size);
          seen.push(offset + e * size);
        }
      });
      expect(new Set(seen).size).toBe(rows * k);
    },
  );

  it("permutes pieces among themselves: what TMA writes swizzled is read back", () => {
    for (const [swizzle, row, atom, rows] of [
      ["32B", 32, 16, 8],
      ["64B", 64, 16, 8],
      ["128B", 128, 16, 8],
      ["128B/32B", 128, 32, 4],
    ] as const) {
      const seen = new Set<number>();
      for (let at = 0; at < row * rows; at++) {
        const to = swizzledAddress({ swizzle, baseOffset: 0 }, at);
        expect(to % atom).toBe(at % atom);
        expect(Math.floor(to / row)).toBe(Math.floor(at / row));
        seen.add(to);
      }
      expect(seen.size).toBe(row * rows);
    }
    // A pattern that begins one row of 128 bytes late, and says so.
    const late = swizzledAddress({ swizzle: "128B", baseOffset: 1 }, 1024 + 128 + 5 * 128 + 16);
    expect(late - 128).toBe(swizzledAddress({ swizzle: "128B", baseOffset: 0 }, 1024 + 5 * 128 + 16));
  });
});

describe("layouts of D", () => {
  it.each([
    [128, 1, false, "D", 128],
    [64, 1, false, "F", 64],
    [256, 2, false, "A", 128],
    [128, 2, false, "B", 64],
    [128, 1, true, "D", 128],
    [64, 1, true, "E", 64],
    [32, 1, true, "G", 32],
  ] as const)("M = %i of cta_group::%i, ws %s: layout %s covers its lanes once", (m, group, ws, id, rows) => {
    const layout = accumulatorLayout(m, group, ws);
    if (layout === null) throw new Error("no layout");
    expect([layout.id, layout.rows]).toEqual([id, rows]);
    const n = 64;
    const places = new Set<number>();
    const lanes = new Set<number>();
    for (let row = 0; row < rows; row++)
      for (let column = 0; column < n; column++) {
        const place = accumulatorPlace(layout, n, row, column);
        expect(place.column).toBeLessThan(n / layout.parts);
        expect(place.lane).toBeLessThan(128);
        places.add(place.lane * 512 + place.column);
        lanes.add(place.lane);
      }
    expect(places.size).toBe(rows * n);
    expect(lanes.size).toBe(id === "F" ? 64 : 128);
  });

  it("puts rows of M = 64 into the lower lanes of each quarter, and halves of N of a pair into halves of the lanes", () => {
    const half = accumulatorLayout(64, 1, false);
    const pair = accumulatorLayout(128, 2, false);
    if (half === null || pair === null) throw new Error("no layout");
    expect([0, 15, 16, 32, 63].map((row) => accumulatorPlace(half, 8, row, 3).lane)).toEqual([
      0, 15, 32, 64, 111,
    ]);
    expect(accumulatorPlace(pair, 256, 63, 127)).toEqual({ lane: 63, column: 127 });
    expect(accumulatorPlace(pair, 256, 1, 128)).toEqual({ lane: 65, column: 0 });
    expect(accumulatorLayout(256, 1, false)).toBeNull();
  });
});
