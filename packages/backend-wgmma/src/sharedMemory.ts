/** What a block of a schedule has in shared memory: rings, the tile that D passes through, slices; and the parts of D that fit beside them. */
import {
  BLOCK_SCALE,
  type DType,
  type Operand,
  type Problem,
  sizeOf,
  stepMatrix,
  upFactor,
} from "@tilewright/core";
import {
  PATTERN_ROWS,
  placeShared,
  REDUCTION_ROOM,
  regionsOf,
  type SharedNeeds,
  slicesHeld,
  slicesOf,
  splitChunks,
  streamKFor,
  weightTiles,
} from "@tilewright/ir";
import {
  ATOM_ROWS,
  atomOf,
  chunkK,
  factorType,
  instructionsBeside,
  needsKMajor,
  widensA,
} from "./instructions.ts";
import { hasProducer, mathGroups, sumSides, type WgmmaSchedule } from "./schedule.ts";
import { bringsFactors, factorVectors } from "./twoLevel.ts";

/** Columns of a sum that go together: registers of a thread step by them (PTX ISA, wgmma: fragment of D). */
export const SLICE_UNIT = 8;

/** Blocks that meet in a cluster; 1 where none do. */
export const reducingBlocks = (problem: Problem, s: WgmmaSchedule): number =>
  s.reduction === "cluster"
    ? splitChunks(problem.k, { tileK: chunkK(problem, s.tileK), split: s.split }).splits
    : 1;

/** Rows and columns of D that a block stores of its tile: all, or where blocks meet in a cluster its slice of the columns of sums. */
function storedExtent(problem: Problem, s: WgmmaSchedule): readonly [rows: number, columns: number] {
  const { tile } = sumSides(s).columns;
  const slices = slicesOf(tile / SLICE_UNIT, reducingBlocks(problem, s));
  return s.swapAB ? [s.tileM / slices, s.tileN] : [s.tileM, s.tileN / slices];
}

/** What epilogues pass through boxes of tensor maps, as a tile has it: bytes of a line along the axis in which memory is contiguous. Gated products have half a tile's columns of it. */
export function boxedLines(
  problem: Problem,
  s: WgmmaSchedule,
): readonly { readonly name: string; readonly way: "epi" | "epilogueLoad"; readonly bytes: number }[] {
  const halves = problem.gated === undefined ? 1 : 2;
  const up = upFactor(problem) ?? undefined;
  const line = ({ dtype, layout }: Pick<Operand, "dtype" | "layout">, [rows, columns]: readonly number[]) =>
    (layout === "col" ? (rows ?? 0) : (columns ?? 0) / halves) * sizeOf(dtype);
  const stored = { name: "D", way: "epi", bytes: line(problem.d, storedExtent(problem, s)) } as const;
  const loaded = sourceOperands(problem, s).flatMap(({ step, extent }) => {
    const operand = step === null ? problem.c : (stepMatrix(problem, step)?.operand ?? null);
    if (operand === null || step === up) return [];
    const name = step === null ? "C" : `step ${step}'s matrix`;
    return [{ name, way: "epilogueLoad" as const, bytes: line(operand, extent) }];
  });
  return [stored, ...loaded].filter(({ way }) => s[way] === "tma");
}

/** Bytes of a row of a panel of the tile that D passes through: the widest swizzle's span. */
const STAGED_ROW_BYTES = 128;

/** Where bulk copies may write (PTX ISA, cp.async.bulk.tensor). */
const BULK_ALIGN = 128;

/** Bytes of a response about a work tile: of a counter as of the launch control. */
const RESPONSE_BYTES = 16;

/** Where tiles begin through which C and D go: at the period of the widest swizzle. */
const TILE_ALIGN = 1024;

/** What the epilogue reads beside the accumulators: dtype and the tile's extents of C, and of matrices and vectors of steps by their position. */
export function sourceOperands(
  problem: Problem,
  s: WgmmaSchedule,
): readonly {
  readonly step: number | null;
  readonly dtype: DType;
  readonly extent: readonly [number, number];
}[] {
  const steps = problem.epilogue.flatMap((_, step) => {
    const matrix = stepMatrix(problem, step);
    if (matrix === null) return [];
    const { dtype, across } = matrix;
    const extent = [across === 0 ? 1 : s.tileM, across === 1 ? 1 : s.tileN] as const;
    return [{ step, dtype, extent }];
  });
  const { c } = problem;
  return c === null ? steps : [{ step: null, dtype: c.dtype, extent: [s.tileM, s.tileN] }, ...steps];
}

/** What a slot's tile of an operand begins at a multiple of: the period of the widest swizzle that divides its rows, as `bindTensorLayouts` gives it. */
function operandAlign(problem: Problem, s: WgmmaSchedule, name: "A" | "B"): number {
  const which = name === "A" ? "a" : "b";
  const lies = (problem[which].layout === (which === "a" ? "row" : "col")) !== s.transpose.includes(which);
  const alongK = needsKMajor(problem) || (which === "a" && widensA(problem)) || lies;
  // Instructions take the rows of a sum in whole warpgroups, and a warpgroup's columns at once.
  const { tile, groups } = sumSides(s).columns;
  const across = (which === "a") === s.swapAB ? tile / groups : ATOM_ROWS;
  const run = (alongK ? chunkK(problem, s.tileK) : across) * sizeOf(problem[which].dtype);
  const width = [128, 64, 32].find((w) => w <= SWIZZLE_BYTES[s.swizzle] && run % w === 0);
  return width === undefined ? BULK_ALIGN : PATTERN_ROWS * width;
}

/** Work tiles of one problem. */
export const workTiles = ({ m, n }: Problem, s: WgmmaSchedule): number =>
  Math.ceil(m / s.tileM) * Math.ceil(n / s.tileN);

/** Whether CTAs share a tile: there may be fewer chunks of K than parts that are asked for, and tiles may fill whole waves. */
const sharesTiles = (problem: Problem, s: WgmmaSchedule): boolean =>
  splitChunks(problem.k, { tileK: chunkK(problem, s.tileK), split: s.split }).splits > 1 ||
  streamKFor(
    workTiles(problem, s),
    Math.ceil(problem.k / chunkK(problem, s.tileK)),
    s.streamk,
    s.persistent,
  ) !== null;

/** What a block has in shared memory with a tile for D of so many bytes: rings of operands, of what the epilogue loads and of a counter's numbers, and parts on their way. */
function sharedNeeds(problem: Problem, s: WgmmaSchedule, staged: number): SharedNeeds {
  const k = chunkK(problem, s.tileK);
  const operand = (
    name: "A" | "B",
    extent: number,
    dtype: DType,
    align = operandAlign(problem, s, name),
  ) => ({
    name,
    bytes: k * extent * sizeOf(dtype),
    align,
  });
  const arrivals = hasProducer(s) ? 1 : null;
  const ring = (
    name: string,
    slots: number,
    tiles: SharedNeeds["rings"][number]["tiles"],
    full: number | null = 1,
  ) => (slots === 0 || tiles.length === 0 ? [] : [{ name, slots, tiles, full, empty: full }]);
  const loaded = s.epilogueLoad === "direct" ? [] : sourceOperands(problem, s);
  const brought = bringsFactors(problem, s) ? factorVectors(problem, s) : [];
  const blocks = reducingBlocks(problem, s);
  const [rows, columns] = storedExtent(problem, s);
  return {
    rings: [
      ...ring(
        "ring",
        s.stages,
        problem.weights === undefined
          ? [
              // Behind vectors of factors a slot's tiles begin where the widest swizzle's pattern does.
              operand("A", s.tileM, problem.a.dtype, brought.length > 0 ? TILE_ALIGN : undefined),
              operand("B", s.tileN, factorType(problem)),
              ...brought.map(({ name, tile }) => ({
                name,
                bytes: Math.ceil(k / BLOCK_SCALE) * tile * sizeOf("f32"),
                align: BULK_ALIGN,
              })),
            ]
          : [...weightTiles(problem, s.tileN, k), operand("A", s.tileM, problem.a.dtype)],
        arrivals,
      ),
      ...ring(
        "addend",
        1,
        loaded.map(({ step, dtype, extent }) => ({
          name: `addend${step ?? ""}`,
          bytes: extent[0] * extent[1] * sizeOf(dtype),
          align: TILE_ALIGN,
        })),
      ),
      ...ring("numbers", s.counted ? s.schedulerStages : 0, [
        { name: "number", bytes: RESPONSE_BYTES, align: RESPONSE_BYTES },
      ]),
    ],
    tiles: staged === 0 ? [] : [{ name: "D", bytes: staged, align: TILE_ALIGN, slots: 1 }],
    slices: blocks === 1 ? 0 : slicesHeld(blocks) * rows * columns * sizeOf(problem.acc),
    parts: s.reduction === "bulk" && sharesTiles(problem, s) ? 4 * mathGroups(s) * REDUCTION_ROOM : 0,
  };
}

/** Bytes of shared memory of a block with a tile for D of so many bytes. */
const bytesWith = (problem: Problem, s: WgmmaSchedule, staged: number): number =>
  placeShared(regionsOf(sharedNeeds(problem, s, staged))).bytes;

/** Bytes of shared memory of a block, beside whose ring D's tile takes what `most` bytes leave it. */
export const blockBytes = (problem: Problem, s: WgmmaSchedule, most: number): number =>
  bytesWith(problem, s, stagedBytes(problem, s, most));

/** Panels of a part of D, widest first. */
const STAGED_PANELS = [4, 3, 2, 1, 1 / 2, 1 / 4];

/**
 * Columns of the tile that D passes through: of each of the warpgroups side by side four panels to one, a half or a quarter of one, the most that divides its
 * columns and fits beside the ring into `most` bytes, since a part waits until the one before it has left; the fewest that divides where none fits, and all columns where none divides. The rows of a sum go whole, and
 * so do those that warps have beside each other.
 */
export function stagedColumns(problem: Problem, s: WgmmaSchedule, most: number): number {
  const size = sizeOf(problem.d.dtype);
  const [rows, columns] = storedExtent(problem, s);
  const own = columns / s.groupsN;
  const panel = STAGED_ROW_BYTES / size;
  const unit = s.swapAB ? ATOM_ROWS * instructionsBeside(problem, own / ATOM_ROWS) : 1;
  const dividing = STAGED_PANELS.map((panels) => panels * panel).filter(
    (part) => own % part === 0 && part % unit === 0 && (s.tail === 0 || part < own),
  );
  const fits = (part: number): boolean =>
    bytesWith(problem, s, s.pingPong * rows * part * s.groupsN * size) <= most;
  return (dividing.find(fits) ?? dividing.at(-1) ?? own) * s.groupsN;
}

/** Bytes of a row of the boxes through which D is stored; null where threads store it. */
export function storedBox(problem: Problem, s: WgmmaSchedule, most: number): number | null {
  if (s.epi !== "tma") return null;
  const columns = stagedColumns(problem, s, most) / s.groupsN;
  const bytes = columns * sizeOf(problem.d.dtype);
  // Boxes are as wide as the widest swizzle that divides the rows.
  return s.swapAB ? STAGED_ROW_BYTES : ([128, 64, 32, 16].find((width) => bytes % width === 0) ?? bytes);
}

/** Slots of the tile that D passes through, of so many columns: two where there is room for halves of a tail that do not wait for each other. */
export const stagedSlots = (problem: Problem, s: WgmmaSchedule, columns: number, most: number): number =>
  s.tail > 0 &&
  2 * columns === s.tileN &&
  bytesWith(problem, s, 2 * s.pingPong * s.tileM * columns * sizeOf(problem.d.dtype)) <= most
    ? 2
    : 1;

/** Bytes of the tile that D passes through, beside a ring that leaves it room in `most` bytes; of every ping-pong set of warpgroups its own. */
function stagedBytes(problem: Problem, s: WgmmaSchedule, most: number): number {
  if (s.epi !== "tma") return 0;
  const columns = stagedColumns(problem, s, most);
  const slots = stagedSlots(problem, s, columns, most);
  return s.pingPong * storedExtent(problem, s)[0] * columns * slots * sizeOf(problem.d.dtype);
}

/** Bytes of a block of a gated product, whose tile for D has half the columns: all of them where parts of a whole one do not divide them. */
export function pairedBytes(problem: Problem, s: WgmmaSchedule, most: number): number {
  if (s.epi !== "tma") return blockBytes(problem, s, most);
  const [rows, columns] = storedExtent(problem, s);
  const part = stagedColumns(problem, s, most);
  const half = columns / 2;
  const staged = s.pingPong * rows * (half % part === 0 ? part : half) * sizeOf(problem.d.dtype);
  return bytesWith(problem, s, staged);
}

/** Bytes of a row of a panel, by swizzle. */
export const SWIZZLE_BYTES = { "128B": 128, "64B": 64, "32B": 32, none: 16 } as const;

/**
 * Where the columns of a warpgroup part whose last chunks are multiplied in two halves: next to the middle, the larger part first, where instructions divide both, parts of
 * the tile that D passes through end, and so do panels of a B that lies along n. Null where there is no such place.
 */
export function tailColumns(problem: Problem, s: WgmmaSchedule, most: number): number | null {
  const own = s.tileN / s.groupsN;
  const unit = s.epi === "tma" ? stagedColumns(problem, s, most) / s.groupsN : SLICE_UNIT;
  const panel =
    problem.b.layout === "row" && s.copy !== "direct"
      ? SWIZZLE_BYTES[s.swizzle] / sizeOf(problem.b.dtype)
      : 1;
  const legal = Array.from({ length: Math.ceil(own / unit) - 1 }, (_, i) => (i + 1) * unit).filter(
    (at) => at % panel === 0 && atomOf(problem, at) !== null && atomOf(problem, own - at) !== null,
  );
  const [nearest = null] = legal.sort((x, y) => Math.abs(2 * x - own) - Math.abs(2 * y - own) || y - x);
  return nearest;
}
