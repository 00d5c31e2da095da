/** From problem and schedule to the program at stage `nest`. The last place that reads the schedule. */
import type { Problem, Schedule, Target } from "@tilewright/core";
import {
  type Directive,
  entryName,
  gemmNest,
  type OwnershipMode,
  rasterDirective,
  splitChunks,
  streamKFor,
  type TensorKind,
  type TileProgram,
  tensorKindFor,
} from "@tilewright/ir";
import { stepsOf } from "./accumulators.ts";
import { readSchedule, type TensorSchedule } from "./schedule.ts";

/** The kind of instruction that a problem is multiplied with; null where there is none. */
export const kindOf = (problem: Problem): TensorKind | null =>
  tensorKindFor(problem.a.dtype, problem.b.dtype, problem.acc);

/** As `kindOf`, for problems that the backend has accepted. */
export function acceptedKind(problem: Problem): TensorKind {
  const kind = kindOf(problem);
  if (!kind) throw new TypeError(`no instruction multiplies ${problem.a.dtype} by ${problem.b.dtype}`);
  return kind;
}

/** Warps: four store, one copies, one multiplies; a scheduler is added by its pass, and so are the warps of further groups of rows. */
const WARPS = 6;

export function tileProblem(problem: Problem, schedule: Schedule, target: Target): TileProgram {
  const kind = acceptedKind(problem);
  const s = readSchedule(schedule);
  const { splits, chunks } = splitChunks(problem.k, s);
  // Clusters are whole: tiles outside of D store nothing.
  const axis = (extent: number, tile: number, units: number): readonly OwnershipMode[] => [
    { tier: "grid", extent: Math.ceil(extent / tile / units) * units, stride: 1 },
    { tier: "atom", extent: tile, stride: 1 },
  ];
  const tiles = Math.ceil(problem.m / s.tileM) * Math.ceil(problem.n / s.tileN);
  const share = streamKFor(tiles, chunks, s.streamk, s.sched !== "tiles");
  const program = gemmNest({
    name: entryName(problem),
    arch: target.arch,
    problem,
    nest: {
      m: axis(problem.m, s.tileM, s.clusterM),
      n: axis(problem.n, s.tileN, s.clusterN),
      k: [
        ...(splits > 1 ? [{ tier: "grid", extent: splits, stride: chunks } as const] : []),
        { tier: "block", extent: chunks, stride: 1 },
        { tier: "atom", extent: s.tileK, stride: 1 },
      ],
    },
    threads: WARPS * 32,
    cluster: [s.ctaGroup * s.clusterM, s.clusterN],
    units: [s.clusterM, s.clusterN],
    atom: kind.name,
    combine: s.reduction,
    share,
    directives: directives(s, kind, splits > 1 || share !== null),
  });
  return s.pdl ? { ...program, launch: { ...program.launch, pdl: true } } : program;
}

/** What the passes shall do (`meets`: tiles are shared by several blocks, which add up their parts); an optimisation that is off has no directive. */
function directives(s: TensorSchedule, kind: TensorKind, meets: boolean): readonly Directive[] {
  const stays = s.sched !== "tiles";
  const list: (Directive | null)[] = [
    {
      name: "stage",
      args: {
        operands: "ab",
        transport: "tma",
        ...(kind.packed ? { packed: 1 } : {}),
        ...(kind.scaled ? { scaleFactors: "tensor" } : {}),
        ...(s.chainOperand === "tensor" ? { chainOperand: "tensor" } : {}),
      },
    },
    s.swapAB ? { name: "swapAB", args: {} } : null,
    s.correctionWarps ? { name: "correctionWarps", args: { warps: 4 } } : null,
    s.rowGroups > 1 ? { name: "splitRows", args: { groups: s.rowGroups } } : null,
    // Parts of a tile meet in registers, all columns at once.
    { name: "accumulate", args: { columns: meets ? (s.swapAB ? s.tileM : s.tileN) : s.loadColumns } },
    { name: "ring", args: { slots: s.stages, registerPrefetch: 0, ahead: 0 } },
    { name: "engines", args: { earlyAccumulatorRelease: s.earlyAccumulatorRelease ? 1 : 0 } },
    s.pipelineProducts ? { name: "pipelineProducts", args: { ahead: 1 } } : null,
    s.epilogueLoad === "tma" ? { name: "epilogueLoad", args: { way: "tma" } } : null,
    stays ? { name: "persistent", args: { by: "stride" } } : null,
    stays && s.accumulators > 1 && s.overlappedColumns === 0
      ? { name: "accumulators", args: { slots: s.accumulators } }
      : null,
    stays && s.overlappedColumns > 0
      ? { name: "overlapAccumulators", args: { columns: s.overlappedColumns } }
      : null,
    s.sched === "clc" || s.sched === "atomic"
      ? { name: "schedulerPipeline", args: { by: s.sched, slots: s.schedulerStages } }
      : null,
    s.ctaGroup === 2 ? { name: "pair", args: { blocks: 2 } } : null,
    s.clusterM * s.clusterN > 1 ? { name: "multicast", args: { operands: "ab" } } : null,
    // A sum that blocks share is there with all columns, of which as many pass through the tile as a load would take.
    s.epi === "tma"
      ? { name: "epilogue", args: { way: "tma", cols: meets ? stepsOf(s).columns : 0, slots: s.storeStages } }
      : null,
    { name: "tensor", args: { swizzle: s.swizzle } },
    { name: "vector", args: { copy: 1, store: s.storeElements } },
    rasterDirective(s.raster),
    s.guards ? { name: "guards", args: { elide: 1 } } : null,
  ];
  return list.filter((d) => d !== null);
}
