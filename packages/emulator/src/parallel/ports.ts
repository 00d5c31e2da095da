/** How launches reach other threads: messages, in a form that browsers' workers and Node's message ports share. */

import type { Counters, LaunchConfig, Waits } from "../api.ts";
import type { Touched } from "../checkers/global-shadow.ts";

/**
 * A thread that serves launches, or its way back: a browser's `Worker` or worker scope, or a `MessagePort` of either kind of
 * host (Node's `Worker` is none; give it one end of a `MessageChannel`).
 */
export interface LaunchPort {
  postMessage(message: unknown, transfer?: readonly ArrayBuffer[]): void;
  onmessage: ((event: { readonly data: unknown }) => void) | null;
}

/** Part of a launch for one thread. */
export interface RangeRequest {
  readonly id: number;
  readonly text: string;
  readonly entry: string;
  readonly config: LaunchConfig;
  /** Offsets in the arena of the module's variables, in its order. */
  readonly variables: readonly number[];
  /** The device's heap and its shadow, word for word. */
  readonly heap: Int32Array;
  readonly shadow: Uint8Array;
  /** Blocks that may be resident together, if the device was made with a number. */
  readonly residentBlocks: number | null;
  readonly memoryLimit: number;
  readonly fmad: boolean;
  /** The part is `part` of `parts`. */
  readonly part: number;
  readonly parts: number;
}

/** What a thread has made of its part; null where the launch has to be run in one piece to tell what happens. */
export interface RangeReply {
  readonly id: number;
  readonly result: RangeResult | null;
}

export interface RangeResult {
  /** The heap and its shadow after the part. */
  readonly heap: Int32Array<ArrayBuffer>;
  readonly shadow: Uint8Array<ArrayBuffer>;
  /** Words that it has read or written, and those that it has written, a bit each; null where races are not looked for. */
  readonly touched: Touched | null;
  readonly counters: Counters;
  /** Of all blocking instructions, those that were not executed, too. */
  readonly waits: readonly Waits[];
}
