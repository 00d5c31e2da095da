/** Shared memory and registers of a block. */
import { quantizeOf } from "@tilewright/core";
import type { Atom } from "@tilewright/ir";
import { chunkK } from "../atoms.ts";
import { estimateRegisters, mostRegisters, QUANTIZED_REGISTERS, spreadRegisters } from "../registers.ts";
import { type MmaSchedule, threadsOf } from "../schedule.ts";
import { blockBytes, ringBytes } from "../sharedMemory.ts";
import { type Rule, rule } from "./rule.ts";

export const resourceRules: readonly Rule[] = [
  rule("TW2207", "stages", ({ s, atom, problem, target }) => {
    const bytes = blockBytes(problem, s, atom, target);
    const ring = ringBytes(problem, { ...s, tileK: chunkK(problem, s, atom) }, atom);
    const most = target.limits.maxSmemPerBlock;
    if (bytes <= most) return null;
    // D's tile alone is too large beside any ring.
    if (s.staged && bytes - ring >= most - ring / s.stages)
      return {
        message: `D's part of a ${s.tileM}x${s.tileN} tile needs ${bytes - ring} B of shared memory beside ${s.stages} stages; ${target.arch} has ${most} B a block`,
        hint: "nearest legal: epi=direct",
      };
    const fit = Math.floor((most - (bytes - ring)) / (ring / s.stages));
    return {
      message: `${s.stages} stages of ${s.tileM}x${s.tileN}x${s.tileK} ${atom.a}${s.staged ? " and D's part" : s.reduction === "cluster" ? " and slices of a cluster" : ""} need ${bytes} B of shared memory; ${target.arch} has ${most} B a block`,
      hint:
        fit > 0
          ? `nearest legal: stages=${fit}`
          : `use a tile k of at most ${Math.max(atom.k, Math.floor((s.tileK * most) / (ring / s.stages) / atom.k) * atom.k)} with stages=1`,
    };
  }),
  rule("TW2208", "warp", ({ s, atom, problem, target }) => {
    const values = quantizeOf(problem) === null ? 0 : QUANTIZED_REGISTERS;
    const needOf = (of: MmaSchedule): number =>
      estimateRegisters(of, atom, target) + values + spreadRegisters(of, problem);
    const [need, most] = [needOf(s), mostRegisters(s, target)];
    if (need <= most) return null;
    return {
      message: `a ${s.warpM}x${s.warpN} warp tile needs about ${need} registers a thread; ${threadsOf(s)} threads may have ${most} each`,
      hint: `nearest legal: ${nearestWarpTile(s, atom, needOf, most)}`,
    };
  }),
];

/** The largest halving of the warp tile that fits. */
function nearestWarpTile(
  s: MmaSchedule,
  atom: Atom,
  needOf: (of: MmaSchedule) => number,
  most: number,
): string {
  let [m, n] = [s.warpM, s.warpN];
  while (m * n > atom.m * atom.n && needOf({ ...s, warpM: m, warpN: n }) > most) {
    if (m / atom.m >= n / atom.n) m = Math.max(atom.m, Math.floor(m / 2 / atom.m) * atom.m);
    else n = Math.max(atom.n, Math.floor(n / 2 / atom.n) * atom.n);
  }
  return `warp=${m}x${n} (with a tile that divides by it)`;
}
