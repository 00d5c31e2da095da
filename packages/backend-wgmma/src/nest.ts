/** From problem and schedule to the program at stage `nest`. The last place that reads the schedule. */

import { type Problem, type Schedule, type Target, WEIGHT_K } from "@tilewright/core";
import {
  afterTransposing,
  cacheDirective,
  type Directive,
  entryName,
  gemmNest,
  type OwnershipMode,
  PRODUCER,
  rasterDirective,
  splitChunks,
  streamKFor,
  type TileProgram,
} from "@tilewright/ir";
import {
  ATOM_ROWS,
  atomOf,
  chunkK,
  instructionsBeside,
  needsKMajor,
  WARPS,
  widensA,
  widensB,
} from "./instructions.ts";
import {
  hasProducer,
  mathGroups,
  producerWarps,
  readSchedule,
  sumSides,
  threadsOf,
  type WgmmaSchedule,
} from "./schedule.ts";
import {
  reducingBlocks,
  SLICE_UNIT,
  stagedColumns,
  stagedSlots,
  tailColumns,
  workTiles,
} from "./sharedMemory.ts";
import { bringsFactors, columnsApart, twoLevelDirective } from "./twoLevel.ts";

/** Whether the weights of a chunk are made in parts, one while products read the one before: where their slots are given back late, and a chunk has parts. */
export const alternates = (problem: Problem, s: Pick<WgmmaSchedule, "delayedRelease" | "tileK">): boolean =>
  problem.weights !== undefined && s.delayedRelease && chunkK(problem, s.tileK) >= 2 * WEIGHT_K;

/** Blocks along an axis: enough for the matrix, and whole clusters of them; tiles that lie outside store nothing. */
const tilesAlong = (size: number, tile: number, cluster: number): number =>
  Math.ceil(Math.ceil(size / tile) / cluster) * cluster;

export function tileProblem(problem: Problem, schedule: Schedule, target: Target): TileProgram {
  const asked = readSchedule(schedule);
  const s = { ...asked, tileK: chunkK(problem, asked.tileK) };
  const { rows, columns } = sumSides(s);
  const apart = columnsApart(problem, s);
  const atom = atomOf(problem, apart ?? columns.tile / columns.groups, s.swapAB);
  if (!atom) throw new TypeError(`no instruction for a tile of ${columns.tile} columns`);
  const { splits, chunks } = splitChunks(problem.k, s);
  const grid = (extent: number): OwnershipMode => ({ tier: "grid", extent, stride: 1 });
  const groups = (extent: number, stride: number): OwnershipMode[] =>
    extent > 1 ? [{ tier: "warp", extent, stride }] : [];
  const pieces = (count: number, extent: number): OwnershipMode[] => [
    { tier: "register", extent: count, stride: 1 },
    { tier: "atom", extent, stride: 1 },
  ];
  const instructions = rows.tile / rows.groups / ATOM_ROWS;
  const together = instructionsBeside(problem, instructions);
  const own = {
    [rows.axis]: [
      ...pieces(instructions / together, together > 1 ? WARPS : ATOM_ROWS),
      ...(together > 1 ? pieces(together, ATOM_ROWS / WARPS) : []),
    ],
    [columns.axis]: pieces(columns.tile / columns.groups / atom.n, atom.n),
  };
  const program = gemmNest({
    name: entryName(problem),
    arch: target.arch,
    problem,
    nest: {
      m: [
        grid(tilesAlong(problem.m, s.tileM, s.clusterM)),
        // Warpgroups count along n first.
        ...groups(s.groupsM, 4 * s.groupsN),
        ...(own.m ?? []),
      ],
      n: [grid(tilesAlong(problem.n, s.tileN, s.clusterN)), ...groups(s.groupsN, 4), ...(own.n ?? [])],
      k: [
        ...(splits > 1 ? [{ tier: "grid", extent: splits, stride: chunks } as const] : []),
        { tier: "block", extent: chunks, stride: 1 },
        ...pieces(s.tileK / atom.k, atom.k),
      ],
    },
    // The other sets of math warps come with `pingPongRoles`.
    threads: threadsOf({ ...s, pingPong: 1 }),
    cluster: [s.clusterM, s.clusterN],
    atom: atom.name,
    combine: s.reduction === "cluster" ? "last" : s.reduction,
    share: streamKFor(workTiles(problem, s), chunks, s.streamk, s.persistent),
    directives: [cacheDirective(s), ...directives(s, afterTransposing(problem, s.transpose), target)].filter(
      (d) => d !== null,
    ),
  });
  const launch = {
    ...program.launch,
    // CTAs begin as those of a kernel before that transposes end.
    ...(s.pdl || s.transpose !== "off" ? { pdl: true as const } : {}),
    ...(s.earlyProducerStart ? { earlyProducerStart: true as const } : {}),
    ...(s.nonPortableCluster ? { nonPortableCluster: true as const } : {}),
  };
  return { ...program, launch };
}

/** What the passes shall do; an optimisation that is off has no directive. */
function directives(s: WgmmaSchedule, problem: Problem, target: Target): readonly Directive[] {
  const bulk = s.copy === "tma";
  const apart = hasProducer(s);
  const most = target.limits.maxSmemPerBlock;
  const staged = stagedColumns(problem, s, most);
  const slots = stagedSlots(problem, s, staged, most);
  const list: (Directive | null)[] = [
    s.transpose === "off" ? null : { name: "transpose", args: { operands: s.transpose } },
    {
      name: "stage",
      args: {
        operands: "ab",
        transport: s.copy === "load" ? "direct" : s.copy,
        ...(widensB(problem) ? { widen: 1 } : {}),
        ...(problem.blockScales ? { scaleFactors: bringsFactors(problem, s) ? "vectors" : "global" } : {}),
        ...(s.reuseStages ? { reuse: 1 } : {}),
      },
    },
    alternates(problem, s) ? { name: "alternateWeights", args: { rows: WEIGHT_K } } : null,
    s.swapAB ? { name: "swapAB", args: {} } : null,
    { name: "ring", args: { slots: s.stages, registerPrefetch: 0, ahead: apart ? 0 : 1 } },
    apart
      ? {
          name: "roles",
          args: {
            producer: producerWarps(s),
            math: 4 * mathGroups(s),
            // Warps that have read their part of what they widen, or of factors, say so themselves.
            ...(widensA(problem) || problem.weights !== undefined || bringsFactors(problem, s)
              ? { release: 1 }
              : {}),
            ...(s.regs ? { registersP: s.regs.producer, registersM: s.regs.math } : {}),
          },
        }
      : null,
    s.epilogueLoad === "tma" ? { name: "epilogueLoad", args: { way: "tma", steps: 1, in: PRODUCER } } : null,
    apart && s.persistent
      ? {
          name: "persistent",
          args: { by: s.zigzag ? "zigzag" : "stride", ...(s.batchGroup > 0 ? { batch: s.batchGroup } : {}) },
        }
      : null,
    bulk && s.counted
      ? { name: "schedulerPipeline", args: { by: "atomic", slots: s.schedulerStages, in: PRODUCER } }
      : null,
    bulk && s.multicast !== "off" && s.clusterM * s.clusterN > 1
      ? { name: "multicast", args: { operands: s.multicast } }
      : null,
    bulk && s.l2Prefetch > 0 ? { name: "l2Prefetch", args: { chunks: s.l2Prefetch } } : null,
    s.peel && apart ? { name: "peel", args: { chunks: 1 } } : null,
    twoLevelDirective(problem, s),
    s.delayedRelease && apart ? { name: "delayedRelease", args: { chunks: 1 } } : null,
    reducingBlocks(problem, s) > 1
      ? { name: "dsmemReduction", args: { [s.swapAB ? "rows" : "columns"]: SLICE_UNIT } }
      : null,
    s.tail > 0 ? tailDirective(problem, s, most) : null,
    s.pipelineProducts ? { name: "pipelineProducts", args: { ahead: 1 } } : null,
    s.splitMasked ? { name: "splitMasked", args: { loops: 1 } } : null,
    s.loadVectorsAhead ? { name: "loadVectorsAhead", args: { tiles: 1 } } : null,
    s.laneSums ? { name: "laneSums", args: { tiles: 1 } } : null,
    s.conditionalRescale === "off"
      ? null
      : {
          name: "conditionalRescale",
          args: s.conditionalRescale === "thread" ? { by: "thread" } : {},
        },
    s.pingPong > 1 ? { name: "pingPong", args: { roles: s.pingPong } } : null,
    s.epi === "tma"
      ? {
          name: "epilogue",
          args: { way: "tma", cols: staged, ...(slots > 1 ? { slots } : {}) },
        }
      : null,
    {
      name: "tensor",
      args: { swizzle: s.swizzle, major: needsKMajor(problem) ? "k" : widensA(problem) ? "a" : "any" },
    },
    { name: "vector", args: { copy: bulk ? 1 : 16, store: s.storeElements } },
    rasterDirective(s.raster),
    s.guards ? { name: "guards", args: { elide: 1 } } : null,
  ];
  return list.filter((d) => d !== null);
}

function tailDirective(problem: Problem, s: WgmmaSchedule, most: number): Directive | null {
  const columns = tailColumns(problem, s, most);
  return columns === null
    ? null
    : { name: "tail", args: { chunks: s.tail, columns, of: s.tileN / s.groupsN } };
}
