/** From problem and schedule to the program at stage `nest`. The last place that reads the schedule. */
import { type Problem, packedSize, type Schedule, type Target } from "@tilewright/core";
import {
  type Atom,
  cacheDirective,
  countedStreamKFor,
  type Directive,
  entryName,
  gemmNest,
  type OwnershipMode,
  rasterDirective,
  splitChunks,
  streamKFor,
  type TileProgram,
} from "@tilewright/ir";
import {
  acceptedAtom,
  besideOf,
  chunkK,
  INTERLEAVED,
  interleavedAtoms,
  interleaves,
  isPacked,
} from "./atoms.ts";
import { type MmaSchedule, mathWarps, readSchedule, threadsOf } from "./schedule.ts";
import { clusterSlices, stagingFor } from "./sharedMemory.ts";

/** Warps count along n first; registers of a warp tile are whole atoms. */
export function tileProblem(problem: Problem, schedule: Schedule, target: Target): TileProgram {
  const asked = readSchedule(schedule);
  const atom = acceptedAtom(problem, target, asked);
  const s = { ...asked, tileK: chunkK(problem, asked, atom) };
  const { splits, chunks } = splitChunks(problem.k, s);
  const tiles = Math.ceil(problem.m / s.tileM) * Math.ceil(problem.n / s.tileN);
  const grid = (extent: number): OwnershipMode => ({ tier: "grid", extent, stride: 1 });
  const pieces = (count: number, atomExtent: number): OwnershipMode[] => [
    { tier: "register", extent: count, stride: 1 },
    { tier: "atom", extent: atomExtent, stride: 1 },
  ];
  const meeting = clusterSlices(problem, s, atom);
  /** Warps along an axis and the atoms of a warp tile, `turns` of which take turns. Slices that blocks exchange are runs of all warps. */
  const interleaved = (
    which: 0 | 1,
    warps: OwnershipMode,
    extent: number,
    atomExtent: number,
  ): OwnershipMode[] => {
    const turns = interleavedAtoms(problem, s, atom)[which];
    const together = besideOf(problem, which);
    const [runs, ...atoms] = pieces(extent / (atomExtent * turns * together), atomExtent);
    const outer = runs === undefined ? [] : [runs];
    return [
      ...(meeting?.axis === which ? [...outer, warps] : [warps, ...outer]),
      ...(together > 1 ? [{ tier: "register", extent: together, stride: 1 } as const] : []),
      ...atoms,
      ...(turns > 1 ? [{ tier: "register", extent: turns, stride: 1 } as const] : []),
    ];
  };
  return gemmNest({
    name: entryName(problem),
    arch: target.arch,
    problem,
    nest: {
      m: [
        grid(Math.ceil(problem.m / s.tileM)),
        ...interleaved(0, { tier: "warp", extent: s.warpsM, stride: s.warpsN }, s.warpM, atom.m),
      ],
      n: [
        grid(Math.ceil(problem.n / s.tileN)),
        ...interleaved(1, { tier: "warp", extent: s.warpsN, stride: 1 }, s.warpN, atom.n),
      ],
      k: [
        ...(splits > 1 ? [{ tier: "grid", extent: splits, stride: chunks } as const] : []),
        { tier: "block", extent: chunks, stride: 1 },
        ...pieces(s.tileK / atom.k, atom.k),
      ],
    },
    threads: threadsOf(s),
    cluster: [1, 1],
    atom: atom.name,
    combine: s.reduction === "cluster" ? "last" : s.reduction,
    share:
      (s.persistent
        ? null
        : countedStreamKFor(problem, { tiles, chunks, tileK: s.tileK, blocks: s.streamk })) ??
      streamKFor(tiles, chunks, s.streamk, s.persistent),
    directives: [cacheDirective(s), ...directives(s, problem, atom, target)].filter((d) => d !== null),
  });
}

/** The K step before which what was loaded for the next chunk is stored: late enough to have arrived, with some steps left. */
const lateStep = (s: MmaSchedule, atom: Atom): number => Math.floor(((s.tileK / atom.k) * 5) / 8);

/** What the passes shall do; an optimisation that is off has no directive. */
function directives(s: MmaSchedule, problem: Problem, atom: Atom, target: Target): readonly Directive[] {
  const bulk = s.copy === "tma";
  const staging = stagingFor(problem, s, atom, target);
  const meeting = clusterSlices(problem, s, atom);
  // As many elements of both, and of bytes no fewer than cp.async has.
  const { a, b, weights } = problem;
  const copied = Math.min(packedSize(a.dtype), packedSize(weights === undefined ? b.dtype : a.dtype));
  const list: (Directive | null)[] = [
    {
      name: "stage",
      args: { operands: "ab", transport: s.copy, ...(isPacked(atom.a) ? { packed: 1 } : {}) },
    },
    { name: "fragment", args: { step: atom.k, ...(s.firstOperand === "b" ? { first: "b" } : {}) } },
    {
      name: "ring",
      args: { slots: s.stages, registerPrefetch: s.registerPrefetch ? 1 : 0, ...(bulk ? { ahead: 0 } : {}) },
    },
    // A warp gives a slot back by itself: none waits for another in the main loop.
    bulk ? { name: "roles", args: { producer: 1, math: mathWarps(s), release: 1 } } : null,
    bulk && s.persistent ? { name: "persistent", args: { by: "stride" } } : null,
    s.frag > 1
      ? {
          name: "rotate",
          args: { slots: s.frag, ...(s.registerPrefetch ? { store: lateStep(s, atom) } : {}) },
        }
      : null,
    s.refill ? { name: "refill", args: {} } : null,
    s.copySpread > 1 ? { name: "spread", args: { steps: s.copySpread } } : null,
    // Of a k that the launch supplies only the kernel knows which chunks are the last.
    s.drain > 0 && s.stages > 1 && !bulk
      ? {
          name: "drain",
          args: { chunks: s.drain, ...(problem.symbolic?.k === undefined ? {} : { loop: 1 }) },
        }
      : null,
    meeting === null
      ? null
      : {
          name: "dsmemReduction",
          args: meeting.axis === 0 ? { rows: meeting.unit } : { columns: meeting.unit },
        },
    s.matrices !== 0 ? { name: "matrices", args: { most: s.matrices } } : null,
    s.conditionalRescale === "off"
      ? null
      : {
          name: "conditionalRescale",
          args: s.conditionalRescale === "thread" ? { by: "thread" } : {},
        },
    s.spreadMaps ? { name: "spreadMaps", args: {} } : null,
    { name: "vector", args: { copy: Math.max(1, s.copyBytes / copied), store: s.storeElements } },
    staging === null
      ? null
      : { name: "epilogue", args: { way: "threads", cols: staging.cols, aliased: staging.late ? 1 : 0 } },
    // Bulk copies have swizzles of their own.
    bulk
      ? {
          name: "tensor",
          args: {
            swizzle: s.sharedLayout === "plain" ? "none" : "128B",
            major: "any",
            ...(interleaves(problem, s) ? { interleave: INTERLEAVED } : {}),
          },
        }
      : null,
    s.sharedLayout !== "plain" && (!bulk || s.staged)
      ? { name: "smem", args: { mode: s.sharedLayout } }
      : null,
    s.walk !== "rows" ? { name: "walk", args: { order: s.walk } } : null,
    rasterDirective(s.raster),
    s.guards ? { name: "guards", args: { elide: 1 } } : null,
  ];
  return list.filter((d) => d !== null);
}
