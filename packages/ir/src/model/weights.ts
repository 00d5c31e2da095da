/** What weights in few bits take: their bytes, and the work of warps that make them of their codes before they multiply. */
import { dtypes, isWeightType, type Problem, type WeightType } from "@tilewright/core";
import { weightsBelow } from "../tile/weights.ts";
import type { ModelKernel } from "./kernel.ts";
import { engineRow } from "./machine.ts";

/** Bytes of weights, with their factors, over those of as many elements of A's dtype; 1 of elements. */
export function weightRatio({ a, b, weights }: Pick<Problem, "a" | "b" | "weights">): number {
  if (weights === undefined) return 1;
  const { bits } = dtypes[a.dtype];
  return dtypes[b.dtype].bits / bits + (weights.zeros ? 2 : 1) / weights.group;
}

/** Instructions that make eight weights of a word of codes, as codegen has them: shifts, lop3 and multiply-adds; fewer where weights are made below themselves. */
const INSTRUCTIONS: Readonly<Record<WeightType, { readonly below: number; readonly plain: number }>> = {
  s4: { below: 9, plain: 15 },
  s8: { below: 10, plain: 18 },
  e2m1: { below: 19, plain: 23 },
  e4m3: { below: 18, plain: 22 },
};
/** Those that zero points of groups take besides: of codes that are made in one multiply-add, another. */
const POINTS = 4;
/** Lanes that an SM issues for in a cycle. */
const ISSUED = 128;

/** Bytes of k of a warpgroup's instruction, and bytes of registers that an SM reads for it in a cycle: 64 rows take 16 cycles, however few columns there are. */
const INSTRUCTION_BYTES = 32;
const REGISTER_BYTES = 128;

/**
 * Warpgroups take turns at an SM's tensor cores and at its issue slots. `beside`: the share of the making that adds to products of others, which read registers, too. `part`: cycles
 * of an SM for each part that a warpgroup waits for. `waitNs`: what a warpgroup waits for in a chunk beside its own work, which others hide. `together`: what those of one block,
 * which wait for the same slots, wait longer. `loads`: a load's latency while DRAM is busy, over that of an idle one [fit, H200: 256 kernels at 27 problems, 1 to 4096 rows, of four dtypes].
 */
const turns = { beside: 0.65, part: 13, waitNs: 92, together: 0.25, loads: 1.18 } as const;

/** Exponent between what all warpgroups of an SM keep busy and the way of one of them [fit, with `turns`]. */
export const weightNorm = 5.95;

/** Cycles of a chunk. */
interface WeightWork {
  /** Tensor cores. */
  readonly multiply: number;
  /** What making takes of the units that products keep busy. */
  readonly made: number;
  /** One warpgroup's own way through the chunk: it makes its weights, multiplies them, and waits. */
  readonly alone: number;
  /** What a slot is held for: by parts of two chunks at a time half a chunk longer. */
  readonly held: number;
  /** A load's latency over that of an idle machine. */
  readonly loads: number;
}

type Made = Pick<Problem, "a" | "alpha" | "b" | "weights">;

/** Cycles of an SM that issues what makes so many weights of their codes; none of elements. */
export function madeCycles(problem: Made, count: number): number {
  const { b, weights } = problem;
  if (weights === undefined || !isWeightType(b.dtype)) return 0;
  const { below, plain } = INSTRUCTIONS[b.dtype];
  const eight = weightsBelow(problem) > 0 ? below + (weights.zeros ? POINTS : 0) : plain;
  return ((eight / 8) * count) / ISSUED;
}

interface ChunkOf {
  /** Rows of weights of a block. */
  readonly rows: number;
  readonly kBytes: number;
  /** Cycles of products. */
  readonly products: number;
  readonly ghz: number;
}

/** What a chunk of weights costs an SM where warpgroups make them; null of elements, and where warps issue the products, which have it in constants of their own. */
export function weightWork(
  problem: Made,
  { engine, instruction, madeAhead, sets, tile }: ModelKernel,
  { rows, kBytes, products, ghz }: ChunkOf,
): WeightWork | null {
  const issued = engineRow(engine).asynchronous ? madeCycles(problem, rows * tile[2]) : 0;
  if (issued === 0) return null;
  const read = ((instruction[0] * INSTRUCTION_BYTES) / REGISTER_BYTES) * (rows / instruction[0]);
  const multiply = Math.max(products, read * (kBytes / INSTRUCTION_BYTES));
  const made = turns.beside * issued + turns.part * (madeAhead ? 2 : 1) * sets;
  const alone = ((multiply + issued) / sets + turns.waitNs * ghz) * (sets > 1 ? 1 + turns.together : 1);
  const held = Math.max(alone, multiply + made) + (madeAhead ? (multiply + issued) / 2 : 0);
  return { multiply, made, alone, held, loads: turns.loads };
}
