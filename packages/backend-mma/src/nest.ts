/** From problem and schedule to the program at stage `nest`. The last place that reads the schedule. */
import {
  copyBytes,
  type DType,
  dtypes,
  isScaled,
  type Problem,
  packedSize,
  SCALE_ROWS,
  type Schedule,
  scaledTypes,
  sizeMost,
  sizeMultiple,
  sizeOf,
  type Target,
  WEIGHT_COLUMNS,
  WEIGHT_K,
} from "@tilewright/core";
import {
  type Atom,
  atomFor,
  cacheDirective,
  countedStreamKFor,
  type Directive,
  entryName,
  gemmNest,
  type OwnershipMode,
  placeShared,
  rasterDirective,
  regionsOf,
  type SharedNeeds,
  scaleWords,
  slicesHeld,
  slicesOf,
  splitChunks,
  streamKFor,
  type TileProgram,
  weightTiles,
  widensIntoFragments,
} from "@tilewright/ir";
import { type MmaSchedule, mathWarps, readSchedule, threadsOf } from "./schedule.ts";
import { type Staging, stagingOf } from "./staging.ts";

/** Whether elements of a dtype share bytes. */
export const isPacked = (dtype: DType): boolean => dtypes[dtype].bits < 8;

/** k of the instruction that multiplies parts of f32. */
const PART_K = 8;

/** The instruction that a problem is multiplied with on a target; null where there is none at all. */
export const atomOf = (
  { a, b, acc, precision, weights }: Problem,
  target: Target,
  s?: Pick<MmaSchedule, "firstLevelK">,
): Atom | null => {
  const [x, y] = [a.dtype, weights === undefined ? b.dtype : a.dtype];
  const multiplied = (own: DType, other: DType): DType => (widensIntoFragments(own, other) ? other : own);
  return atomFor(multiplied(x, y), multiplied(y, x), acc, {
    precision: precision === "promoted" ? undefined : precision,
    target,
    steps: s && s.firstLevelK / PART_K,
  });
};

/** Whether fragments of an operand are loaded from bytes to registers of 16 bits. */
export const widensFragments = (problem: Problem, which: "a" | "b"): boolean =>
  problem.weights === undefined &&
  widensIntoFragments(problem[which].dtype, problem[which === "a" ? "b" : "a"].dtype);

/** As `atomOf`, for problems that the backend has accepted. */
export function acceptedAtom(problem: Problem, target: Target, s?: Pick<MmaSchedule, "firstLevelK">): Atom {
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
 * Bulk copies interleave them as they copy, in whole groups. Not beside an epilogue through shared memory, which brings neighbours together by itself.
 */
export const interleaves = (
  problem: Problem,
  s: Pick<MmaSchedule, "interleave" | "warpN" | "copy" | "staged">,
): boolean =>
  s.interleave &&
  problem.weights === undefined &&
  !s.staged &&
  (s.copy !== "tma" || sizeMultiple(problem, "n") % INTERLEAVED === 0) &&
  problem.b.layout === "col" &&
  problem.d.layout === "row" &&
  sizeOf(problem.d.dtype) <= 2 &&
  s.warpN % (8 * INTERLEAVED) === 0;

/**
 * Whether a store of interleaved columns moves as many neighbours as atoms take turns. Narrower ones touch more sectors of D than stores of columns that are not interleaved: a
 * sector each, where rows begin at odd elements.
 */
export const interleavesWide = (problem: Problem): boolean =>
  copyBytes(problem, "d") >= INTERLEAVED * sizeOf(problem.d.dtype);

/**
 * Neighbours along an axis that belong to two atoms in turn, so that bytes across the contiguous axis of shared memory come by ldmatrix: its
 * cells are two bytes wide, and a lane keeps both. Needs matrices in pairs, or bytes that are widened, and a warp tile of whole pairs of atoms.
 */
const PAIR = 2;

/** Whether rows of A, or columns of B, are interleaved so. Columns of bytes that are widened are where several warps divide them: one that has all of a row multiplies what it holds of them by columns next to each other. */
function pairs(
  problem: Problem,
  s: Pick<MmaSchedule, "matrices" | "warpM" | "warpN" | "warpsN">,
  which: "a" | "b",
  atom: Atom,
): boolean {
  const { dtype, layout } = problem[which];
  const across = which === "a" ? layout === "col" : layout === "row";
  const [warp, extent] = which === "a" ? [s.warpM, atom.m] : [s.warpN, atom.n];
  const widened = widensFragments(problem, which);
  const matrices = widened ? (which === "a" || s.warpsN > 1 ? 1 : Number.POSITIVE_INFINITY) : PAIR;
  return sizeOf(dtype) === 1 && across && s.matrices >= matrices && warp % (extent * PAIR) === 0;
}

/** A chunk longer than k would only multiply zeros; its steps are even in number where two fragments alternate. */
export function chunkK(problem: Problem, s: Pick<MmaSchedule, "tileK" | "frag">, atom: Atom): number {
  const unit = problem.weights === undefined ? atom.k * s.frag : Math.max(WEIGHT_K, problem.weights.group);
  return Math.min(s.tileK, Math.ceil(sizeMost(problem, "k") / unit) * unit);
}

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
  const meeting = meetingOf(problem, s, atom);
  /** Warps along an axis and the atoms of a warp tile, `turns` of which take turns. Slices that blocks exchange are runs of all warps. */
  const interleaved = (
    which: 0 | 1,
    warps: OwnershipMode,
    extent: number,
    atomExtent: number,
  ): OwnershipMode[] => {
    const turns = turnsOf(problem, s, atom)[which];
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

/** Atoms that take turns along m and n. */
const turnsOf = (problem: Problem, s: MmaSchedule, atom: Atom): readonly [number, number] => [
  pairs(problem, s, "a", atom) ? PAIR : 1,
  interleaves(problem, s) ? INTERLEAVED : pairs(problem, s, "b", atom) ? PAIR : 1,
];

/** Atoms side by side along m or n that stay together: those of the columns of a block of weights. */
const besideOf = ({ weights }: Problem, axis: 0 | 1): number =>
  weights === undefined || axis === 0 ? 1 : WEIGHT_COLUMNS / 8;

/** Blocks that meet in a cluster, the axis along which they slice the tile, its slices, and the rows or columns of one run of all warps. */
interface Meeting {
  readonly blocks: number;
  readonly axis: 0 | 1;
  readonly slices: number;
  readonly unit: number;
}

/** How the blocks that share a tile slice it to add it up: along the axis whose runs divide better among them; null where they do not meet in a cluster. */
function meetingOf(problem: Problem, s: MmaSchedule, atom: Atom): Meeting | null {
  if (s.reduction !== "cluster") return null;
  const { splits: blocks } = splitChunks(problem.k, s);
  if (blocks === 1) return null;
  const [turnsM, turnsN] = turnsOf(problem, s, atom);
  const along = (axis: 0 | 1, tile: number, unit: number): Meeting => ({
    blocks,
    axis,
    slices: slicesOf(tile / unit, blocks),
    unit,
  });
  const rows = along(0, s.tileM, atom.m * turnsM * s.warpsM);
  const columns = along(1, s.tileN, atom.n * turnsN * besideOf(problem, 1) * s.warpsN);
  return rows.slices > columns.slices ? rows : columns;
}

/** Bytes of shared memory in which slices of all blocks of a cluster arrive. */
function slicesBytes(problem: Problem, s: MmaSchedule, atom: Atom): number {
  const meeting = meetingOf(problem, s, atom);
  return meeting === null
    ? 0
    : (slicesHeld(meeting.blocks) * s.tileM * s.tileN * packedSize(atom.acc)) / meeting.slices;
}

/** Rows of a chunk after which the widest swizzle begins anew, and bytes of a row from which on it is as wide. */
const SWIZZLE_ROWS = 8;
const SWIZZLE_BYTES = 128;

/** The period of a tile's swizzle where blocks of factors follow it in a slot: rows of 128 bytes or more, `turns` of them apart. */
const besideFactors = (s: MmaSchedule, { a, scaledForm }: Atom, turns: number): number =>
  scaledForm === null || s.sharedLayout === "plain"
    ? 1
    : SWIZZLE_ROWS * turns * Math.max(SWIZZLE_BYTES, s.tileK * packedSize(a));

/** Blocks of scale factors of a chunk, of those operands that have some. */
function factorTiles(s: MmaSchedule, { a }: Atom): SharedNeeds["rings"][number]["tiles"] {
  if (!isScaled(a)) return [];
  const tile = (name: string, extent: number) => ({
    name,
    bytes: 4 * Math.ceil(extent / SCALE_ROWS) * scaleWords(s.tileK, scaledTypes[a].block),
    align: 1,
  });
  return [tile("SFA", s.tileM), tile("SFB", s.tileN)];
}

type WeightedProblem = Pick<Problem, "a" | "b" | "weights">;

/** Columns of B that a chunk has: those of a part of an axis, where a schedule says them. */
const chunkColumns = ({ tileN, chainTile }: MmaSchedule): number =>
  chainTile === "none" ? tileN : (chainTile[0] ?? tileN);

/** The ring that a block has in shared memory, without padding. `s.tileK` is the chunk as it will be. */
function ringNeeds(problem: WeightedProblem, s: MmaSchedule, atom: Atom): SharedNeeds {
  const { weights } = problem;
  const tile = (name: string, extent: number, bits: number = dtypes[atom.a].bits, align = 1) => ({
    name,
    bytes: (extent * s.tileK * bits) / 8,
    align,
  });
  const arrivals = s.copy === "tma" ? 1 : null;
  const tiles =
    weights === undefined
      ? [
          tile("A", s.tileM, dtypes[problem.a.dtype].bits, besideFactors(s, atom, 1)),
          tile(
            "B",
            chunkColumns(s),
            dtypes[problem.b.dtype].bits,
            besideFactors(s, atom, s.interleave ? INTERLEAVED : 1),
          ),
          ...factorTiles(s, atom),
        ]
      : [
          ...weightTiles(problem, s.tileN, s.tileK),
          // Behind tiles of any size, where its swizzle wants it.
          tile(
            "A",
            s.tileM,
            8 * sizeOf(atom.a),
            s.sharedLayout === "plain" ? 1 : SWIZZLE_ROWS * s.tileK * sizeOf(atom.a),
          ),
        ];
  return { rings: [{ name: "ring", slots: s.stages, tiles, full: arrivals, empty: arrivals }] };
}

/** Bytes of it. */
export const ringBytes = (problem: WeightedProblem, s: MmaSchedule, atom: Atom): number =>
  placeShared(regionsOf(ringNeeds(problem, s, atom))).bytes;

/** Bytes of shared memory of a block, without padding: the ring, what blocks of a cluster exchange, and D's tile beside it or in its place. */
export function blockBytes(problem: Problem, s: MmaSchedule, atom: Atom, target: Target): number {
  const chunk = { ...s, tileK: chunkK(problem, s, atom) };
  const staging = stagingFor(problem, chunk, atom, target);
  const tiles =
    staging === null ? [] : [{ name: "D", bytes: staging.bytes, align: 1, slots: 1, late: staging.late }];
  const slices = slicesBytes(problem, chunk, atom);
  return placeShared(regionsOf({ ...ringNeeds(problem, chunk, atom), tiles, slices })).bytes;
}

/** D's tile, where it goes through one. `s.tileK` is the chunk as it will be. */
const stagingFor = (problem: Problem, s: MmaSchedule, atom: Atom, target: Target): Staging | null =>
  s.staged
    ? stagingOf(problem, s, {
        ring: ringBytes(problem, s, atom),
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
  const meeting = meetingOf(problem, s, atom);
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
