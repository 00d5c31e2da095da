/**
 * What measured kernels add to the model: of a GPU whose data file has residuals, predictions are corrected by terms of the kernel's own prediction, with a weight for each way
 * that operands come to the instruction, and by trees over traits of the kernel for what these leave. So results of a problem inform the choice for others (scripts/unseen/residuals.ts fits them;
 * docs/perf/model.md).
 */
import { type DType, dtypes, entryOf, gpus, type Problem } from "@tilewright/core";
import { type LaunchCounts, launchCounts } from "./counts.ts";
import type { ModelKernel } from "./kernel.ts";
import type { Machine } from "./machine.ts";
import { residualBy } from "./neighbours.ts";
import type { Prediction } from "./predict.ts";
import { traitsOf } from "./traits.ts";
import { treesOf } from "./trees.ts";

interface Facts {
  readonly problem: Problem;
  readonly kernel: ModelKernel;
  readonly counts: LaunchCounts;
  readonly causes: Prediction["causes"];
  /** Tiles of the busiest SM, KiB of a chunk over 50, bytes of a tile of D over 40,000: terms are of the order of a microsecond. */
  readonly rounds: number;
  readonly chunk: number;
  readonly stored: number;
}

const when = (is: boolean): number => (is ? 1 : 0);
const splitBy =
  (...kinds: readonly ModelKernel["combine"][]) =>
  ({ kernel: { split, combine } }: Facts): number =>
    when(split > 1 && kinds.includes(combine));

/** Microseconds, or what costs time in proportion to it; over the predicted time they are what its logarithm is corrected by. */
const terms: Readonly<Record<string, (of: Facts) => number>> = {
  multiply: ({ causes }) => causes.multiply,
  "shared memory": ({ causes }) => causes["shared memory"],
  L2: ({ causes }) => causes.L2,
  "copy engine": ({ causes }) => causes["copy engine"],
  latency: ({ causes }) => causes.latency,
  "idle SMs": ({ causes }) => causes["idle SMs"],
  epilogue: ({ causes }) => causes.epilogue,
  reduction: ({ causes }) => causes.reduction,
  DRAM: ({ causes }) => causes.DRAM,
  launches: () => 1,
  tiles: ({ rounds }) => rounds,
  chunks: ({ rounds, counts }) => rounds * counts.chunks,
  "chunks' bytes": ({ rounds, counts, chunk }) => rounds * counts.chunks * chunk,
  "a chunk's bytes": ({ chunk }) => chunk,
  "the first chunks' bytes": ({ chunk, counts, kernel }) => chunk * Math.min(counts.chunks, kernel.stages),
  "tiles' bytes of D": ({ rounds, stored }) => rounds * stored,
  "a tile's bytes of D": ({ stored }) => stored,
  "D's bytes": ({ problem: { m, n, d } }) => (m * n * dtypes[d.dtype].bits) / 8 / 4e6,
  "stored by threads": ({ rounds, stored, kernel }) => rounds * stored * when(kernel.storeBox === null),
  swapped: ({ rounds, stored, kernel }) => rounds * stored * when(kernel.swapped),
  persistent: ({ kernel }) => when(kernel.sched !== "tiles"),
  "persistent tiles": ({ rounds, kernel }) => rounds * when(kernel.sched !== "tiles"),
  residents: ({ kernel }) => when(kernel.residents > 1),
  clusters: ({ kernel: { multicast } }) => when(multicast[0] * multicast[1] > 1),
  "reduction in a cluster": splitBy("cluster"),
  "reduction by slices": splitBy("slices"),
  "other reductions": splitBy("last", "atomics", "kernel", "bulk"),
};
export const residualTerms = Object.keys(terms);

/** How operands come to the instruction. */
export function routeOf({ engine, copyVector, through }: ModelKernel): string {
  if (engine === "fma") return engine;
  return `${engine} ${copyVector === null ? "bulk" : through ? "through registers" : "asynchronous"}`;
}

/** Each term of a kernel over its predicted time. */
export function residualValues(
  problem: Problem,
  kernel: ModelKernel,
  machine: Machine,
  { causes, timeUs }: Prediction,
  counts: LaunchCounts = launchCounts(problem, kernel),
): readonly number[] {
  const [tm, tn, tk] = kernel.tile;
  const facts: Facts = {
    ...{ problem, kernel, counts, causes },
    rounds: Math.ceil(counts.tiles / machine.sms),
    chunk: ((tm + tn) * tk * dtypes[problem.a.dtype].bits) / 8 / 1024 / 50,
    stored: (tm * tn * dtypes[problem.d.dtype].bits) / 8 / 40_000,
  };
  return residualTerms.map((name) => (terms[name]?.(facts) ?? 0) / timeUs);
}

/** What was timed: plain products of these elements. */
const timed: ReadonlySet<DType> = new Set(["bf16", "f16", "e4m3", "s8", "tf32", "f32"]);

const isAlike = ({ a, b, batch, epilogue, precision, weights, blockScales, c }: Problem): boolean =>
  timed.has(a.dtype) &&
  a.dtype === b.dtype &&
  batch.kind === "none" &&
  epilogue.length === 0 &&
  c === null &&
  precision === undefined &&
  weights === undefined &&
  !blockScales;

/** Least and most of the logarithm by the terms alone, and of all: beyond, the kernels that were timed say nothing. */
export const termRange = { least: -0.3, most: 0.5 } as const;
export const residualRange = { least: -0.3, most: 0.8 } as const;

export const within = ({ least, most }: typeof termRange | typeof residualRange, value: number): number =>
  Math.min(most, Math.max(least, value));

const residualsOf = (gpu: string) => gpus.find(({ name }) => name === gpu)?.model.residuals ?? null;

/** Read when they are first asked for. */
const readTrees = new Map<string, (traits: Float64Array) => number>();
function treesFor(gpu: string): (traits: Float64Array) => number {
  return entryOf(readTrees, gpu, () => {
    const trees = residualsOf(gpu)?.trees;
    return trees === undefined ? () => 0 : treesOf(trees);
  });
}

/** Whether predictions of a problem on a machine are corrected by kernels of other problems that come with the compiler. */
export const isInformed = (problem: Problem, { gpu }: Machine): boolean =>
  residualsOf(gpu) !== null && isAlike(problem);

/** What kernels that come with the compiler add to the logarithm of a prediction; 0 where there are none. */
function learnt(problem: Problem, kernel: ModelKernel, machine: Machine, prediction: Prediction): number {
  const weights = isAlike(problem) ? residualsOf(machine.gpu)?.routes[routeOf(kernel)] : undefined;
  if (weights === undefined) return 0;
  const counts = launchCounts(problem, kernel);
  const shares = residualValues(problem, kernel, machine, prediction, counts);
  const terms = within(
    termRange,
    shares.reduce((total, share, at) => total + share * (weights[at] ?? 0), 0),
  );
  return terms + treesFor(machine.gpu)(traitsOf({ problem, kernel, machine, counts, prediction }));
}

/** A prediction with what measured kernels say of it, those of the user's near problems among them; itself where there are none. */
export function informed(
  problem: Problem,
  kernel: ModelKernel,
  machine: Machine,
  prediction: Prediction,
): Prediction {
  const near = machine.near === undefined ? 0 : residualBy(machine.near, problem, kernel);
  const sum = learnt(problem, kernel, machine, prediction) + near;
  if (sum === 0) return prediction;
  const factor = Math.exp(within(residualRange, sum));
  const { timeUs, tflops, busy, causes } = prediction;
  return {
    ...prediction,
    timeUs: timeUs * factor,
    tflops: tflops / factor,
    busy: Math.min(1, busy / factor),
    causes: { ...causes, residual: timeUs * (factor - 1) },
  };
}
