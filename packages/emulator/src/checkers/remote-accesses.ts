/** Accesses of shared memory of other blocks of a cluster, which such a block's exit has to come after. */
import type { Block } from "../machine/state.ts";
import type { Clocks } from "./clocks.ts";
import type { RaceReports } from "./race-reports.ts";

export class RemoteAccesses {
  /** By the block's rank: clock and instruction of each agent's last access to its window, other than by its own warps. */
  readonly #last: readonly Map<number, { readonly clock: number; readonly site: number }>[];

  constructor(blocks: number) {
    this.#last = Array.from({ length: blocks }, () => new Map());
  }

  clear(): void {
    for (const accesses of this.#last) accesses.clear();
  }

  note(rank: number, agent: number, clock: number, site: number): void {
    this.#last[rank]?.set(agent, { clock, site });
  }

  /** All warps of a block have exited: report what none of them has waited for. */
  exited(block: Block, clocks: Clocks, reports: RaceReports): void {
    const [first] = block.warps;
    if (first === undefined) return;
    for (const [agent, { clock, site }] of this.#last[block.rank] ?? [])
      if (!block.warps.some((w) => clocks.knowsExecuted(w.agent, agent, clock)))
        reports.exited(first, site, agent, clocks);
  }
}
