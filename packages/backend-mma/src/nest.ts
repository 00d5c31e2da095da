/** From problem and schedule to the program at stage `nest`. The last place that reads the schedule. */
import {
  type Atom,
  atomFor,
  cacheDirective,
  countedShareFor,
  type Directive,
  entryName,
  type Factor,
  gemmNest,
  type Problem,
  rasterDirective,
  type Schedule,
  shareFor,
  sizeMost,
  sizeMultiple,
  sizeOf,
  splitChunks,
  type Target,
  type TileProgram,
} from "@tilewright/ir";
import { type MmaSchedule, mathWarps, readSchedule, threadsOf } from "./schedule.ts";
import { type Staging, stagingOf } from "./staging.ts";

/** k of the instruction that multiplies parts of f32. */
const PART_K = 8;

/** The instruction that a problem is multiplied with on a target; null where there is none at all. */
export const atomOf = (
  { a, b, acc, precision }: Problem,
  target: Target,
  s?: Pick<MmaSchedule, "sum">,
): Atom | null =>
  atomFor(a.dtype, b.dtype, acc, {
    precision: precision === "promoted" ? undefined : precision,
    target,
    steps: s && s.sum / PART_K,
  });

/** As `atomOf`, for problems that the backend has accepted. */
export function acceptedAtom(problem: Problem, target: Target, s?: Pick<MmaSchedule, "sum">): Atom {
  const atom = atomOf(problem, target, s);
  if (!atom) throw new TypeError(`no instruction multiplies ${problem.a.dtype} by ${problem.b.dtype}`);
  return atom;
}

/**
 * Atoms that take turns along n: column q of atom j is column 4q + j. A lane holds two columns of each, eight neighbours in all. (Turns of
 * single columns, not of pairs: the rows of B that one ldmatrix reads are then four apart, which a swizzle can tell from each other.)
 */
const INTERLEAVED = 4;

/**
 * Whether columns of D are interleaved: a quarter of the row stores, 16 bytes each, of a 16-bit D. It needs a B whose columns need not be
 * neighbours in shared memory, which is one that is contiguous along k (8-byte stores of 32-bit outputs fill whole sectors as they are).
 * Bulk copies deal them as they copy, in whole turns. Not beside an epilogue through shared memory, which brings neighbours together by itself.
 */
export const interleaves = (
  problem: Problem,
  s: Pick<MmaSchedule, "interleave" | "warpN" | "copy" | "staged">,
): boolean =>
  s.interleave &&
  !s.staged &&
  (s.copy !== "tma" || sizeMultiple(problem, "n") % INTERLEAVED === 0) &&
  problem.b.layout === "col" &&
  problem.d.layout === "row" &&
  sizeOf(problem.d.dtype) <= 2 &&
  s.warpN % (8 * INTERLEAVED) === 0;

/**
 * Neighbours along an axis that belong to two atoms in turn, so that bytes across the contiguous axis of shared memory come by ldmatrix: its
 * cells are two bytes wide, and a lane keeps both. Needs matrices in pairs, and a warp tile of whole pairs of atoms.
 */
const PAIR = 2;

/** Whether rows of A, or columns of B, are dealt so. */
function pairs(
  problem: Problem,
  s: Pick<MmaSchedule, "matrices" | "warpM" | "warpN">,
  which: "a" | "b",
  atom: Atom,
): boolean {
  const { dtype, layout } = problem[which];
  const across = which === "a" ? layout === "col" : layout === "row";
  const [warp, extent] = which === "a" ? [s.warpM, atom.m] : [s.warpN, atom.n];
  return sizeOf(dtype) === 1 && across && s.matrices >= PAIR && warp % (extent * PAIR) === 0;
}

/** A chunk longer than k would only multiply zeros; its steps are even in number where two fragments alternate. */
export function chunkK(problem: Problem, s: Pick<MmaSchedule, "tileK" | "frag">, atom: Atom): number {
  const unit = atom.k * s.frag;
  return Math.min(s.tileK, Math.ceil(sizeMost(problem, "k") / unit) * unit);
}

/** Warps count along n first; registers of a warp tile are whole atoms. */
export function tileProblem(problem: Problem, schedule: Schedule, target: Target): TileProgram {
  const asked = readSchedule(schedule);
  const atom = acceptedAtom(problem, target, asked);
  const s = { ...asked, tileK: chunkK(problem, asked, atom) };
  const { splits, chunks } = splitChunks(problem.k, s);
  const tiles = Math.ceil(problem.m / s.tileM) * Math.ceil(problem.n / s.tileN);
  const grid = (extent: number): Factor => ({ tier: "grid", extent, stride: 1 });
  const pieces = (count: number, atomExtent: number): Factor[] => [
    { tier: "register", extent: count, stride: 1 },
    { tier: "atom", extent: atomExtent, stride: 1 },
  ];
  /** Atoms of a warp tile along an axis, `turns` of which take turns. */
  const dealt = (extent: number, atomExtent: number, turns: number): Factor[] => [
    ...pieces(extent / (atomExtent * turns), atomExtent),
    ...(turns > 1 ? [{ tier: "register", extent: turns, stride: 1 } as const] : []),
  ];
  const rows = dealt(s.warpM, atom.m, pairs(problem, s, "a", atom) ? PAIR : 1);
  const turns = interleaves(problem, s) ? INTERLEAVED : pairs(problem, s, "b", atom) ? PAIR : 1;
  const columns = dealt(s.warpN, atom.n, turns);
  return gemmNest({
    name: entryName(problem),
    arch: target.arch,
    problem,
    nest: {
      m: [
        grid(Math.ceil(problem.m / s.tileM)),
        { tier: "warp", extent: s.warpsM, stride: s.warpsN },
        ...rows,
      ],
      n: [grid(Math.ceil(problem.n / s.tileN)), { tier: "warp", extent: s.warpsN, stride: 1 }, ...columns],
      k: [
        ...(splits > 1 ? [{ tier: "grid", extent: splits, stride: chunks } as const] : []),
        { tier: "block", extent: chunks, stride: 1 },
        ...pieces(s.tileK / atom.k, atom.k),
      ],
    },
    threads: threadsOf(s),
    cluster: [1, 1],
    atom: atom.name,
    combine: s.combine,
    share:
      (s.persistent
        ? null
        : countedShareFor(problem, { tiles, chunks, tileK: s.tileK, blocks: s.streamk })) ??
      shareFor(tiles, chunks, s.streamk, s.persistent),
    directives: [cacheDirective(schedule), ...directives(s, problem, atom, target)].filter((d) => d !== null),
  });
}

/** Bytes of the barriers of a slot that bulk copies fill. */
const BARRIER_BYTES = 16;

/** Bytes of shared memory that the ring takes, without padding. `s.tileK` is the chunk as it will be. */
export const ringBytes = (s: MmaSchedule, atom: Atom): number =>
  ((s.tileM + s.tileN) * s.tileK * sizeOf(atom.a) + (s.copy === "tma" ? BARRIER_BYTES : 0)) * s.stages;

/** Bytes of shared memory of a block, without padding: the ring, and D's tile beside it or in its place. */
export function blockBytes(problem: Problem, s: MmaSchedule, atom: Atom, target: Target): number {
  const chunk = { ...s, tileK: chunkK(problem, s, atom) };
  const ring = ringBytes(chunk, atom);
  const staging = stagingFor(problem, chunk, atom, target);
  return staging === null ? ring : staging.late ? Math.max(ring, staging.bytes) : ring + staging.bytes;
}

/** D's tile, where it goes through one. `s.tileK` is the chunk as it will be. */
const stagingFor = (problem: Problem, s: MmaSchedule, atom: Atom, target: Target): Staging | null =>
  s.staged
    ? stagingOf(problem, s, {
        ring: ringBytes(s, atom),
        most: target.limits.maxSmemPerBlock,
        unit: atom.n * (pairs(problem, s, "b", atom) ? PAIR : 1),
      })
    : null;

/** The K step before which what was loaded for the next chunk is stored: late enough to have arrived, with some steps left. */
const lateStep = (s: MmaSchedule, atom: Atom): number => Math.floor(((s.tileK / atom.k) * 5) / 8);

/** What the passes shall do; an optimisation that is off has no directive. */
function directives(s: MmaSchedule, problem: Problem, atom: Atom, target: Target): readonly Directive[] {
  const bulk = s.copy === "tma";
  const staging = stagingFor(problem, s, atom, target);
  const list: (Directive | null)[] = [
    { name: "stage", args: { operands: "ab", transport: s.copy } },
    { name: "fragment", args: { step: atom.k } },
    { name: "ring", args: { slots: s.stages, prefetch: s.prefetch ? 1 : 0, ...(bulk ? { ahead: 0 } : {}) } },
    // A warp gives a slot back by itself: none waits for another in the main loop.
    bulk ? { name: "roles", args: { producer: 1, math: mathWarps(s), release: 1 } } : null,
    bulk && s.persistent ? { name: "visit", args: { by: "stride" } } : null,
    s.frag > 1
      ? { name: "rotate", args: { slots: s.frag, ...(s.prefetch ? { store: lateStep(s, atom) } : {}) } }
      : null,
    s.spread > 1 ? { name: "spread", args: { steps: s.spread } } : null,
    // Of a k that the launch supplies only the kernel knows which chunks are the last.
    s.drain > 0 && s.stages > 1 && !bulk
      ? {
          name: "drain",
          args: { chunks: s.drain, ...(problem.symbolic?.k === undefined ? {} : { loop: 1 }) },
        }
      : null,
    s.matrices > 0 ? { name: "matrices", args: { most: s.matrices } } : null,
    { name: "vector", args: { copy: s.vec / sizeOf(atom.a), store: s.store } },
    staging === null
      ? null
      : { name: "epilogue", args: { way: "threads", cols: staging.cols, late: staging.late ? 1 : 0 } },
    // Bulk copies have swizzles of their own.
    bulk
      ? {
          name: "tensor",
          args: {
            swizzle: s.smem === "plain" ? "none" : "128B",
            major: "any",
            ...(interleaves(problem, s) ? { deal: INTERLEAVED } : {}),
          },
        }
      : null,
    s.smem !== "plain" && (!bulk || s.staged) ? { name: "smem", args: { mode: s.smem } } : null,
    s.walk !== "rows" ? { name: "walk", args: { order: s.walk } } : null,
    rasterDirective(s.raster),
    s.elideGuards ? { name: "guards", args: { elide: 1 } } : null,
  ];
  return list.filter((d) => d !== null);
}
