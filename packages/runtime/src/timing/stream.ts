/** What the measuring loop needs of a GPU: one queue of work that never waits for the host unless told to. */
import type { Checked } from "@tilewright/core";

/** Launches recorded once and replayed with a single call. */
export interface Replay {
  /** Queue all of them. */
  launch(): Checked<true>;
  destroy(): void;
}

export interface TimingStream {
  /** Queue time marker `slot` (0, 1, 2, … in order of first use; a slot may be used again after `wait`). */
  mark(slot: number): Checked<true>;
  /** Queue `us` microseconds in which the device does next to nothing. */
  pause(us: number): Checked<true>;
  /** The only call that waits: until all that is queued is done. */
  wait(): Checked<true>;
  /** Microseconds between two markers that are done. */
  between(from: number, to: number): Checked<number>;
  /** Record what `queue` queues instead of running it; null where the device cannot. */
  record(queue: () => Checked<true>): Checked<Replay | null>;
  /** Host clock in milliseconds. */
  now(): number;
}

/** Something to be timed: a kernel of ours, or a peer's. */
export interface Contender {
  readonly name: string;
  /** Queue one run on buffer set `set`, without waiting. */
  launch(set: number): Checked<true>;
}
