/** Numbers by which trees tell kernels apart (model/trees.ts): sizes and layout of the problem, shape of the kernel, what its launch counts, and what the model says of its time. */
import { dtypes, type Problem, sizeOf } from "@tilewright/core";
import { reductionKinds } from "../tile/types.ts";
import type { LaunchCounts } from "./counts.ts";
import type { ModelKernel } from "./kernel.ts";
import { engines, type Machine } from "./machine.ts";
import { causes, type Prediction } from "./predict.ts";

export interface Kernel {
  readonly problem: Problem;
  readonly kernel: ModelKernel;
  readonly machine: Machine;
  readonly counts: LaunchCounts;
  readonly prediction: Prediction;
}

const when = (is: boolean): number => (is ? 1 : 0);
const log = (value: number): number => Math.log2(Math.max(value, 1e-9));

/** What a pitch in bytes is a multiple of, up to a line and its neighbour. */
const MOST_ALIGNED = 256;
const alignment = (bytes: number): number => (bytes > 2 ** 30 ? 0 : Math.min(MOST_ALIGNED, bytes & -bytes));

/** Rounds of tiles, and by how much a size is rounded up; beyond, more of it changes nothing. */
const MOST_WAVES = 20;
const MOST_PADDING = 8;

const scheds: readonly ModelKernel["sched"][] = ["tiles", "persistent", "clc-late", "clc"];
const rasters: readonly ModelKernel["raster"]["kind"][] = [
  "row",
  "col",
  "hilbert",
  "grouped",
  "snake",
  "blocked",
];

const bytesOf = ({ problem: { a } }: Kernel): number => dtypes[a.dtype].bits / 8;
const wavesOf = ({ kernel, machine, counts }: Kernel): number =>
  counts.tiles / ((machine.sms * Math.max(1, kernel.residents)) / kernel.unit);
const padding = (size: number, tile: number): number =>
  Math.min(MOST_PADDING, (Math.ceil(size / tile) * tile) / size);
const ringOf = (of: Kernel): number => {
  const { stages, tile } = of.kernel;
  return (stages * (tile[0] + tile[1]) * tile[2] * bytesOf(of)) / 1024;
};
const share =
  (cause: (typeof causes)[number]) =>
  ({ prediction }: Kernel): number =>
    prediction.causes[cause] / prediction.timeUs;

const units = ["multiply", "shared memory", "L2", "copy engine", "DRAM"] as const;
const busy =
  (unit: (typeof units)[number]) =>
  ({ prediction }: Kernel): number =>
    prediction.busyUs[unit] / prediction.timeUs;

const traits: Readonly<Record<string, (of: Kernel) => number>> = {
  m: ({ problem }) => log(problem.m),
  n: ({ problem }) => log(problem.n),
  k: ({ problem }) => log(problem.k),
  "bytes of A": bytesOf,
  "bytes of D": ({ problem }) => sizeOf(problem.d.dtype),
  integers: ({ problem }) => when(problem.acc === "s32"),
  tf32: ({ problem }) => when(problem.a.dtype === "tf32"),
  "B along n": ({ problem }) => when(problem.b.layout === "row"),
  "pitch of A": (of) => alignment(of.problem.a.ld * bytesOf(of)),
  "pitch of B": (of) => alignment(of.problem.b.ld * bytesOf(of)),
  "pitch of D": ({ problem: { d } }) => alignment(d.ld * sizeOf(d.dtype)),
  engine: ({ kernel }) => engines.indexOf(kernel.engine),
  "copied by threads": ({ kernel }) => when(kernel.copyVector !== null),
  through: ({ kernel }) => when(kernel.through),
  "copy of A": (of) => (of.kernel.copyVector?.[0] ?? 0) * bytesOf(of),
  "copy of B": (of) => (of.kernel.copyVector?.[1] ?? 0) * bytesOf(of),
  across: ({ kernel }) => log(kernel.across + 1),
  words: ({ kernel }) => when(kernel.words),
  transposed: ({ kernel }) => log(kernel.transposedBytes + 1),
  "rows of a tile": ({ kernel }) => log(kernel.tile[0]),
  "columns of a tile": ({ kernel }) => log(kernel.tile[1]),
  "bytes of a chunk's row": (of) => log(of.kernel.tile[2] * bytesOf(of)),
  "elements of a tile": ({ kernel: { tile } }) => log(tile[0] * tile[1]),
  "aspect of a tile": ({ kernel: { tile } }) => log(tile[0] / tile[1]),
  swapped: ({ kernel }) => when(kernel.swapped),
  "rows of an instruction": ({ kernel }) => log(kernel.instruction[0]),
  "columns of an instruction": ({ kernel }) => log(kernel.instruction[1]),
  threads: ({ kernel }) => kernel.threads,
  stages: ({ kernel }) => kernel.stages,
  box: ({ kernel }) => kernel.boxBytes,
  sets: ({ kernel }) => kernel.sets,
  halves: ({ kernel }) => when(kernel.halves > 0),
  "multicast along m": ({ kernel }) => kernel.multicast[0],
  "multicast along n": ({ kernel }) => kernel.multicast[1],
  residents: ({ kernel }) => kernel.residents,
  sched: ({ kernel }) => scheds.indexOf(kernel.sched),
  overlap: ({ kernel }) => when(kernel.overlap),
  "bytes of a store": ({ kernel }) => kernel.storeBytes,
  gaps: ({ kernel }) => when(kernel.storeGaps),
  "span of a store": ({ kernel }) => log(kernel.storeSpan),
  "box of a store": ({ kernel }) => kernel.storeBox ?? 0,
  split: ({ kernel }) => kernel.split,
  combine: ({ kernel }) => (kernel.split > 1 ? reductionKinds.indexOf(kernel.combine) : -1),
  "shared tiles": ({ kernel }) => when(kernel.streamk > 0),
  raster: ({ kernel }) => rasters.indexOf(kernel.raster.kind),
  "group of the raster": ({ kernel: { raster } }) => ("group" in raster ? raster.group : 0),
  "fragment loads": ({ kernel }) => kernel.work?.fragmentLoads ?? 0,
  copies: ({ kernel }) => kernel.work?.copies ?? 0,
  ahead: ({ kernel }) => kernel.work?.ahead ?? 0,
  tiles: ({ counts }) => log(counts.tiles),
  chunks: ({ counts }) => log(counts.chunks),
  waves: (of) => Math.min(MOST_WAVES, wavesOf(of)),
  "share of the last wave": (of) => wavesOf(of) / Math.ceil(wavesOf(of)),
  "tiles of an SM": ({ counts, machine }) => Math.min(MOST_WAVES, counts.tiles / machine.sms),
  rounds: ({ prediction }) => prediction.rounds,
  "padding of m": ({ problem, kernel }) => padding(problem.m, kernel.tile[0]),
  "padding of n": ({ problem, kernel }) => padding(problem.n, kernel.tile[1]),
  "padding of k": ({ problem, kernel }) => padding(problem.k, kernel.tile[2]),
  ring: ringOf,
  "rings of an SM": (of) => ringOf(of) * of.kernel.residents,
  time: ({ prediction }) => log(prediction.timeUs),
  clock: ({ prediction }) => prediction.ghz,
  watts: ({ prediction }) => prediction.watts,
  ...Object.fromEntries(
    causes.filter((cause) => cause !== "residual").map((cause) => [`share of ${cause}`, share(cause)]),
  ),
  ...Object.fromEntries(units.map((unit) => [`busy: ${unit}`, busy(unit)])),
};
export const traitNames = Object.keys(traits);
const all = Object.values(traits);

export const traitsOf = (of: Kernel): Float64Array => Float64Array.from(all, (trait) => trait(of));
