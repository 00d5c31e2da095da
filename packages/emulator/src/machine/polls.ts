/**
 * Polling groups sleep. What a group of lanes reads in one iteration of a loop that polls is noted; at the end of the iteration the group gives way until a word
 * or a phase that it has read is another one. A warp that is left out for a while is one of the legal schedules, so nothing has to be proven about the loop: where
 * its end depends on something else (a counter, the clock), the group is let run now and then all the same.
 */
import type { Mbarrier } from "./mbarriers.ts";

/** Words that an iteration may read for its group to sleep. */
const mostWords = 64;
/** Times that a sleeping group is asked before it runs an iteration though nothing has changed. */
const mostAsked = 64;

/** What a sleeping group has read. */
export class Sleep {
  readonly #places: readonly number[];
  readonly #values: readonly number[];
  readonly #barriers: readonly Mbarrier[];
  readonly #phases: readonly number[];
  #asked = 0;

  constructor(
    places: readonly number[],
    values: readonly number[],
    barriers: readonly Mbarrier[],
    phases: readonly number[],
  ) {
    this.#places = places;
    this.#values = values;
    this.#barriers = barriers;
    this.#phases = phases;
  }

  /** Whether it goes on sleeping: `words` are the arena's. */
  lasts(words: Int32Array): boolean {
    this.#asked += 1;
    if (this.#asked > mostAsked) return false;
    for (let k = 0; k < this.#places.length; k++)
      if (words[this.#places[k] as number] !== this.#values[k]) return false;
    return this.#barriers.every(({ phase }, k) => phase === this.#phases[k]);
  }
}

/** Reads of the iteration that is running. */
export class Polls {
  #places: number[] = [];
  #values: number[] = [];
  #barriers: Mbarrier[] = [];
  #phases: number[] = [];

  /** Forget what has been read. */
  begin(): void {
    if (this.#places.length > 0) [this.#places, this.#values] = [[], []];
    if (this.#barriers.length > 0) [this.#barriers, this.#phases] = [[], []];
  }

  /** The words of `size` bytes at arena offset `at` are about to be read. */
  note(words: Int32Array, at: number, size: number): void {
    const end = (at + size + 3) >> 2;
    // Lanes mostly read one word.
    if (this.#places.at(-1) === end - 1 && this.#values.at(-1) === words[end - 1]) return;
    if (this.#places.length > mostWords) return;
    for (let q = at >> 2; q < end; q++) {
      this.#places.push(q);
      this.#values.push(words[q] as number);
    }
  }

  /** A lane has asked for the phase of an mbarrier. */
  asked(barrier: Mbarrier): void {
    if (this.#barriers.length > mostWords) return;
    this.#barriers.push(barrier);
    this.#phases.push(barrier.phase);
  }

  /** The end of an iteration: what a group sleeps on; null where it has read nothing or too much. */
  sleep(): Sleep | null {
    const { length } = this.#places;
    const sleeps = length + this.#barriers.length > 0 && Math.max(length, this.#barriers.length) <= mostWords;
    const sleep = sleeps ? new Sleep(this.#places, this.#values, this.#barriers, this.#phases) : null;
    this.begin();
    return sleep;
  }
}
