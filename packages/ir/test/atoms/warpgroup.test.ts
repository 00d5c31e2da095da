import type { DType } from "@tilewright/core";
import { describe, expect, it } from "vitest";
import {
  atoms,
  findAtom,
  findWarpgroupAtom,
  modeCoordinate,
  type Ownership,
  registersPerThread,
  warpgroupAtom,
  warpgroupWidths,
} from "../../src/index.ts";

const families: readonly (readonly [DType, DType, DType, number])[] = [
  ["f16", "f16", "f32", 16],
  ["f16", "f16", "f16", 16],
  ["bf16", "bf16", "f32", 16],
  ["tf32", "tf32", "f32", 8],
  ["e4m3", "e5m2", "f32", 32],
  ["e5m2", "e5m2", "f16", 32],
  ["s8", "u8", "s32", 32],
];

/** (row, column) of every register of every lane of every warp. */
function places(own: Ownership): readonly string[] {
  const out: string[] = [];
  for (let warp = 0; warp < 4; warp++)
    for (let thread = 0; thread < 32; thread++)
      for (let register = 0; register < registersPerThread(own); register++) {
        const at = { warp, thread, register };
        out.push(`${modeCoordinate(own.rows, at)},${modeCoordinate(own.cols, at)}`);
      }
  return out;
}

const rectangle = (rows: number, cols: number): ReadonlySet<string> =>
  new Set(Array.from({ length: rows * cols }, (_, i) => `${Math.floor(i / cols)},${i % cols}`));

describe("warpgroup atoms", () => {
  it.each(families)("%s x %s into %s: every element of every fragment has one place", (a, b, acc, k) => {
    for (const n of warpgroupWidths(a, b, acc)) {
      const atom = warpgroupAtom(a, b, acc, n);
      if (atom === null) throw new Error(`no atom of width ${n}`);
      expect([atom.m, atom.k, atom.shape]).toEqual([64, k, `m64n${n}k${k}`]);
      expect(findWarpgroupAtom(atom.name)).toEqual(atom);
      for (const [own, cols] of [
        [atom.fragments.acc, n],
        [atom.fragments.a, k],
      ] as const) {
        const list = places(own);
        expect(list.length).toBe(64 * cols);
        expect(new Set(list)).toEqual(rectangle(64, cols));
      }
    }
  });

  it("the accumulator of thread t is that of the ISA: rows 16w + t/4 + 8h, columns 8j + 2(t % 4) + e", () => {
    const own = warpgroupAtom("bf16", "bf16", "f32", 32)?.fragments.acc;
    if (own === undefined) throw new Error("no atom");
    for (let register = 0; register < 16; register++) {
      const [e, h, j] = [register % 2, Math.floor(register / 2) % 2, Math.floor(register / 4)];
      const at = { warp: 3, thread: 13, register };
      expect([modeCoordinate(own.rows, at), modeCoordinate(own.cols, at)]).toEqual([
        48 + 3 + 8 * h,
        8 * j + 2 + e,
      ]);
    }
  });

  it("integers leave out some widths, and nothing goes beyond 256", () => {
    expect(warpgroupWidths("s8", "s8", "s32").slice(0, 6)).toEqual([8, 16, 24, 32, 48, 64]);
    expect(warpgroupWidths("bf16", "bf16", "f32")).toHaveLength(32);
    expect(warpgroupAtom("bf16", "bf16", "f32", 264)).toBeNull();
    expect(warpgroupAtom("s8", "s8", "s32", 40)).toBeNull();
    expect(warpgroupAtom("f16", "bf16", "f32", 64)).toBeNull();
    expect(warpgroupWidths("f64", "f64", "f64")).toEqual([]);
  });

  it("names of one warp's atoms and of a warpgroup's are apart", () => {
    for (const { name } of atoms) expect(findWarpgroupAtom(name)).toBeNull();
    expect(findAtom("m64n256k16.f32.bf16.bf16")).toBeNull();
    expect(findWarpgroupAtom("m64n256k8.f32.bf16.bf16")).toBeNull();
  });
});
