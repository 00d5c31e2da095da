/** From problem and schedule to the program at stage `nest`. The last place that reads the schedule. */
import { hasFeature, type Problem, type Schedule, sizeMost, type Target } from "@tilewright/core";
import {
  countedStreamKFor,
  type Directive,
  entryName,
  gemmNest,
  type LineOrder,
  type OwnershipMode,
  rasterDirective,
  slicesHeld,
  slicesOf,
  splitChunks,
  streamKFor,
  type TileProgram,
} from "@tilewright/ir";
import { readSchedule, type SimtSchedule } from "./schedule.ts";

/**
 * Along m: grid, warp, register runs, lane, run; so a thread's rows are runs of `strip` that lie a lane grid apart, which keeps
 * vector loads of a warp next to each other. Warps count along n first, lanes along m first (measured 1-2 % better than the reverse,
 * docs/perf/simt.md).
 */
export function tileProblem(problem: Problem, schedule: Schedule, target: Target): TileProgram {
  const asked = readSchedule(schedule);
  // A chunk longer than k would only multiply zeros; even, because two fragments alternate.
  const longest = sizeMost(problem, "k");
  const s = { ...asked, tileK: Math.min(asked.tileK, longest + (longest % 2)) };
  const { splits, chunks } = splitChunks(problem.k, s);
  const tiles = Math.ceil(problem.m / s.tileM) * Math.ceil(problem.n / s.tileN);
  const meeting = meetingOf(problem, s);
  const axis = (
    grid: number,
    warps: readonly [number, number],
    lanes: readonly [number, number],
    thread: number,
    strip: number,
    registerStride: number,
  ): OwnershipMode[] => {
    const across: OwnershipMode = { tier: "warp", extent: warps[0], stride: warps[1] };
    const runs: OwnershipMode = { tier: "register", extent: thread / strip, stride: strip * registerStride };
    return [
      { tier: "grid", extent: grid, stride: 1 },
      // Slices that blocks exchange are runs of all threads.
      ...(meeting === null ? [across, runs] : [runs, across]),
      { tier: "thread", extent: lanes[0], stride: lanes[1] },
      { tier: "register", extent: strip, stride: registerStride },
    ];
  };
  const program = gemmNest({
    name: entryName(problem),
    arch: target.arch,
    problem,
    nest: {
      m: axis(
        Math.ceil(problem.m / s.tileM),
        [s.warpsM, s.warpsN],
        [s.lanesM, 1],
        s.threadM,
        s.stripM,
        s.threadN,
      ),
      n: axis(Math.ceil(problem.n / s.tileN), [s.warpsN, 1], [s.lanesN, s.lanesM], s.threadN, s.stripN, 1),
      k: [
        ...(splits > 1 ? [{ tier: "grid", extent: splits, stride: chunks } as const] : []),
        { tier: "block", extent: chunks, stride: 1 },
        { tier: "register", extent: s.tileK, stride: 1 },
      ],
    },
    threads: s.warpsM * s.warpsN * 32,
    cluster: [1, 1],
    atom: "fma",
    combine: s.reduction === "cluster" ? "last" : s.reduction,
    share:
      countedStreamKFor(problem, { tiles, chunks, tileK: s.tileK, blocks: s.streamk }) ??
      streamKFor(tiles, chunks, s.streamk),
    directives: directives(problem, s, meeting),
  });
  // Its blocks come as those of the kernel before it leave, where a grid can wait for another.
  const overlap = s.transpose !== "off" && hasFeature(target, "cluster");
  return overlap ? { ...program, launch: { ...program.launch, pdl: overlap } } : program;
}

/** Blocks that meet in a cluster, the axis along which they slice the tile, and the rows or columns of one run of all threads. */
interface Meeting {
  readonly blocks: number;
  readonly axis: 0 | 1;
  readonly unit: number;
}

/** How the blocks that share a tile slice it to add it up: along the axis whose runs divide better among them; null where they do not meet in a cluster. */
function meetingOf(problem: Problem, s: SimtSchedule): Meeting | null {
  if (s.reduction !== "cluster") return null;
  const { splits: blocks } = splitChunks(problem.k, s);
  if (blocks === 1) return null;
  const [runsM, runsN] = [s.threadM / s.stripM, s.threadN / s.stripN];
  return slicesOf(runsM, blocks) >= slicesOf(runsN, blocks)
    ? { blocks, axis: 0, unit: s.tileM / runsM }
    : { blocks, axis: 1, unit: s.tileN / runsN };
}

/** Bytes of shared memory in which slices of all blocks of a cluster arrive. */
export function slicesBytes(problem: Problem, s: SimtSchedule): number {
  const meeting = meetingOf(problem, s);
  if (meeting === null) return 0;
  const { blocks, axis, unit } = meeting;
  const slices = slicesOf((axis === 0 ? s.tileM : s.tileN) / unit, blocks);
  return (slicesHeld(blocks) * s.tileM * s.tileN * ACCUMULATOR_BYTES) / slices;
}

/** Bytes of an accumulator: f32. */
const ACCUMULATOR_BYTES = 4;

/** Null where everything ascends, row by row. */
function walkDirective({
  walk,
  walkLines: lines,
  walkAlong: along,
  operandOrder: factors,
}: SimtSchedule): Directive | null {
  const ascending = ({ kind, from }: LineOrder): boolean => kind === "up" && from === 0;
  const args = {
    ...(walk === "rows" ? {} : { order: walk }),
    ...(ascending(lines) ? {} : { lines }),
    ...(ascending(along) ? {} : { along }),
    ...(factors === "ab" ? {} : { swap: 1 as const }),
  };
  return Object.keys(args).length === 0 ? null : { name: "walk", args };
}

/** Stores of a split copy stand far into the chunk: the loads have had time, the barrier is still to come. */
const landing = ({ registerStoreStep: land, tileK }: SimtSchedule): number =>
  land > 0 ? land : Math.floor((tileK * 5) / 8);

/**
 * Chunks one after the other without a loop: ptxas would have the loads of all of them in flight where they pass through registers, and only the kernel knows
 * which are the last of a share, or of a k that the launch supplies.
 */
function drainDirective(
  { symbolic }: Problem,
  { drain, stages, copy, streamk }: SimtSchedule,
): Directive | null {
  if (drain === 0 || stages === 1) return null;
  const loop = copy === "direct" || streamk > 0 || symbolic?.k !== undefined;
  return { name: "drain", args: { chunks: drain, ...(loop ? { loop: 1 } : {}) } };
}

/** What the passes shall do; an optimisation that is off has no directive. */
function directives(problem: Problem, s: SimtSchedule, meeting: Meeting | null): readonly Directive[] {
  const staged = s.stagedOperands !== "off";
  const list: (Directive | null)[] = [
    s.transpose === "off" ? null : { name: "transpose", args: { operands: s.transpose } },
    s.stagedOperands === "off"
      ? null
      : { name: "stage", args: { operands: s.stagedOperands, transport: s.copy } },
    { name: "fragment", args: { step: 1 } },
    staged
      ? {
          name: "ring",
          args: { slots: s.stages, registerPrefetch: s.registerPrefetch && s.stages > 1 ? 1 : 0 },
        }
      : null,
    s.frag > 1 ? { name: "rotate", args: { slots: s.frag, store: landing(s) } } : null,
    s.copySpread > 1
      ? {
          name: "spread",
          args: { steps: s.copySpread, ...(s.vectorsPerThread > 1 ? { vectors: s.vectorsPerThread } : {}) },
        }
      : null,
    drainDirective(problem, s),
    meeting === null
      ? null
      : {
          name: "dsmemReduction",
          args: meeting.axis === 0 ? { rows: meeting.unit } : { columns: meeting.unit },
        },
    s.copyElements > 1 || s.storeElements > 1
      ? { name: "vector", args: { copy: s.copyElements, store: s.storeElements } }
      : null,
    s.vectorsPerThread > 1 ? { name: "distribute", args: { vectors: s.vectorsPerThread } } : null,
    s.sharedLayout !== "plain" ? { name: "smem", args: { mode: s.sharedLayout } } : null,
    walkDirective(s),
    rasterDirective(s.raster),
    s.guards ? { name: "guards", args: { elide: 1 } } : null,
  ];
  return list.filter((d) => d !== null);
}
