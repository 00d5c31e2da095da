/** Warp-level instructions, atomics and half-used warps, each against a few lines of arithmetic. */
import { fc, test } from "@fast-check/vitest";
import { describe, expect } from "vitest";
import { clean, kernel, machine } from "./support.ts";

const lanes = fc.array(fc.integer({ min: -(2 ** 31), max: 2 ** 31 - 1 }), { minLength: 32, maxLength: 32 });

/** Runs `body` with the lane's value in %r1 and returns %r0 of each lane (and %r2 through `second`). */
function perLane(body: string, values: readonly number[], second = false): number[][] {
  const device = machine(
    kernel(
      `ld.param.u64 %d0, [in]; mad.wide.u32 %d0, %t, 8, %d0; ld.global.u32 %r1, [%d0]; mov.u32 %r2, 0;
      ${body} st.global.v2.u32 [%d0], {%r0, %r2};`,
      { params: ["in"] },
    ),
  );
  const buffer = device.put(Int32Array.from(values.flatMap((x) => [x, 0])));
  clean(device.launch("k", 1, values.length, [buffer]));
  const out = device.i32(buffer, 2 * values.length);
  return values.map((_, k) => (second ? [out[2 * k] ?? 0, out[2 * k + 1] ?? 0] : [out[2 * k] ?? 0]));
}
const at = (values: readonly number[], k: number): number => values[k] ?? 0;

describe("shfl.sync", () => {
  // Width of a segment as CUDA's shuffles have it: c = ((32 - width) << 8) | (mode up ? 0 : 31).
  const modes = {
    idx: (l: number, b: number, w: number) => (l & ~(w - 1)) | (b & (w - 1)),
    up: (l: number, b: number) => l - b,
    down: (l: number, b: number) => l + b,
    bfly: (l: number, b: number) => l ^ b,
  };
  for (const [mode, source] of Object.entries(modes))
    test.prop([lanes, fc.integer({ min: 0, max: 31 }), fc.constantFrom(2, 8, 16, 32)], { numRuns: 8 })(
      `${mode}, any offset and width`,
      (values, b, width) => {
        const c = ((32 - width) << 8) | (mode === "up" ? 0 : 31);
        const got = perLane(
          `shfl.sync.${mode}.b32 %r0|%p0, %r1, ${b}, ${c}, -1; selp.b32 %r2, 1, 0, %p0;`,
          values,
          true,
        );
        values.forEach((own, l) => {
          const j = source(l, b, width);
          const first = l & ~(width - 1);
          const inside =
            mode === "idx"
              ? true
              : mode === "up"
                ? j >= first
                : mode === "bfly"
                  ? j <= first + width - 1
                  : j < first + width;
          expect(got[l], `lane ${l}`).toEqual([inside ? at(values, j) : own, inside ? 1 : 0]);
        });
      },
    );
});

describe("redux, match, elect, vote", () => {
  const reductions: Readonly<Record<string, (v: readonly number[]) => number>> = {
    "add.s32": (v) => v.reduce((s, x) => (s + x) | 0, 0),
    "min.s32": (v) => Math.min(...v),
    "max.u32": (v) => Math.max(...v.map((x) => x >>> 0)) | 0,
    "and.b32": (v) => v.reduce((s, x) => s & x, -1),
    "or.b32": (v) => v.reduce((s, x) => s | x, 0),
    "xor.b32": (v) => v.reduce((s, x) => s ^ x, 0),
  };
  for (const [op, model] of Object.entries(reductions))
    test.prop([lanes], { numRuns: 3 })(`redux.sync.${op}`, (values) => {
      const got = perLane(`redux.sync.${op} %r0, %r1, -1;`, values);
      for (const [x] of got) expect(x).toBe(model(values));
    });
  // Lanes of one value name each other, and a group comes or stays away as its value says: the hardware takes disjoint groups one by one.
  test.prop([fc.array(fc.integer({ min: 0, max: 4 }), { minLength: 32, maxLength: 32 })], { numRuns: 6 })(
    "groups of lanes that match.any makes",
    (values) => {
      const groupOf = (l: number): readonly number[] =>
        values.flatMap((x, k) => (x === at(values, l) ? [k] : []));
      const grouped = (body: string): number[][] =>
        perLane(
          `mov.u32 %r0, 0; match.any.sync.b32 %r3, %r1, -1; setp.lt.u32 %p0, %r1, 2; @%p0 bra A; mov.u32 %r2, 7; A:
          setp.eq.u32 %p1, %r1, 3; @%p1 bra B; ${body} B:`,
          values,
        );
      const expected = (of: (l: number, group: readonly number[]) => number): number[][] =>
        values.map((x, l) => [x === 3 ? 0 : of(l, groupOf(l))]);
      expect(grouped("redux.sync.max.u32 %r0, %t, %r3;")).toEqual(expected((_, group) => Math.max(...group)));
      expect(grouped("redux.sync.add.s32 %r0, 1, %r3;")).toEqual(expected((_, group) => group.length));
      expect(grouped("setp.ge.u32 %p2, %t, 16; vote.sync.ballot.b32 %r0, %p2, %r3;")).toEqual(
        expected((_, group) => group.filter((k) => k >= 16).reduce((mask, k) => mask | (1 << k), 0)),
      );
      expect(grouped("elect.sync %r0|%p2, %r3;")).toEqual(expected((_, group) => Math.min(...group)));
    },
  );
  test("match.all, elect and a vote of half a warp", () => {
    const same = new Array<number>(32).fill(5);
    expect(perLane("match.all.sync.b32 %r0|%p0, %r1, -1; selp.b32 %r2, 1, 0, %p0;", same, true)[3]).toEqual([
      -1, 1,
    ]);
    expect(
      perLane(
        "match.all.sync.b32 %r0|%p0, %r1, -1; selp.b32 %r2, 1, 0, %p0;",
        [...same.slice(1), 6],
        true,
      )[3],
    ).toEqual([0, 0]);
    const upper = "setp.ge.u32 %p1, %t, 16; mov.u32 %r0, 0; @!%p1 bra OUT;";
    expect(
      perLane(`${upper} elect.sync %r0|%p0, 0xffff0000; selp.b32 %r2, 1, 0, %p0; OUT:`, same, true).slice(
        15,
        19,
      ),
    ).toEqual([
      [0, 0],
      [16, 1],
      [16, 0],
      [16, 0],
    ]);
    expect(
      perLane(
        `${upper} and.b32 %r3, %t, 1; setp.eq.u32 %p0, %r3, 0; vote.sync.ballot.b32 %r0, %p0, 0xffff0000; OUT:`,
        same,
      )[20],
    ).toEqual([0x55550000]);
  });
});

describe("atomics", () => {
  const types: Readonly<Record<string, (old: bigint, b: bigint) => bigint>> = {
    "add.u32": (o, b) => o + b,
    "add.u64": (o, b) => o + b,
    "min.s32": (o, b) => (BigInt.asIntN(32, o) < BigInt.asIntN(32, b) ? o : b),
    "max.u32": (o, b) => (o > b ? o : b),
    "max.s64": (o, b) => (BigInt.asIntN(64, o) > BigInt.asIntN(64, b) ? o : b),
    "and.b32": (o, b) => o & b,
    "or.b64": (o, b) => o | b,
    "xor.b32": (o, b) => o ^ b,
    "exch.b64": (_, b) => b,
    "inc.u32": (o, b) => (o >= b ? 0n : o + 1n),
    "dec.u32": (o, b) => (o === 0n || o > b ? b : o - 1n),
  };
  for (const space of ["global", "shared"])
    for (const [op, model] of Object.entries(types))
      test.prop(
        [fc.bigInt({ min: 0n, max: (1n << 64n) - 1n }), fc.bigInt({ min: 0n, max: (1n << 64n) - 1n })],
        { numRuns: 3 },
      )(`atom.${space}.${op}`, (first, operand) => {
        const width = op.endsWith("64") ? 64 : 32;
        const cut = (x: bigint): bigint => BigInt.asUintN(width, x);
        const r = width === 64 ? "%d" : "%r";
        const device = machine(
          kernel(
            `.shared .align 8 .b8 s[8]; ld.param.u64 %d0, [in]; ld.global.b${width} ${r}1, [%d0]; ld.global.b${width} ${r}2, [%d0+8];
            ${space === "shared" ? `st.shared.b${width} [s], ${r}1;` : ""} atom.${space}.${op} ${r}3, [${space === "shared" ? "s" : "%d0"}], ${r}2;
            ${space === "shared" ? `ld.shared.b${width} ${r}4, [s]; st.global.b${width} [%d0], ${r}4;` : ""} st.global.b${width} [%d0+16], ${r}3;`,
            { params: ["in"] },
          ),
        );
        const buffer = device.put(BigUint64Array.of(cut(first), cut(operand), 0n));
        clean(device.launch("k", 1, 1, [buffer]));
        const [now = 0n, , old] = device.u64(buffer, 3);
        expect(old).toBe(cut(first));
        expect(cut(now)).toBe(cut(model(cut(first), cut(operand))));
      });
  test("floating point, halves, compare and swap, vectors", () => {
    const device = machine(
      kernel(`ld.param.u64 %d0, [out]; mov.f32 %f0, 0f3F000000; red.global.add.f32 [%d0], %f0; mov.f64 %g0, 0d3FD0000000000000; red.global.add.f64 [%d0+8], %g0;
        mov.b32 %r0, 0x3c004000; red.global.add.noftz.f16x2 [%d0+16], %r0; atom.global.cas.b32 %r1, [%d0+20], 7, 9; atom.global.cas.b32 %r1, [%d0+20], 0, %r1;
        red.global.add.v2.f32 [%d0+24], {%f0, %f0};`),
    );
    const out = device.put(new Uint8Array(64));
    clean(device.launch("k", 1, 64, [out]));
    expect(Array.from(device.f32(out, 1))).toEqual([32]);
    expect(device.f64(out + 8n, 1)[0]).toBe(16);
    // 64 times 1 is 64 (0x5400), 64 times 2 is 128 (0x5800).
    expect(device.u32(out + 16n, 1)[0]).toBe(0x54005800);
    expect(Array.from(device.f32(out + 24n, 2))).toEqual([32, 32]);
  });
});
