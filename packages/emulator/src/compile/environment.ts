/** The names that generated code refers to: memory views, arithmetic, and the machine's slow paths. */

import type { Lanes } from "../checkers/global-order.ts";
import { ShadowPages } from "../checkers/global-shadow.ts";
import type { MemoryPaths } from "../machine/paths.ts";
import type { Polls } from "../machine/polls.ts";
import type { SpecialReader } from "../machine/special.ts";
import { popcount, type Warp } from "../machine/state.ts";
import type { Arena } from "../memory/arena.ts";
import * as bits from "../numerics/bits.ts";
import { permutedBytes, shiftedBytes, zeroBytes } from "../numerics/definedness.ts";
import type { ExactSums, SumFormat } from "../numerics/exact-sums.ts";
import * as floats from "../numerics/floats.ts";
import * as integers from "../numerics/integers.ts";
import * as mufu from "../numerics/mufu.ts";

/** Points at the launch that is running; generated code outlives launches. */
export interface Host {
  /** What generated code calls when the usual case does not hold. Addresses and offsets are signed 32-bit words. */
  paths: Pick<MemoryPaths, keyof MemoryPaths>;
  /** Told of accesses by code that has been compiled to tell: arena offset, bytes, instruction and mode. */
  observe: (warp: Warp, at: number, size: number, index: number, mode: number) => void;
  /** Told of reads in loops that poll. */
  readonly polls: Polls;
  /** Of a launch whose floating-point atomics add exactly. */
  sums: ExactSums | null;
}

/** Sizes of the scratch arrays. */
const threadsPerBlock = 1024;
/** Shared accesses of one region that can be sampled at once: a region has at most 256 instructions. */
const sampledAccesses = 256;

/** By instruction and lane: the arena offset, and for writes the words that are replaced, 32 entries for each word of a lane's. */
export interface Followed {
  readonly places: Int32Array;
  readonly replaced: Int32Array;
}

/** Per-launch data that generated code reads. */
export interface Scratch {
  /** Geometry: ntid, nctaid, cluster dimensions, clusters per axis. */
  readonly geometry: Int32Array;
  /** tid.x, tid.y, tid.z by linear thread number. */
  readonly tid: readonly [Int32Array, Int32Array, Int32Array];
  /** Addresses of sampled shared accesses, 32 lanes each; -1 for lanes that did not execute. */
  readonly bank: Int32Array;
  /** For the race checker of global memory. */
  readonly pages: ShadowPages;
  /** Accesses by the region that runs. */
  readonly followed: Followed;
  /** Special registers that warp instructions have read so far. */
  readonly readers: Map<string, SpecialReader>;
}

export const createScratch = (): Scratch => ({
  geometry: new Int32Array(12),
  tid: [new Int32Array(threadsPerBlock), new Int32Array(threadsPerBlock), new Int32Array(threadsPerBlock)],
  bank: new Int32Array(32 * sampledAccesses),
  pages: new ShadowPages(),
  followed: {
    places: new Int32Array(32 * sampledAccesses),
    replaced: new Int32Array(32 * 8 * sampledAccesses),
  },
  readers: new Map(),
});

export type Environment = Readonly<Record<string, unknown>>;

/** The environment for one state of the arena: its views go stale when the arena grows. */
export function createEnvironment(
  arena: Arena,
  host: Host,
  scratch: Scratch,
  tally: Float64Array,
): Environment {
  return {
    R: arena.words,
    F: arena.floats,
    D: arena.doubles,
    B: arena.bytes,
    SB: arena.sbytes,
    H: arena.halves,
    SHALF: arena.shalves,
    SH: arena.shadow,
    SH16: arena.shadow16,
    SH32: arena.shadow32,
    G: scratch.geometry,
    TX: scratch.tid[0],
    TY: scratch.tid[1],
    TZ: scratch.tid[2],
    BK: scratch.bank,
    PLACE: scratch.followed.places,
    OLD: scratch.followed.replaced,
    TALLY: tally,
    fround: Math.fround,
    imul: Math.imul,
    clz32: Math.clz32,
    abs: Math.abs,
    floor: Math.floor,
    ceil: Math.ceil,
    trunc: Math.trunc,
    min: Math.min,
    max: Math.max,
    minNaN: Math.min,
    maxNaN: Math.max,
    popcount,
    ...bits,
    ...{ permutedBytes, shiftedBytes, zeroBytes },
    ...integers,
    ...floats,
    ...mufu,
    exactSum: (format: SumFormat, place: number, old: number, value: number) =>
      host.sums?.add(format, place, old, value),
    slowGlobal: (w: Warp, l: number, i: number, low: number, high: number, size: number, mode: number) =>
      host.paths.global(w, l, i, low, high, size, mode),
    slowGeneric: (
      w: Warp,
      l: number,
      i: number,
      low: number,
      high: number,
      size: number,
      mode: number,
      s: number,
    ) => host.paths.generic(w, l, i, low, high, size, mode, s),
    slowShared: (w: Warp, l: number, i: number, at: number, size: number, mode: number) =>
      host.paths.shared(w, l, i, at, size, mode),
    sharedFault: (w: Warp, l: number, i: number, address: number, high: number, size: number) =>
      host.paths.sharedFault(w, l, i, address, high, size),
    slowCluster: (w: Warp, l: number, i: number, address: number, high: number, size: number, mode: number) =>
      host.paths.cluster(w, l, i, address, high, size, mode),
    slowLocal: (w: Warp, l: number, i: number, at: number, size: number, mode: number) =>
      host.paths.local(w, l, i, at, size, mode),
    windowFault: (w: Warp, l: number, i: number, address: number, size: number, window: "local" | "param") =>
      host.paths.windowFault(w, l, i, address, size, window),
    wrongWindow: (w: Warp, l: number, i: number, low: number, high: number, space: string) =>
      host.paths.wrongWindow(w, l, i, low, high, space),
    readUnwritten: (w: Warp, l: number, i: number, register: number) =>
      host.paths.unwritten(w, l, i, register),
    globalLanes: (w: Warp, mask: number, lanes: Lanes) => {
      const { race } = w.block;
      race?.global?.access(race, w, mask, lanes);
    },
    clock: () => host.paths.clock(),
    polled: (at: number, size: number) => host.polls.note(arena.words, at, size),
    observe: (w: Warp, at: number, size: number, index: number, mode: number) =>
      host.observe(w, at, size, index, mode),
    raceRead: (w: Warp, l: number, x: number, size: number, i: number) =>
      w.block.race?.read(w, l, x, size, i),
    raceReads: (w: Warp, mask: number, at: number, size: number, i: number) =>
      w.block.race?.readLanes(w, mask, scratch.followed.places, at, size, i),
    raceWrite: (w: Warp, l: number, x: number, size: number, i: number) =>
      w.block.race?.write(w, l, x, size, i),
    raceStrong: (w: Warp, l: number, x: number, size: number, i: number, mode: number, strong: number) =>
      w.block.race?.strong(w, l, x, size, i, mode, strong),
  };
}
