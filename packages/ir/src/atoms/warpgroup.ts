/**
 * Matrix instructions of a warpgroup as data: A and B come from shared memory through descriptors (or A from registers), the accumulator lies in the
 * registers of four warps (PTX ISA 9.0, chapter 9.7.15: wgmma). Every shape has m = 64; n is a multiple of 8 up to 256.
 */
import { type DType, dtypes, type Feature, packedSize } from "@tilewright/core";
import type { Ownership, OwnershipMode } from "../tile/types.ts";
import { elementsPerRegister } from "./atoms.ts";

export interface WarpgroupAtom {
  /** Its name in a program's text: `m64n256k16.f32.bf16.bf16`, accumulator before A and B. */
  readonly name: string;
  /** `m64n256k16`, as PTX writes it. */
  readonly shape: string;
  readonly m: number;
  readonly n: number;
  readonly k: number;
  readonly a: DType;
  readonly b: DType;
  readonly acc: DType;
  readonly feature: Feature;
  /** Whether operands in shared memory may be contiguous along m and n too (16-bit types); others are contiguous along k. */
  readonly transposes: boolean;
  /** Accumulator and A in registers: tiers `warp` (of the warpgroup), `thread` and `register`, which counts elements. */
  readonly fragments: { readonly a: Ownership; readonly acc: Ownership };
}

const WARPS = 4;
const M = 64;

const warp = (extent: number): OwnershipMode => ({ tier: "warp", extent, stride: 1 });
const lane = (extent: number, stride: number): OwnershipMode => ({ tier: "thread", extent, stride });
const register = (extent: number, stride: number): OwnershipMode => ({ tier: "register", extent, stride });

interface Family {
  /** Bytes of k are 32 in all of them. */
  readonly acc: DType;
  /** A and B are any two of these. */
  readonly types: readonly DType[];
  /** Whether n may be any multiple of 8; otherwise 8, 24 and the multiples of 16. */
  readonly everyN: boolean;
}

const K_BYTES = 32;
const MAX_N = 256;

const families: readonly Family[] = [
  { acc: "f32", types: ["f16"], everyN: true },
  { acc: "f32", types: ["bf16"], everyN: true },
  { acc: "f16", types: ["f16"], everyN: true },
  { acc: "f32", types: ["tf32"], everyN: true },
  { acc: "f32", types: ["e4m3", "e5m2"], everyN: true },
  { acc: "f16", types: ["e4m3", "e5m2"], everyN: true },
  { acc: "s32", types: ["s8", "u8"], everyN: false },
];

const familyOf = (a: DType, b: DType, acc: DType): Family | undefined =>
  families.find((f) => f.acc === acc && f.types.includes(a) && f.types.includes(b));

const legalN = (family: Family, n: number): boolean =>
  n >= 8 && n <= MAX_N && n % 8 === 0 && (family.everyN || n === 8 || n === 24 || n % 16 === 0);

/** Legal widths of each family, ascending: they are asked for with every schedule that is looked at. */
const widthsOf = new Map(
  families.map((family) => [
    family,
    Array.from({ length: MAX_N / 8 }, (_, i) => 8 * (i + 1)).filter((n) => legalN(family, n)),
  ]),
);

/** Widths n that the instruction of these dtypes has, ascending; empty where there is no such instruction. */
export function warpgroupWidths(a: DType, b: DType, acc: DType): readonly number[] {
  const family = familyOf(a, b, acc);
  return (family === undefined ? undefined : widthsOf.get(family)) ?? [];
}

/** The atom of a width; null where there is none. */
export function warpgroupAtom(a: DType, b: DType, acc: DType, n: number): WarpgroupAtom | null {
  const family = familyOf(a, b, acc);
  if (family === undefined || !legalN(family, n)) return null;
  const bytes = packedSize(a);
  const k = K_BYTES / bytes;
  const run = elementsPerRegister(a);
  const shape = `m${M}n${n}k${k}`;
  return {
    name: `${shape}.${acc}.${a}.${b}`,
    shape,
    m: M,
    n,
    k,
    a,
    b,
    acc,
    feature: "wgmma",
    transposes: bytes === 2,
    fragments: {
      // Rows 16w + 8h + lane / 4; each 16 bytes of k are four lanes of one register.
      a: {
        rows: [warp(WARPS), register(2, run), lane(8, 4)],
        cols: [register(2, 2 * run), lane(4, 1), ...(run > 1 ? [register(run, 1)] : [])],
      },
      // Rows as A's; columns 8j + 2(lane % 4) + e in element 4j + 2h + e.
      acc: {
        rows: [warp(WARPS), register(2, 2), lane(8, 4)],
        cols: [...(n > 8 ? [register(n / 8, 4)] : []), lane(4, 1), register(2, 1)],
      },
    },
  };
}

/** The atom of a name; null where there is none. */
export function findWarpgroupAtom(name: string): WarpgroupAtom | null {
  const match = /^m64n(\d+)k\d+\.(\w+)\.(\w+)\.(\w+)$/.exec(name);
  const isDType = (word: string | undefined): word is DType => word !== undefined && word in dtypes;
  const [, n, acc, a, b] = match ?? [];
  if (!isDType(a) || !isDType(b) || !isDType(acc)) return null;
  const atom = warpgroupAtom(a, b, acc, Number(n));
  return atom?.name === name ? atom : null;
}
