/**
 * Runs the warps of a launch by a schedule: one goes on until it is blocked, ends or spins, and then the next one does; where the schedule
 * says so, another one takes its place earlier. Points of a schedule are the beginnings of stretches, which end before accesses that others see.
 */
import type { Instruction } from "../load/types.ts";
import type { Warp } from "./state.ts";

/** From point `point` on warp `warp` runs: its number counts the warps of all blocks. */
export interface Switch {
  readonly point: number;
  readonly warp: number;
}

/** A stretch that was run: by which warp, from which instruction on, and who else could have run. */
export interface Stretch {
  readonly warp: number;
  readonly at: Instruction | null;
  readonly others: readonly number[];
}

/** Times that a warp comes to one instruction, in a loop that is not known to poll, before another warp gets its turn. */
const patience = 24;

export class Interleaver {
  readonly #schedule: readonly Switch[];
  /** In the order in which they ran. */
  readonly trace: Stretch[] = [];
  #taken = 0;
  #current = 0;
  #polled = false;
  /** Stretches of the warp's turn, by the instruction that they begin with: where one comes again and again the warp spins. */
  readonly #visits = new Map<number, number>();
  #spins = false;

  constructor(schedule: readonly Switch[]) {
    this.#schedule = schedule;
  }

  /** The stretch that runs now only polls. */
  polled(): void {
    this.#polled = true;
  }

  /**
   * Let a warp run a stretch. `numberOf` numbers warps; `next` is the instruction that a warp is before; `run` returns whether it moved. Returns the warp
   * that moved, null when none can.
   */
  turn(
    warps: readonly Warp[],
    numberOf: (warp: Warp) => number,
    next: (warp: Warp) => Instruction | null,
    run: (warp: Warp) => boolean,
  ): Warp | null {
    const live = warps.filter((w) => !w.done).map((w) => [numberOf(w), w] as const);
    const wanted = this.#schedule[this.#taken];
    let from = this.#current;
    if (wanted?.point === this.trace.length) {
      this.#taken += 1;
      from = wanted.warp;
    } else if (this.#spins) from += 1;
    const order = [...live.filter(([t]) => t >= from), ...live.filter(([t]) => t < from)];
    for (const [t, warp] of order) {
      const at = next(warp);
      this.#polled = false;
      if (!run(warp)) continue;
      if (t !== this.#current) this.#visits.clear();
      const place = at?.index ?? -1;
      const visits = (this.#visits.get(place) ?? 0) + 1;
      this.#visits.set(place, visits);
      this.#spins = visits > (this.#polled ? 1 : patience);
      this.#current = t;
      this.trace.push({ warp: t, at, others: live.flatMap(([u]) => (u === t ? [] : [u])) });
      return warp;
    }
    return null;
  }
}
