/** Shared memory of a block: its ring, slices that blocks of a cluster exchange, and the tile that D goes through. */
import {
  dtypes,
  isScaled,
  type Problem,
  packedSize,
  SCALE_ROWS,
  scaledTypes,
  sizeOf,
  type Target,
} from "@tilewright/core";
import {
  type Atom,
  placeShared,
  regionsOf,
  type SharedNeeds,
  scaleWords,
  slicesHeld,
  slicesOf,
  splitChunks,
  weightTiles,
} from "@tilewright/ir";
import { besideOf, chunkK, INTERLEAVED, interleavedAtoms, PAIR, pairs } from "./atoms.ts";
import type { MmaSchedule } from "./schedule.ts";
import { type Staging, stagingOf } from "./staging.ts";

/** Blocks that meet in a cluster, the axis along which they slice the tile, its slices, and the rows or columns of one run of all warps. */
interface ClusterSlices {
  readonly blocks: number;
  readonly axis: 0 | 1;
  readonly slices: number;
  readonly unit: number;
}

/** How the blocks that share a tile slice it to add it up: along the axis whose runs divide better among them; null where they do not meet in a cluster. */
export function clusterSlices(problem: Problem, s: MmaSchedule, atom: Atom): ClusterSlices | null {
  if (s.reduction !== "cluster") return null;
  const { splits: blocks } = splitChunks(problem.k, s);
  if (blocks === 1) return null;
  const [turnsM, turnsN] = interleavedAtoms(problem, s, atom);
  const along = (axis: 0 | 1, tile: number, unit: number): ClusterSlices => ({
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
  const meeting = clusterSlices(problem, s, atom);
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
export const stagingFor = (problem: Problem, s: MmaSchedule, atom: Atom, target: Target): Staging | null =>
  s.staged
    ? stagingOf(problem, s, {
        ring: ringBytes(problem, s, atom),
        most: target.limits.maxSmemPerBlock,
        unit: atom.n * (pairs(problem, s, "b", atom) ? PAIR : 1),
      })
    : null;
