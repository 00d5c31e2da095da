/**
 * Rasters: which tile is number t. One definition for everybody: hosts ask with numbers, lowerings with registers (`RasterMath`), so that a kernel visits
 * exactly the tiles that a plan shows. Every raster is a bijection of the numbers below rows * columns onto the tiles, on any grid.
 */
import type { Raster } from "./types.ts";

/** Unsigned arithmetic on values V. Divisors and factors are positive; nothing overflows 32 bits where the number of tiles does not. */
export interface RasterMath<V> {
  of(value: number): V;
  add(a: V, b: V): V;
  /** a - b, wrapped below 0: only results of selections that are taken need to be right. */
  sub(a: V, b: V): V;
  mul(a: V, factor: number): V;
  div(a: V, divisor: V): V;
  mod(a: V, divisor: V): V;
  min(a: V, b: V): V;
  /** `yes` where a < b, else `no`; both are computed. */
  less(a: V, b: V, yes: V, no: V): V;
}

/** The largest square of a Hilbert curve: 256 tiles, more than the SMs of any GPU, so that a wave lies in two squares at most. */
export const HILBERT_SIDE = 16;

/** Side of a grid's squares: the largest power of two that fits, at most `HILBERT_SIDE`. */
export const hilbertSide = (rows: number, cols: number): number =>
  2 ** Math.floor(Math.log2(Math.min(HILBERT_SIDE, rows, cols)));

/** Tile row and column of number `index`. Rows and columns are at least 1. */
export function rasterPlace<V>(
  math: RasterMath<V>,
  raster: Raster,
  [rows, cols]: readonly [number, number],
  index: V,
): readonly [row: V, col: V] {
  switch (raster.kind) {
    case "row":
      return [math.div(index, math.of(cols)), math.mod(index, math.of(cols))];
    case "col":
      return [math.mod(index, math.of(rows)), math.div(index, math.of(rows))];
    case "grouped":
      return inGroups(math, raster.group, false, rows, cols, index);
    case "snake":
      return inGroups(math, raster.group, true, rows, cols, index);
    case "blocked":
      return inPieces(math, raster.group, rows, cols, index);
    case "hilbert":
      return hilbert(math, rows, cols, index);
  }
}

/** The same with numbers. */
export const rasterTile = (
  raster: Raster,
  grid: readonly [rows: number, cols: number],
  index: number,
): readonly [row: number, col: number] => rasterPlace(numbers, raster, grid, index);

const numbers: RasterMath<number> = {
  of: (value) => value,
  add: (a, b) => a + b,
  sub: (a, b) => a - b,
  mul: (a, factor) => a * factor,
  div: (a, divisor) => Math.floor(a / divisor),
  mod: (a, divisor) => a - Math.floor(a / divisor) * divisor,
  min: Math.min,
  less: (a, b, yes, no) => (a < b ? yes : no),
};

/** Where an index falls among groups of `group` tile rows, the last one shorter: the group's number, first row and height, and the place inside it. */
function groupOf<V>(
  { of, sub, mul, div, min }: RasterMath<V>,
  group: number,
  rows: number,
  cols: number,
  index: V,
) {
  const number = div(index, of(group * cols));
  const first = mul(number, group);
  const local = sub(index, mul(number, group * cols));
  const size = rows % group === 0 ? of(group) : min(sub(of(rows), first), of(group));
  return { number, first, local, size };
}

/** Groups of `group` tile rows, the last one shorter; rows fastest inside a group. A snake goes through every other group from the last column to the first. */
function inGroups<V>(
  math: RasterMath<V>,
  most: number,
  snake: boolean,
  rows: number,
  cols: number,
  index: V,
): readonly [V, V] {
  const { add, div, mod } = math;
  const group = Math.min(most, rows);
  const { number, first, local, size } = groupOf(math, group, rows, cols, index);
  const col = div(local, size);
  const row = add(first, mod(local, size));
  return [row, snake && group < rows ? backAndForth(math, number, col, cols) : col];
}

/** Tile rows and columns of a piece: an H200 has eight blocks that it launches one after the other on neighbouring SMs (docs/perf/wgmma.md), which so share rows and columns alike. */
const PIECE = [4, 2] as const;

/**
 * Groups of `group` tile rows; inside a group strips of two columns, piece by piece from the first row to the last, rows fastest inside a piece. Grids and groups that pieces do not
 * divide are walked in groups.
 */
function inPieces<V>(
  math: RasterMath<V>,
  most: number,
  rows: number,
  cols: number,
  index: V,
): readonly [V, V] {
  const { of, add, mul, div, mod } = math;
  const [high, wide] = PIECE;
  const group = Math.min(most, rows);
  if (group % high !== 0 || rows % high !== 0 || cols % wide !== 0)
    return inGroups(math, most, false, rows, cols, index);
  const { first, local, size } = groupOf(math, group, rows, cols, index);
  // Place in a strip of `wide * size` tiles, without a product of two values.
  const pair = div(local, of(wide));
  const strip = div(pair, size);
  const inStrip = add(mul(mod(pair, size), wide), mod(local, of(wide)));
  const piece = div(inStrip, of(high * wide));
  const row = add(add(first, mul(piece, high)), mod(inStrip, of(high)));
  const col = add(mul(strip, wide), mod(div(inStrip, of(high)), of(wide)));
  return [row, col];
}

/** Columns from the last to the first in passes of odd number. */
const backAndForth = <V>({ of, sub, mod, less }: RasterMath<V>, pass: V, col: V, cols: number): V =>
  less(mod(pass, of(2)), of(1), col, sub(of(cols - 1), col));

/**
 * Panels of `side` tile rows, walked to and fro; each panel a chain of squares, in each of which the tiles follow Hilbert's curve from the
 * first to the last column of the square's first row, where the next square begins. What no square covers: the last columns of a panel go
 * row by row, to and fro, and the rows below the last whole panel column by column.
 */
function hilbert<V>(math: RasterMath<V>, rows: number, cols: number, index: V): readonly [V, V] {
  const { of, add, sub, mul, div, mod, less } = math;
  const side = hilbertSide(rows, cols);
  const panel = div(index, of(side * cols));
  const local = sub(index, mul(panel, side * cols));
  const first = mul(panel, side);
  const width = cols % side;
  const height = rows % side;

  const square = div(local, of(side * side));
  let [row, col] = inSquare(math, side, mod(local, of(side * side)));
  col = add(mul(square, side), col);
  if (width > 0) {
    const covered = (cols - width) * side;
    const rest = sub(local, of(covered));
    const restRow = div(rest, of(width));
    const restCol = add(of(cols - width), backAndForth(math, restRow, mod(rest, of(width)), width));
    row = less(local, of(covered), row, restRow);
    col = less(local, of(covered), col, restCol);
  }
  if (height > 0) {
    const whole = (rows - height) * cols;
    const below = div(local, of(height));
    row = less(index, of(whole), row, mod(local, of(height)));
    col = less(index, of(whole), col, below);
  }
  return [add(first, row), backAndForth(math, panel, col, cols)];
}

/** Place of number `index` on Hilbert's curve in a square of `side` = 2^p: from (0, 0) to (0, side - 1). From the smallest squares to the largest, each turned as its quarter asks. */
function inSquare<V>(math: RasterMath<V>, side: number, index: V): readonly [V, V] {
  const { of, add, sub, mul, div, mod, less } = math;
  let [row, col, rest] = [of(0), of(0), index];
  for (let s = 1; s < side; s *= 2) {
    const right = mod(div(rest, of(2)), of(2));
    const down = mod(add(rest, right), of(2));
    // The quarters of the first row are mirrored: the first along its diagonal, the last along the other one.
    const turn = (x: V): V => less(right, of(1), x, sub(of(s - 1), x));
    const [turnedRow, turnedCol] = [turn(col), turn(row)];
    row = add(less(down, of(1), turnedRow, row), mul(down, s));
    col = add(less(down, of(1), turnedCol, col), mul(right, s));
    rest = div(rest, of(4));
  }
  return [row, col];
}

/** As a schedule and the IR's text have it: `row`, `grouped:8`. */
export const printRaster = (raster: Raster): string =>
  "group" in raster ? `${raster.kind}:${raster.group}` : raster.kind;

/** Mean numbers of tile rows and columns that runs of `wave` tiles span, over the runs that a grid has (the first 64 at most). */
export function rasterSpan(
  raster: Raster,
  [rows, cols]: readonly [number, number],
  wave: number,
): readonly [rows: number, cols: number] {
  const tiles = rows * cols;
  const size = Math.max(1, Math.min(wave, tiles));
  const runs = Math.min(64, Math.ceil(tiles / size));
  let [high, wide] = [0, 0];
  for (let run = 0; run < runs; run++) {
    const [rowsSeen, colsSeen] = [new Set<number>(), new Set<number>()];
    for (let t = run * size; t < Math.min(tiles, (run + 1) * size); t++) {
      const [row, col] = rasterTile(raster, [rows, cols], t);
      rowsSeen.add(row);
      colsSeen.add(col);
    }
    high += rowsSeen.size;
    wide += colsSeen.size;
  }
  return [high / runs, wide / runs];
}
