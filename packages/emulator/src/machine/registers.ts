import type { Block, Execution, Group, Machine } from "./state.ts";

/** Registers of an SM, and most that a thread can have: sm_70 to sm_100. */
const fileRegisters = 65536;
const mostRegisters = 255;
/** ptxas gives registers in units of eight per thread. */
const unit = 8;
const warpsPerGroup = 4;

/** Registers that a block can have been started with when nothing says how many: a whole SM's, shared by `threads`. */
export const defaultRegisters = (threads: number): number =>
  Math.min(mostRegisters, Math.floor(fileRegisters / Math.max(1, threads) / unit) * unit);

/** One warp executes setmaxnreg; false while an increase waits for the pool. */
export function takeRegisters(by: Execution, group: Group, kind: "inc" | "dec", count: number): boolean {
  const { warp, instruction, machine } = by;
  const { pool } = warp.block;
  if (group.wait === null) {
    warp.registerSteps.push(instruction);
    const wrong = kind === "dec" ? count > warp.registerCount : count < warp.registerCount;
    if (wrong) {
      by.report(
        "H048",
        () =>
          `warp ${warp.id} has ${warp.registerCount} registers per thread and is to ${kind === "dec" ? "decrease" : "increase"} them to ${count}`,
      );
      return true;
    }
    group.wait = {
      generation: 0,
      describe: () =>
        `${count - warp.registerCount} more registers per thread; the block's pool has ${pool.free} left`,
    };
  }
  const wanted = count - warp.registerCount;
  if (wanted > pool.free) return false;
  pool.free -= wanted;
  warp.registerCount = count;
  group.wait = null;
  machine.trace?.registers(warp, instruction, count);
  machine.touch();
  return true;
}

/**
 * At a block's end: the warps of a warpgroup have to have executed the same setmaxnreg instructions. Copies of one in several
 * branches count as the same.
 */
export function checkWarpgroups(machine: Pick<Machine, "report">, block: Block): void {
  for (let first = 0; first < block.warps.length; first += warpsPerGroup) {
    const warps = block.warps.slice(first, first + warpsPerGroup);
    const longest = warps.reduce((a, b) => (b.registerSteps.length > a.registerSteps.length ? b : a));
    for (const warp of warps) {
      const at = longest.registerSteps.findIndex(({ text }, k) => warp.registerSteps[k]?.text !== text);
      if (at < 0) continue;
      machine.report(
        "H048",
        longest.registerSteps[at] ?? null,
        longest,
        () => `warp ${longest.id} executes it, warp ${warp.id} of the same warpgroup does not`,
      );
      break;
    }
  }
}
