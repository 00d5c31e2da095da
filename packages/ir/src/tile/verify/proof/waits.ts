/** What threads of a run wait for beside barriers: their turn, and each other. */
import { Broken, type Clock, join } from "./machine.ts";
import type { Thread } from "./thread.ts";

/** Where a thread stands still. */
export interface Blocked {
  readonly ready: () => boolean;
  readonly why: () => string;
  /** The rule that a deadlock here breaks. */
  readonly rule: () => "arrivals" | "bytes" | "phases" | "exits";
  /** The thread has nothing else to do. */
  readonly ending?: true;
}

export type Steps = Generator<Blocked, void, void>;

interface Given {
  readonly given: Clock[];
  /** Who has handed on the last of them. */
  by: Thread["stmt"];
  taken: number;
}

/** Turns handed to the roles of blocks, with the clocks that came with them, and those that they have taken. */
export class PingPongOrder {
  readonly #turns = new Map<string, Given>();

  #of(thread: Thread, to: number): Given {
    const key = `${thread.block}/${to}`;
    const turns = this.#turns.get(key) ?? { given: [], by: null, taken: 0 };
    this.#turns.set(key, turns);
    return turns;
  }

  /** Wait until a role's turn has come. */
  *take(thread: Thread, to: number): Steps {
    const turns = this.#of(thread, to);
    const { taken } = turns;
    if (turns.given.length <= taken)
      yield {
        ready: () => turns.given.length > taken,
        why: () => "waits for its turn",
        rule: () => "phases",
      };
    turns.taken++;
    const clock = turns.given[taken];
    if (clock !== undefined) join(thread.clock, clock);
  }

  /** A barrier holds one turn: a second one would be lost. */
  pass(thread: Thread, to: number): void {
    const turns = this.#of(thread, to);
    if (turns.given.length > turns.taken)
      throw new Broken(
        "phases",
        thread.label,
        "hands on a turn while the one before has not been taken",
        "take a turn before handing it on",
      );
    turns.given.push(thread.clock.slice());
    turns.by = thread.stmt;
  }

  /** Nobody's turn is left at its barrier. */
  checkEnd(): void {
    for (const [key, { given, by, taken }] of this.#turns)
      if (given.length > taken)
        throw new Broken(
          "exits",
          `turn ${key}`,
          "the block ends with a turn at its barrier that nobody takes",
          "let the role that would have the next tile take it",
        ).at(by);
  }
}

/** All threads of all blocks of the cluster meet, as often as they come. */
export class BlockReduction {
  readonly #threads: number;
  readonly #size: number;
  #waiting = 0;
  #generation = 0;
  #clock: Clock;
  #met: Clock;

  constructor(threads: number, clockSize: number) {
    this.#threads = threads;
    this.#size = clockSize;
    this.#clock = new Int32Array(clockSize);
    this.#met = this.#clock;
  }

  /** `orders`: what threads did before is seen behind the meeting; they come to it without that, too (PTX ISA, barrier.cluster, `.relaxed`). */
  *join(thread: Thread, orders: boolean): Steps {
    const generation = this.#generation;
    if (orders) join(this.#clock, thread.clock);
    this.#waiting++;
    if (this.#waiting === this.#threads) {
      this.#met = this.#clock;
      this.#clock = new Int32Array(this.#size);
      this.#waiting = 0;
      this.#generation++;
    } else
      yield {
        ready: () => this.#generation > generation,
        why: () => "waits for the others of the cluster",
        rule: () => "exits",
      };
    join(thread.clock, this.#met);
  }
}
