/** Clusters of a launch that have not started yet: the scheduler starts them, or running clusters cancel them and take their work. */
import type { Random } from "./random.ts";

/**
 * One request in this many fails in random order although clusters are left, as when the hardware wants the SM for other
 * work: the cluster that asked ends, and those that are left start later.
 */
const refusalRate = 16;

export class PendingClusters {
  readonly #sequence: readonly number[];
  readonly #random: Random | null;
  #next = 0;

  /** @param random decides about early refusals; null for none. */
  constructor(sequence: readonly number[], random: Random | null) {
    this.#sequence = sequence;
    this.#random = random;
  }

  /** The next cluster to start; null when none is left. */
  start(): number | null {
    const index = this.#sequence[this.#next];
    if (index === undefined) return null;
    this.#next += 1;
    return index;
  }

  /** The next cluster, which will not be started: its index, or null when none can be had. */
  cancel(): number | null {
    if (this.#next < this.#sequence.length && this.#random?.below(refusalRate) === 0) return null;
    return this.start();
  }

  /** Clusters given out so far. */
  get taken(): number {
    return this.#next;
  }
}
