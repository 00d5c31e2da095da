/** What the model knows of a GPU: rates of an SM in bytes or FLOP a cycle, latencies in nanoseconds, energies. The data files of core (data/gpus) say where each number is from. */
import type { Feature } from "@tilewright/core";
import type { Neighbourhood } from "./neighbours.ts";

/** What multiplies, by the instruction: the names that data files of GPUs give rates for. */
interface EngineRow {
  /** Products run beside the thread that asked for them. */
  readonly asynchronous: boolean;
  /** Rows of a block's tile below which an instruction takes as long; 0 for none. */
  readonly fullRows: number;
}

const engineRows = {
  fma: { asynchronous: false, fullRows: 0 },
  mma: { asynchronous: false, fullRows: 0 },
  wgmma: { asynchronous: true, fullRows: 0 },
  // 128 lanes of tensor memory.
  tcgen05: { asynchronous: true, fullRows: 128 },
} as const satisfies Record<string, EngineRow>;

export type Engine = keyof typeof engineRows;
export const engines = Object.keys(engineRows) as readonly Engine[];
export const engineRow = (engine: Engine): EngineRow => engineRows[engine];

/** The engine of an atom: its feature is named after the instruction. Null where the model has none. */
export const engineOfFeature = (feature: Feature): Engine | null =>
  engines.find((engine) => engine === feature.split(".")[0]) ?? null;

export interface Machine {
  /** A name of the table of GPUs. */
  readonly gpu: string;
  readonly sms: number;
  /** Highest clock of the SMs, GHz. */
  readonly boostGHz: number;
  /** Dense FLOP (a multiplication and an addition are two) a cycle and SM of f16 operands; of FFMA for `fma`. */
  readonly flopsPerCycle: Readonly<Partial<Record<Engine, number>>>;
  /** Share of an engine's rate that a perfect stream of its instructions reaches. */
  readonly sustained: Readonly<Partial<Record<Engine, number>>>;
  /** Bytes a cycle that an SM reads from its shared memory; writes by copies have ports of their own. */
  readonly sharedBytes: number;
  /** Bytes a cycle that an SM takes in from L2. */
  readonly intakeBytes: number;
  /** Of these bytes, those that differ from what the other SM of its pair asks for: each of the two has half of what the path to L2 brings. */
  readonly distinctBytes: number;
  /** Rows of 128 bytes that begin inside a sector, which L2 gives to all SMs a cycle. */
  readonly unalignedRows: number;
  /** Bytes a cycle that an SM stores towards L2, in whole sectors. */
  readonly storeBytes: number;
  /** Bulk copies: rows of a box (requests) a cycle of an SM. */
  readonly copyRequests: number;
  /** Bytes a cycle that the warps read from tensor memory; 0 where there is none. */
  readonly tensorMemoryBytes: number;
  /** From the issue of a load to its bytes in shared memory, seen by the thread that waits. */
  readonly loadNs: number;
  /** From the end of one role's work to the beginning of the next role's: completion, barrier, first instruction. */
  readonly handOverNs: number;
  /** Of a block's meeting at a barrier with warps that go on where they were. */
  readonly barrierNs: number;
  /** Of a chunk beside its products, where no other set of warpgroups multiplies meanwhile. */
  readonly chunkNs: number;
  /** The same where one warpgroup multiplies alone: it waits for its products before it asks for the next. */
  readonly loneNs: number;
  /** Of a chunk of which several sets of warpgroups multiply a part each, at the least: the wait for it, products, and the release of its stage. */
  readonly togetherNs: number;
  /** Of each further block that begins on an SM beside others. */
  readonly besideNs: number;
  /** Bytes a cycle and SM that L2 gives to all SMs together, beside what DRAM brings it. */
  readonly l2Rate: number;
  /** Of a slot that is filled by multicast, until every block of the cluster has given it back. */
  readonly clusterNs: number;
  /** Of a launch with nothing in it, from event to event. */
  readonly launchNs: number;
  /** Beyond that, until every SM has its first block: the share of it as the share of SMs that get one. */
  readonly fillNs: number;
  /** Of a block before its first load: scheduling, barriers, tensor-memory allocation, descriptors. */
  readonly startNs: number;
  /** The same of a block that takes the place of one that ended. */
  readonly nextNs: number;
  /** One answer of cluster launch control, where nobody asked ahead. */
  readonly fetchNs: number;
  readonly memoryGBs: number;
  /** Share of that which kernels reach. */
  readonly memoryShare: number;
  readonly l2Bytes: number;
  /** Clusters of each size that are resident at once; sizes that are absent fill the GPU. */
  readonly clusters: Readonly<Record<number, number>>;
  /** GPCs by their SMs: a cluster lies in one, in pairs of SMs. Of another GPU where nobody counted this one's. */
  readonly gpcs: readonly { readonly sms: number; readonly count: number }[];
  /** Power at which the clock gives way, watts; null: unknown, and the clock stays at boost. */
  readonly powerCap: number | null;
  /** Time beyond that of a launch over which its energy counts against the cap, microseconds: short kernels between pauses keep the boost clock. */
  readonly powerRestUs: number;
  /** Drawn whatever runs. */
  readonly idleWatts: number;
  /** Energies at `energyGHz`, picojoules: a FLOP of each engine, a byte read from shared memory, taken in from L2, moved to or from DRAM. */
  readonly energy: {
    readonly flop: Readonly<Partial<Record<Engine, number>>>;
    readonly sharedByte: number;
    readonly l2Byte: number;
    readonly memoryByte: number;
  };
  /** What was timed on it at problems near to the one that is asked for; absent: nothing. */
  readonly near?: Neighbourhood;
}

/** Clock to which energies refer, GHz: between the clocks of the two profiles that `voltageExponent` comes from. */
export const energyGHz = 1.6;

/**
 * Energy of an operation on the chip grows with this power of the clock. Seen on an H200 at its cap: two kernels keep the tensor pipes
 * busy for 65.0 % and 91.0 % of the time at 1.705 and 1.595 GHz, so power = busy * f^5 is the same: ln(0.910 / 0.650) / ln(1.705 / 1.595)
 * = 5.0; one of the five is the rate itself.
 */
export const voltageExponent = 4;

/**
 * Energy of a FLOP over that of f16 is the dtype's speed to this power. Seen on an H100 at its cap: cuBLAS multiplies e4m3 at 8192^3 1.87 times
 * as fast as f16 (1419 and 761 TFLOP/s), so its clock is 0.935 of f16's, its power at one clock 0.935^-5 = 1.4 times, its energy a FLOP 0.7. The
 * fit of wgmma's kernels on an H200 gives 0.64 (docs/perf/model.md).
 */
export const narrowExponent = -0.65;

/** Energy of an operation on integers over that on floats of as many bits [fit, H200: docs/perf/model.md]. */
export const integerEnergy = 0.61;
