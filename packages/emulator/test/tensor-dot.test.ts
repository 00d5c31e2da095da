/** Tile products: the WebAssembly form against the JavaScript form, bit for bit, and rows as they lie in memory. */
import { encode, f32Bits } from "@tilewright/core";
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { bitsOfKind, decodeRow, type RowFormat } from "../src/numerics/decode-rows.ts";
import { dotUnit, places } from "../src/numerics/dot-unit.ts";
import {
  type DotShape,
  fragmentDot,
  fragmentWord,
  plainDot,
  plainDotInt,
  stepDot,
  tileDot,
  tileDotInt,
} from "../src/numerics/tensor-dot.ts";
import { arithmeticOf, asyncStepOf, type TensorKind } from "../src/numerics/tensorcore.ts";

const kinds = ["f16", "bf16", "tf32", "e4m3", "e5m2", "e2m3", "e3m2", "e2m1"] as const;
const architectures = ["sm_70", "sm_75", "sm_80", "sm_89", "sm_90", "sm_100", "sm_120"] as const;

/** Every code of a format, as the f32 that a tensor core sees. */
function decoded(kind: TensorKind, code: number): number {
  const bytes = new Uint8Array(Uint32Array.of(code).buffer);
  const out = new Float32Array(1);
  decodeRow(kind, bytes, 0, 1, out, 0);
  return out[0] ?? 0;
}
const random = (seed: number): ((below: number) => number) => {
  let state = seed | 1;
  return (below) => {
    state = (Math.imul(state, 1664525) + 1013904223) | 0;
    return Math.floor(((state >>> 8) / 2 ** 24) * below);
  };
};

type Data = "bits" | "near" | "cancelling" | "sparse" | "tiny" | "huge";
/** Elements of A or B. */
function element(kind: TensorKind, data: Data, pick: (below: number) => number): number {
  const codes = 2 ** bitsOfKind(kind);
  const any = (): number => decoded(kind, pick(65536) * 65536 + pick(65536) * 1);
  const near = (): number => decoded(kind, encode(kind, (pick(4096) - 2048) / 1024));
  switch (data) {
    case "bits":
      return kind === "tf32" ? any() : decoded(kind, pick(codes));
    case "near":
      return near();
    case "cancelling":
      return decoded(kind, encode(kind, pick(2) === 0 ? 1 : -1));
    case "sparse":
      return pick(3) > 0 ? (pick(2) === 0 ? 0 : -0) : near();
    case "tiny":
      return decoded(kind, pick(4));
    case "huge":
      return decoded(kind, encode(kind, (pick(2) - 0.5) * 2 ** (100 + pick(28)), "rn", "saturate"));
    default:
      data satisfies never;
      return 0;
  }
}
function accumulator(type: DotShape["accumulator"], pick: (below: number) => number): number {
  if (type === "f16") return decoded("f16", pick(65536));
  const words = new Uint32Array([pick(65536) * 65536 + pick(65536)]);
  const any = new Float32Array(words.buffer)[0] ?? 0;
  return [0, -0, 1.5, any, any * 2 ** -20, 2 ** -149][pick(6)] ?? 0;
}

describe("the WebAssembly form", () => {
  test("is there", () => {
    expect(dotUnit()).not.toBeNull();
  });

  for (const target of architectures)
    test(`gives the bits of the JavaScript form for ${target}`, () => {
      const arithmetic = arithmeticOf(target);
      if (arithmetic === null) throw new Error(target);
      fc.assert(
        fc.property(
          fc.constantFrom(...kinds),
          fc.constantFrom(...kinds),
          fc.constantFrom<Data>("bits", "near", "cancelling", "sparse", "tiny", "huge"),
          fc.constantFrom<DotShape["accumulator"]>("f32", "f16"),
          fc.constantFrom(8, 24),
          fc.constantFrom(8, 16, 32, 64),
          fc.integer(),
          (aKind, other, data, type, n, k, seed) => {
            const narrow = bitsOfKind(aKind) <= 8 && bitsOfKind(other) <= 8;
            const shape = { aKind, bKind: narrow ? other : aKind, m: 3, n, k, accumulator: type };
            const pick = random(seed);
            const a = Float32Array.from({ length: 3 * k }, () => element(shape.aKind, data, pick));
            const b = Float32Array.from({ length: n * k }, () => element(shape.bKind, data, pick));
            const c = Float32Array.from({ length: 3 * n }, () => accumulator(type, pick));
            const [slow, fast] = [c.slice(), c.slice()];
            const step = asyncStepOf(arithmetic, aKind);
            plainDot(step, shape, a, b, slow);
            stepDot(step, shape, a, b, fast);
            expect([...new Uint32Array(fast.buffer)]).toEqual([...new Uint32Array(slow.buffer)]);
          },
        ),
        { numRuns: 250, seed: 5 },
      );
    });

  test("with accumulators as registers hold them gives the same bits", () => {
    const unit = dotUnit();
    const arithmetic = arithmeticOf("sm_90a");
    if (unit === null || arithmetic === null) throw new Error("no unit");
    // Register and lane of D's elements, 16 rows to a warp (PTX ISA 9.0, chapter 9.7.15.5.1.1).
    const wordOf = (n: number, row: number, column: number): number => {
      const register = (row >> 4) * (n / 2) + (column >> 3) * 4 + ((row >> 3) & 1) * 2 + (column & 1);
      return fragmentWord(register) + (row & 7) * 4 + ((column >> 1) & 3);
    };
    fc.assert(
      fc.property(
        fc.constantFrom("f16", "bf16", "tf32", "e4m3"),
        fc.constantFrom<Data>("bits", "near", "sparse", "tiny", "huge"),
        fc.constantFrom(8, 24),
        fc.integer(),
        (kind, data, n, seed) => {
          const [m, k] = [32, 32];
          const shape = { aKind: kind, bKind: kind, m, n, k, accumulator: "f32" } as const;
          const pick = random(seed);
          const a = Float32Array.from({ length: m * k }, () => element(kind, data, pick));
          const b = Float32Array.from({ length: n * k }, () => element(kind, data, pick));
          const want = Float32Array.from({ length: m * n }, () => accumulator("f32", pick));
          const bits = new Int32Array(want.buffer);
          for (let at = 0; at < m * n; at++)
            unit.words[wordOf(n, Math.floor(at / n), at % n)] = bits[at] ?? 0;
          const step = asyncStepOf(arithmetic, kind);
          fragmentDot(unit, step, shape, a, b);
          const got = Int32Array.from(
            bits,
            (_, at) => unit.words[wordOf(n, Math.floor(at / n), at % n)] ?? 0,
          );
          plainDot(step, shape, a, b, want);
          expect([...got]).toEqual([...bits]);
        },
      ),
      { numRuns: 200, seed: 8 },
    );
  });

  test("decodes every f16 and bf16 to the f32 of the same value", () => {
    const unit = dotUnit();
    if (unit === null) throw new Error("no unit");
    const codes = Uint16Array.from({ length: 65536 }, (_, code) => code);
    for (const kind of ["f16", "bf16"] as const) {
      // As many at a time as an operand has at most.
      for (let from = 0; from < 65536; from += 16384) {
        const bytes = new Uint8Array(codes.slice(from, from + 16384).buffer);
        const want = new Float32Array(16384);
        decodeRow(kind, bytes, 0, 16384, want, 0);
        unit.decode(kind, bytes, 16384, places.a);
        // Which NaN it is does not matter: results have one of their own.
        const plain = (values: Float32Array): number[] =>
          Array.from(values, (x) => (Number.isNaN(x) ? 7 : f32Bits(x)));
        const got = unit.floats.subarray(places.a >> 2, (places.a >> 2) + 16384);
        expect(plain(got), `${kind} from ${from}`).toEqual(plain(want));
      }
    }
  });

  test("of integers wraps and saturates as the JavaScript form does", () => {
    const byte = fc.integer({ min: -128, max: 255 });
    const word = fc.oneof(fc.integer(), fc.constantFrom(2 ** 31 - 1, -(2 ** 31), 2 ** 31 - 40000));
    fc.assert(
      fc.property(
        fc.array(byte, { minLength: 64, maxLength: 64 }),
        fc.array(byte, { minLength: 256, maxLength: 256 }),
        fc.array(word, { minLength: 16, maxLength: 16 }),
        fc.boolean(),
        (a, b, c, saturate) => {
          const shape = { m: 2, n: 8, k: 32 };
          const [slow, fast] = [Int32Array.from(c), Int32Array.from(c)];
          plainDotInt(shape, Int16Array.from(a), Int16Array.from(b), slow, saturate);
          tileDotInt(shape, Int16Array.from(a), Int16Array.from(b), fast, saturate);
          expect(fast).toEqual(slow);
        },
      ),
      { numRuns: 200, seed: 6 },
    );
  });
});

describe("arithmetic of the asynchronous instructions", () => {
  const one = (target: string, kind: TensorKind, a: readonly number[], b: readonly number[], c: number) => {
    const arithmetic = arithmeticOf(target);
    if (arithmetic === null) throw new Error(target);
    const shape = { aKind: kind, bKind: kind, m: 1, n: 8, k: a.length, accumulator: "f32" } as const;
    const out = new Float32Array(8).fill(c);
    const rows = Float32Array.from({ length: 8 * a.length }, (_, i) => b[i % a.length] ?? 0);
    tileDot(arithmetic, shape, Float32Array.from(a), rows, out);
    return out[0];
  };
  const zeros = (count: number): number[] => new Array<number>(count).fill(0);

  test("fp8 of Hopper keeps 13 bits below the largest term, that of Blackwell 25", () => {
    const a = [256, 0.5, ...zeros(30)];
    const b = [1, 2 ** -6, ...zeros(30)];
    // 256 + 2^-7: fifteen bits apart.
    expect(one("sm_90a", "e4m3", a, b, 0)).toBe(256);
    expect(one("sm_100a", "e4m3", a, b, 0)).toBe(256 + 2 ** -7);
  });

  test("chained steps of f16 cut towards zero sixteen elements at a time", () => {
    // 1 and one half of its last place, twice, within one step and in two: 2^-24 is kept inside a step only.
    const ulp = 2 ** -24;
    expect(one("sm_90a", "f16", [ulp, ulp, ...zeros(14)], [1, 1, ...zeros(14)], 1)).toBe(1 + 2 * ulp);
    const apart = [ulp, ...zeros(15), ulp, ...zeros(15)];
    expect(
      one(
        "sm_90a",
        "f16",
        apart,
        apart.map((x) => (x === 0 ? 0 : 1)),
        1,
      ),
    ).toBe(1);
  });

  test("block scales multiply their blocks, exactly", () => {
    const arithmetic = arithmeticOf("sm_100a");
    if (arithmetic === null) throw new Error("sm_100a");
    const run = (aKind: TensorKind, k: number, block: 16 | 32, format: "ue8m0" | "ue4m3") => {
      const shape = { aKind, bKind: aKind, m: 1, n: 8, k, accumulator: "f32" } as const;
      const out = new Float32Array(8).fill(0.5);
      const blocks = k / block;
      const a = Float32Array.from({ length: k }, (_, i) => ((i % 3) - 1) * 1.5);
      const b = Float32Array.from({ length: 8 * k }, (_, i) => (i % 5) - 2);
      const scale = (i: number): number => (format === "ue8m0" ? 2 ** ((i % 4) - 2) : 1 + (i % 7) / 8);
      const scales = {
        block,
        format,
        a: Float32Array.from({ length: blocks }, (_, i) => scale(i)),
        b: Float32Array.from({ length: 8 * blocks }, (_, i) => scale(i + 1)),
      };
      tileDot(arithmetic, shape, a, b, out, scales);
      const want = Float32Array.from({ length: 8 }, (_, n) => {
        let sum = 0.5;
        for (let i = 0; i < k; i++) {
          const at = Math.floor(i / block);
          sum += (a[i] ?? 0) * (b[n * k + i] ?? 0) * (scales.a[at] ?? 0) * (scales.b[n * blocks + at] ?? 0);
        }
        return sum;
      });
      expect(out).toEqual(want);
    };
    run("e4m3", 32, 32, "ue8m0");
    run("e2m1", 64, 32, "ue8m0");
    run("e2m1", 64, 16, "ue4m3");
  });
});

describe("rows in memory", () => {
  test("every code is the number of its format, at any place", () => {
    const formats: readonly RowFormat[] = ["f16", "bf16", "e4m3", "e5m2", "e2m3", "e3m2", "e2m1", "ue8m0"];
    for (const format of formats) {
      const bits = bitsOfKind(format);
      const count = Math.min(2 ** bits, 1024);
      const codes = Array.from({ length: count }, (_, i) => (i * 37) % 2 ** bits);
      const bytes = new Uint8Array((count * bits) / 8 + 4);
      codes.forEach((code, i) => {
        for (let bit = 0; bit < bits; bit++)
          if ((code >> bit) & 1) {
            const at = 16 + i * bits + bit;
            bytes[at >> 3] = (bytes[at >> 3] ?? 0) | (1 << (at & 7));
          }
      });
      const out = new Float32Array(count);
      decodeRow(format, bytes, 2, count, out, 0);
      codes.forEach((code, i) => {
        const alone = new Float32Array(1);
        decodeRow(format, Uint8Array.of(code & 255, code >> 8), 0, 1, alone, 0);
        expect(out[i], `${format} ${code}`).toBe(alone[0]);
      });
    }
    const known = [
      ["e2m1", 0x7, 6],
      ["e2m3", 0x1f, 7.5],
      ["e3m2", 0x1f, 28],
      ["e4m3", 0x7e, 448],
      ["e5m2", 0x7b, 57344],
      ["ue8m0", 130, 8],
      ["ue4m3", 0x38, 1],
    ] as const;
    for (const [format, code, value] of known) {
      const out = new Float32Array(1);
      decodeRow(format, Uint8Array.of(code, 0), 0, 1, out, 0);
      expect(out[0]).toBe(value);
    }
  });

  test("padded elements stand sixteen to sixteen bytes; the low bits of a tf32 are not there", () => {
    const bytes = new Uint8Array(32);
    bytes[0] = 0x42;
    bytes[16] = 0x07;
    const out = new Float32Array(17);
    decodeRow("e2m1", bytes, 0, 17, out, 0, "padded");
    expect([out[0], out[1], out[2], out[16]]).toEqual([1, 2, 0, 6]);
    const word = new Uint8Array(Uint32Array.of(0x3f801fff).buffer);
    decodeRow("tf32", word, 0, 1, out, 0);
    expect(out[0]).toBe(1);
  });
});
