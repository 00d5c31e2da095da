/**
 * The event log of a launch: what warps, barriers and engines did, in the order in which the emulator did it.
 *
 * `time` is a clock of its own (recorder.ts): a warp's runs one tick for each instruction, engines take a round figure for the work, and whoever waits goes on
 * no earlier than what it waits for. It orders and it shows who waits for whom; it predicts no speed.
 */

/** Something that an engine does for a warp: issued at one time, over at a later one. */
export type Engine = "bulk load" | "bulk store" | "cp.async" | "wgmma" | "tcgen05";

/** An mbarrier: the number of its block in the grid (x fastest), and its bytes from the start of the block's shared memory. */
export interface BarrierPlace {
  readonly block: number;
  readonly offset: number;
}

/** What a warp waits for. `phase`: of the mbarrier, counted from 0; -1 where the wait asks for the phase before the first. */
export type Awaited =
  | (BarrierPlace & { readonly kind: "mbarrier"; readonly phase: number })
  | { readonly kind: "barrier"; readonly id: number; readonly generation: number }
  | { readonly kind: "cluster"; readonly generation: number }
  | { readonly kind: "engine"; readonly engine: Engine; readonly operations: readonly number[] }
  | { readonly kind: "other" };

/** By whom and where. */
interface ByWarp {
  readonly time: number;
  /** Number of the block in the grid, x fastest. */
  readonly block: number;
  readonly warp: number;
  /** Line of the PTX text. */
  readonly line: number | null;
}

export type TraceEvent =
  /** A launch begins; its times count from 0. */
  | { readonly kind: "launch"; readonly entry: string; readonly grid: readonly [number, number, number] }
  /** A warp begins or ends. */
  | (Omit<ByWarp, "line"> & { readonly kind: "warp"; readonly is: "start" | "end" })
  /** setmaxnreg: `count` registers per thread from now on. */
  | (ByWarp & { readonly kind: "registers"; readonly count: number })
  /** A warp's wait from `from` to `time`; `passed` is false for a bounded wait that gave up. Logged at its end; waits that never end are `blocked`. */
  | (ByWarp & {
      readonly kind: "wait";
      readonly from: number;
      readonly instruction: string;
      readonly on: Awaited;
      readonly passed: boolean;
    })
  /** A warp, or some lanes of it, cannot go on. */
  | (ByWarp & { readonly kind: "blocked"; readonly instruction: string; readonly what: string })
  /** What happens to an mbarrier. `value`: arrivals expected, arrivals or bytes; of `complete` the time at which all had come. `warp` is null for engines. */
  | (BarrierPlace & {
      readonly kind: "mbarrier";
      readonly is: "init" | "arrive" | "expect" | "bytes" | "complete" | "invalidate";
      readonly time: number;
      readonly warp: number | null;
      readonly value: number;
      /** The phase it belongs to. */
      readonly phase: number;
      /** Arrivals and bytes that the phase still misses. */
      readonly pending: number;
      readonly tx: number;
    })
  /** bar and barrier: a warp arrives at, or the last of all completes, a generation. */
  | (ByWarp & {
      readonly kind: "barrier";
      readonly is: "arrive" | "complete";
      readonly id: number | "cluster";
      readonly generation: number;
    })
  /** An operation of an engine, at its issue. `offset`: in the shared memory of block `into`, which may be another of the cluster; null where it is none. */
  | (ByWarp & {
      readonly kind: "issue";
      readonly operation: number;
      readonly engine: Engine;
      readonly instruction: string;
      /** Bytes moved; 0 for products. */
      readonly bytes: number;
      readonly into: number;
      readonly offset: number | null;
      /** The mbarrier that its bytes complete on. */
      readonly barrier: BarrierPlace | null;
    })
  /** Its end. A bulk store's source is read at `read`, before all of it is written. `from`: when the engine came to it. */
  | (Omit<ByWarp, "line"> & {
      readonly kind: "complete";
      readonly operation: number;
      readonly engine: Engine;
      readonly from: number;
      readonly read: number;
    })
  /** What has been issued becomes a group. */
  | (ByWarp & { readonly kind: "commit"; readonly engine: Engine })
  /** An instruction stores to global memory, in so many lanes. */
  | (ByWarp & { readonly kind: "store"; readonly instruction: string; readonly lanes: number })
  /** A finding, where it was met first; `other`: the access that it is not ordered with, at its latest execution. */
  | (ByWarp & {
      readonly kind: "finding";
      readonly rule: string;
      readonly message: string;
      readonly other: (Omit<ByWarp, "line"> & { readonly line: number | null }) | null;
    });

/** Takes events as they come. */
export type TraceSink = (event: TraceEvent) => void;
