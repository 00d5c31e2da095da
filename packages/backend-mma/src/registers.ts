/** Registers of a thread: what a schedule needs, estimated, and what its block may have. */
import {
  dtypes,
  hasFeature,
  launchableRegisters,
  type Problem,
  packedSize,
  type Target,
} from "@tilewright/core";
import type { Atom } from "@tilewright/ir";
import { type MmaSchedule, threadsOf } from "./schedule.ts";

/**
 * Registers that a thread needs beside accumulators and fragments: pointers, shared addresses, counters, sizes of guarded copies.
 * Measured with ptxas 13.0 over the conformance schedules: 20 to 50.
 */
const OVERHEAD_REGISTERS = 48;

/**
 * The same where a warp of its own makes the copies. The fragments of one step are then loaded as their instructions free registers: ptxas 13.0 fits
 * 128 accumulators and fragments of 64 x 64 into 166. Of two sets of fragments it holds both and what leads to them: warps of 48 x 64, with 152 registers of sums and fragments, spill 12 to 132
 * bytes of 168.
 */
const BULK_OVERHEAD_REGISTERS = 8;
const BULK_TWICE_OVERHEAD_REGISTERS = 24;

/**
 * Where the tensor cores have no 8-bit floats for mma.sync, ptxas widens the fragments to f16 (sm_90 and sm_100; ptxas 13.0, 64 x 32 warp tiles). Counted on
 * all targets from sm_90 on.
 */
const WIDENED_REGISTERS = 48;

export const isWidened = (atom: Atom, target: Target): boolean =>
  atom.feature === "mma.e4m3" && hasFeature(target, "tma");

/**
 * Where f32 is multiplied in parts: the sums of the atoms that take turns, and what else there is beside both parts of the fragments where these are not loaded
 * early (ptxas 13.0: 115 registers for warps of 32 x 32, 155 to 210 for 64 x 32; with fragments loaded early 182 for 32 x 32, and 64 x 32 spills).
 */
const PARTS_REGISTERS = 16;
const PARTS_OVERHEAD_REGISTERS = 16;
/** Instructions along k whose fragments ptxas loads together; of f32 in four parts it loads half while the others are multiplied (253 to 255 registers for 64 x 32). */
const LOADED_AT_ONCE = 2;

/** Values of a group beside the sums that they are made of: ptxas 13.0 spills 8 registers of warps of 64 x 64 that may have 168 (sm_120a, groups of 16 and 32). */
export const QUANTIZED_REGISTERS = 8;

/** Elements of four bytes that come word by word, since they lie across k, for two steps at once: of warp tiles of more than 64 along that side ptxas 13.0 wants so many more (96 x 32 and 32 x 96, sm_90: 76 are spilled of 255). */
const SPREAD_REGISTERS = 124;
const SPREAD_EXTENT = 64;

export function spreadRegisters(s: MmaSchedule, { a, b }: Problem): number {
  const spread = (across: boolean, bytes: number, extent: number): boolean =>
    across && bytes === 4 && extent > SPREAD_EXTENT;
  const found =
    spread(a.layout === "col", packedSize(a.dtype), s.warpM) ||
    spread(b.layout === "row", packedSize(b.dtype), s.warpN);
  return found && s.frag > 1 ? SPREAD_REGISTERS : 0;
}

/** Registers a thread needs, estimated. */
export function estimateRegisters(s: MmaSchedule, atom: Atom, target: Target): number {
  const words = (elements: number, bits: number): number => (elements * bits) / 32 / 32;
  const accumulators = words(s.warpM * s.warpN, dtypes[atom.acc].bits);
  const loaded = words((s.warpM + s.warpN) * atom.k, dtypes[atom.a].bits) * s.frag;
  // Of atoms of several instructions that are loaded in their own step.
  const early = atom.scaledForm !== null && s.frag === 1 ? LOADED_AT_ONCE / atom.steps : 1;
  const fragments = loaded * Math.min(1, early);
  const staged =
    s.registerPrefetch && s.copy === "direct"
      ? ((s.tileM + s.tileN) * s.tileK * packedSize(atom.a)) / 4 / threadsOf(s)
      : 0;
  const held = Math.ceil(accumulators + fragments + staged);
  if (atom.precision !== null)
    return (
      held +
      Math.ceil((fragments / s.frag) * (atom.steps > LOADED_AT_ONCE ? 0.5 : 1)) +
      PARTS_REGISTERS +
      (s.frag > 1 ? OVERHEAD_REGISTERS : PARTS_OVERHEAD_REGISTERS)
    );
  if (isWidened(atom, target)) return held + OVERHEAD_REGISTERS + WIDENED_REGISTERS;
  if (s.copy !== "tma") return held + OVERHEAD_REGISTERS;
  return held + (s.frag > 1 ? BULK_TWICE_OVERHEAD_REGISTERS : BULK_OVERHEAD_REGISTERS);
}

/** Registers that a thread of the block may have: the warps take the sub-partitions of an SM in turn. */
export const mostRegisters = (s: MmaSchedule, target: Target): number =>
  launchableRegisters(Math.max(1, threadsOf(s) / 32), target);
