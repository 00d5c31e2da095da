/** What blocks that share a tile take to add it up. */
import type { ReductionKind } from "../tile/types.ts";
import type { PartialCounts } from "./counts.ts";
import type { ModelKernel } from "./kernel.ts";
import { type Engine, engineRow } from "./machine.ts";

interface Reduction {
  /** Microseconds. */
  readonly fixed: number;
  /** Bytes a microsecond: of the tile's parts where its last block adds them, of all parts where memory takes them, of one part where each block sends its own. */
  readonly bytes: number;
  readonly of: "tile" | "all" | "part";
}

/** Least squares over 467 wgmma kernels of 18 sizes on an H200; fits of mma.sync and FFMA give a tile's parts 121,000 and 134,000 bytes a microsecond. */
const reductions = {
  last: { fixed: 1.5, bytes: 140_000, of: "tile" },
  atomics: { fixed: 1.29, bytes: 1.23e6, of: "all" },
  bulk: { fixed: 1.29, bytes: 1.23e6, of: "all" },
  kernel: { fixed: 4.7, bytes: 2.57e6, of: "all" },
  cluster: { fixed: 1, bytes: 60_000, of: "part" },
  slices: { fixed: 0.9, bytes: 2.8e6, of: "all" },
} as const satisfies Record<ReductionKind, Reduction>;

/** `shares`: of stream-K, whose parts the last block adds. */
type Own = Readonly<Partial<Record<ReductionKind | "shares", Reduction>>>;

/** Of sums of warpgroups, whose products run beside them: least squares over as many kernels as the other constants of Hopper (docs/perf/model.md). */
const ofWarpgroups: Own = {
  last: { fixed: 3.33, bytes: 43_000, of: "tile" },
  cluster: { fixed: 0.17, bytes: 52_600, of: "part" },
  slices: { fixed: 1.34, bytes: 5.26e6, of: "all" },
};

/** Of engines whose warps issue products, and exchange parts through their registers: each round of their blocks does [fits of both, H200]. */
const byEngine: Readonly<Partial<Record<Engine, Own>>> = {
  fma: {
    last: { fixed: 3.05, bytes: 423_000, of: "tile" },
    atomics: { fixed: 1.94, bytes: 13_600, of: "part" },
    kernel: { fixed: 4.07, bytes: 2.3e6, of: "all" },
    cluster: { fixed: 0.4, bytes: 6_750, of: "part" },
  },
  mma: {
    last: { fixed: 1.78, bytes: 68_900, of: "tile" },
    shares: { fixed: 7.7, bytes: 140_000, of: "tile" },
    cluster: { fixed: 0.09, bytes: 20_400, of: "part" },
    slices: { fixed: 1.92, bytes: 21_200, of: "part" },
  },
};

/** Parts that the last block of FFMA has in flight together wait once for L2: registers of a thread for them, microseconds. */
const IN_FLIGHT = 64;
const ROUND_TRIP = 0.333;

function ownOf(engine: Engine): Own | undefined {
  const { asynchronous, fullRows } = engineRow(engine);
  // Sums that have no rows of their own to fill lie in registers, not in tensor memory.
  return asynchronous && fullRows === 0 ? ofWarpgroups : byEngine[engine];
}

/** Microseconds for partial tiles. */
export function reductionTime(
  kernel: ModelKernel,
  { asF32, most: parts, handed: all }: PartialCounts,
): number {
  const { combine, engine, streamk } = kernel;
  const own = ownOf(engine);
  const shares = streamk > 0 && combine === "last" ? own?.shares : undefined;
  const reduction: Reduction = shares ?? own?.[combine] ?? reductions[combine];
  const counted = { part: 1, tile: parts, all }[reduction.of];
  const sums = kernel.instruction[0] * kernel.instruction[1];
  const turns =
    engine === "fma" && combine === "last" ? parts / Math.max(1, Math.floor(IN_FLIGHT / sums)) : 0;
  return reduction.fixed + turns * ROUND_TRIP + (counted * asF32) / reduction.bytes;
}
