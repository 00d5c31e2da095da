/** Accesses of shared memory of other blocks of a cluster, which such a block's exit has to come after. */
import type { Block } from "../machine/state.ts";
import type { Clocks } from "./clocks.ts";
import type { RaceReports } from "./race-reports.ts";

interface Access {
  readonly agent: number;
  readonly clock: number;
  readonly site: number;
  /** It does not wait for an answer. */
  readonly posted: boolean;
}

export class RemoteAccesses {
  /** By the block's rank: each agent's last access to its window, other than by its own warps, and its last posted one. */
  readonly #last: readonly Map<number, Access>[];

  constructor(blocks: number) {
    this.#last = Array.from({ length: blocks }, () => new Map());
  }

  clear(): void {
    for (const accesses of this.#last) accesses.clear();
  }

  note(rank: number, agent: number, clock: number, site: number, posted: boolean): void {
    this.#last[rank]?.set(2 * agent + Number(posted), { agent, clock, site, posted });
  }

  /**
   * All warps of a block have exited: report what none of them has waited for. What is posted may still be on its way when its warp has gone on: only the order of
   * memory covers it. (Arrivals in front of a relaxed `barrier.cluster.arrive` found their block gone on an H200: CUDA_ERROR_LAUNCH_FAILED.)
   */
  exited(block: Block, clocks: Clocks, reports: RaceReports): void {
    const [first] = block.warps;
    if (first === undefined) return;
    for (const { agent, clock, site, posted } of this.#last[block.rank]?.values() ?? []) {
      const covered = block.warps.some((w) =>
        posted ? clocks.knows(w.agent, agent, clock) : clocks.knowsExecuted(w.agent, agent, clock),
      );
      if (!covered) reports.exited(first, site, agent, clocks);
    }
  }
}
