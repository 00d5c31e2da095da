/** What a wgmma computes when it runs: operands from shared memory and registers to numbers, the product, and back. */
import type { Operand, Register } from "../load/types.ts";
import type { Machine, Warp } from "../machine/state.ts";
import { gatherRows } from "../machine/tcgen05-operands.ts";
import { decodeRow } from "../numerics/decode-rows.ts";
import { fromF16, toF16 } from "../numerics/floats.ts";
import { gatherStored } from "../numerics/sparsity.ts";
import { fragmentDot, fragmentUnit, fragmentWord, tileDot, tileDotInt } from "../numerics/tensor-dot.ts";
import { asyncStepOf } from "../numerics/tensorcore.ts";
import { laneZero } from "./aligned.ts";
import { type Fragment, fragmentIndex, warpgroupAccumulator, warpgroupOperand } from "./fragments.ts";
import { rowsOfRegisters } from "./register-rows.ts";
import type { Sparsity } from "./sparse.ts";

export interface WgmmaForm {
  readonly n: number;
  readonly k: number;
  /** Elements of a row of A that are stored: k, or half of it where A is sparse. */
  readonly depth: number;
  readonly sparsity: Sparsity | null;
  readonly dType: "f32" | "f16" | "s32";
  readonly aType: "f16" | "bf16" | "tf32" | "e4m3" | "e5m2" | "s8" | "u8";
  readonly bType: WgmmaForm["aType"];
  readonly saturate: boolean;
  readonly accumulators: readonly Register[];
  /** A in registers; empty when it is in shared memory. */
  readonly aRegisters: readonly Register[];
  readonly a: Operand | null;
  readonly b: Operand;
  readonly aSign: 1 | -1;
  readonly bSign: 1 | -1;
  readonly aMajor: "k" | "mn";
  readonly bMajor: "k" | "mn";
  /** Of an element of A and B. */
  readonly bits: 8 | 16 | 32;
}

/** Rows of A and D, and of each warp. */
const m = 64;
const warpRows = 16;

/**
 * Pieces are those of the operands in shared memory; A's is null when it is in registers. Positions: where the stored elements of a sparse
 * A stand, warp by warp; none for a dense A.
 */
export type WgmmaProduct = (
  warps: readonly Warp[],
  accumulate: boolean,
  a: Int32Array | null,
  b: Int32Array,
  positions: readonly Int32Array[],
) => void;

/** Element numbers in [rows][width] of a fragment of 16 rows. */
const indexOf = (fragment: Fragment, width: number, column: "n" | "k"): Int32Array =>
  fragmentIndex(fragment, (at) => at.m * width + at[column]);

/** A's registers as the bytes of its rows. */
function registerRows(machine: Machine, form: WgmmaForm): (warps: readonly Warp[]) => Uint8Array {
  const { bits, depth: k } = form;
  const fragment = warpgroupOperand(bits);
  const rows = new Int32Array((m * k * bits) / 32);
  const load = rowsOfRegisters(machine, form.aRegisters, indexOf(fragment, k, "k"), fragment.parts);
  return (warps) => {
    warps.forEach((warp, w) => {
      load(warp, rows, (w * rows.length * warpRows) / m);
    });
    return new Uint8Array(rows.buffer);
  };
}

/** The product of a form on a machine; buffers are its own. */
export function wgmmaProduct(machine: Machine, form: WgmmaForm): WgmmaProduct {
  return form.dType === "s32" ? integers(machine, form) : floats(machine, form);
}

function rowsOf(machine: Machine, form: WgmmaForm) {
  const fromRegisters = registerRows(machine, form);
  const shared = (warp: Warp, pieces: Int32Array, rows: number, k: number, major: "k" | "mn"): Uint8Array =>
    gatherRows(machine.arena, warp.sharedBase, pieces, { rows, k, bits: form.bits, major });
  return {
    a: (warps: readonly Warp[], pieces: Int32Array | null): Uint8Array => {
      const [warp] = warps;
      return pieces === null || warp === undefined
        ? fromRegisters(warps)
        : shared(warp, pieces, m, form.depth, form.aMajor);
    },
    b: (warp: Warp, pieces: Int32Array): Uint8Array => shared(warp, pieces, form.n, form.k, form.bMajor),
  };
}

function floats(machine: Machine, form: WgmmaForm): WgmmaProduct {
  const { n, k, depth, sparsity, aType, bType, dType } = form;
  if (aType === "s8" || aType === "u8" || bType === "s8" || bType === "u8") return () => undefined;
  const half = dType === "f16";
  const shape = { aKind: aType, bKind: bType, m, n, k: depth, accumulator: half ? "f16" : "f32" } as const;
  const rows = rowsOf(machine, form);
  const a = new Float32Array(m * depth);
  const b = new Float32Array(n * k);
  const d = new Float32Array(m * n);
  const bits = new Int32Array(d.buffer);
  const index = indexOf(warpgroupAccumulator(half ? 16 : 32, n), n, "n");
  const step = asyncStepOf(machine.arithmetic, aType);
  const unit = half || sparsity !== null ? null : fragmentUnit(step, k);
  return (warps, accumulate, aPieces, bPieces, positions) => {
    const [first] = warps;
    if (first === undefined) return;
    const { words } = machine.arena;
    if (unit !== null) {
      // The code takes the accumulators as the registers have them.
      moveAccumulators(warps, form, (at, to, count) => {
        if (accumulate) unit.words.set(words.subarray(at, at + count), to);
        else unit.words.fill(0, to, to + count);
      });
      fragmentDot(
        unit,
        step,
        shape,
        { bytes: () => rows.a(warps, aPieces), negated: form.aSign < 0 },
        { bytes: () => rows.b(first, bPieces), negated: form.bSign < 0 },
      );
      moveAccumulators(warps, form, (at, from, count) => {
        words.set(unit.words.subarray(from, from + count), at);
      });
      return;
    }
    decodeRow(aType, rows.a(warps, aPieces), 0, m * depth, a, 0);
    decodeRow(bType, rows.b(first, bPieces), 0, n * k, b, 0);
    if (form.aSign < 0) negate(a);
    if (form.bSign < 0) negate(b);
    if (!accumulate) d.fill(0);
    else
      each(warps, form, (at, base, r) => {
        for (let lane = 0; lane < 32; lane++) {
          const word = words[at + lane] as number;
          if (!half) bits[base + (index[r * 32 + lane] as number)] = word;
          else {
            d[base + (index[(r * 32 + lane) * 2] as number)] = fromF16(word & 0xffff);
            d[base + (index[(r * 32 + lane) * 2 + 1] as number)] = fromF16(word >>> 16);
          }
        }
      });
    if (sparsity === null) tileDot(machine.arithmetic, shape, a, b, d);
    else
      eachSparseRow(form, positions, a, b, d, (row, met, sums) =>
        tileDot(machine.arithmetic, { ...shape, m: 1 }, row, met, sums),
      );
    each(warps, form, (at, base, r) => {
      for (let lane = 0; lane < 32; lane++) {
        if (!half) words[at + lane] = bits[base + (index[r * 32 + lane] as number)] as number;
        else {
          const low = toF16(d[base + (index[(r * 32 + lane) * 2] as number)] as number);
          const high = toF16(d[base + (index[(r * 32 + lane) * 2 + 1] as number)] as number);
          words[at + lane] = low | (high << 16);
        }
      }
    });
  };
}

/** Accumulator registers, those that are neighbours in the register file together: first word there and in the unit, and words. */
function moveAccumulators(
  warps: readonly Warp[],
  { accumulators }: WgmmaForm,
  move: (at: number, unit: number, count: number) => void,
): void {
  const { length } = accumulators;
  warps.forEach((warp, w) => {
    for (let r = 0; r < length; ) {
      const first = accumulators[r] as Register;
      let end = r + 1;
      while (end < length && accumulators[end]?.slot === first.slot + end - r) end += 1;
      move(laneZero(warp, first), fragmentWord(w * length + r), 32 * (end - r));
      r = end;
    }
  });
}

/** The rows of a sparse A, each with the elements of B that it meets and its row of D. */
function eachSparseRow<T extends Float32Array | Int16Array, D extends Float32Array | Int32Array>(
  { n, k, depth }: WgmmaForm,
  positions: readonly Int32Array[],
  a: T,
  b: T,
  d: D,
  visit: (row: T, met: T, sums: D) => void,
): void {
  const met = b.slice(0, n * depth) as T;
  for (let row = 0; row < m; row++) {
    const where = positions[Math.floor(row / warpRows)];
    if (where === undefined) continue;
    gatherStored(b, k, where, row % warpRows, met);
    visit(a.subarray(row * depth, (row + 1) * depth) as T, met, d.subarray(row * n, (row + 1) * n) as D);
  }
}

function negate(values: Float32Array): void {
  for (let i = 0; i < values.length; i++) values[i] = -(values[i] as number);
}

/** Every accumulator register of every warp: its first word, the number of the warp's first element, its number. */
function each(
  warps: readonly Warp[],
  { accumulators, n }: WgmmaForm,
  visit: (at: number, base: number, r: number) => void,
): void {
  warps.forEach((warp, w) => {
    accumulators.forEach((register, r) => {
      visit(laneZero(warp, register), w * warpRows * n, r);
    });
  });
}

function integers(machine: Machine, form: WgmmaForm): WgmmaProduct {
  const { n, k, depth } = form;
  const rows = rowsOf(machine, form);
  const a = new Int16Array(m * depth);
  const b = new Int16Array(n * k);
  const d = new Int32Array(m * n);
  const index = indexOf(warpgroupAccumulator(32, n), n, "n");
  const extend = (from: Uint8Array, to: Int16Array, signed: boolean): void => {
    for (let i = 0; i < to.length; i++) {
      const byte = from[i] as number;
      to[i] = signed ? (byte << 24) >> 24 : byte;
    }
  };
  return (warps, accumulate, aPieces, bPieces, positions) => {
    const [first] = warps;
    if (first === undefined) return;
    extend(rows.a(warps, aPieces), a, form.aType === "s8");
    extend(rows.b(first, bPieces), b, form.bType === "s8");
    const { words } = machine.arena;
    if (!accumulate) d.fill(0);
    else
      each(warps, form, (at, base, r) => {
        for (let lane = 0; lane < 32; lane++)
          d[base + (index[r * 32 + lane] as number)] = words[at + lane] as number;
      });
    if (form.sparsity === null) tileDotInt({ m, n, k }, a, b, d, form.saturate);
    else
      eachSparseRow(form, positions, a, b, d, (row, met, sums) =>
        tileDotInt({ m: 1, n, k: depth }, row, met, sums, form.saturate),
      );
    each(warps, form, (at, base, r) => {
      for (let lane = 0; lane < 32; lane++)
        words[at + lane] = d[base + (index[r * 32 + lane] as number)] as number;
    });
  };
}
