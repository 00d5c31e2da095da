/**
 * Scale factors as tiles of words of 4: which word belongs to a row. In global and shared memory a row of the tile is a row of blocks (128 rows of the
 * operand), whose words follow each other block by block. In registers it is a row of the operand. In tensor memory a block is 32 lanes by 4 columns, row r in lane r % 32 and column r / 32;
 * the blocks of one 4 factors lie side by side, and behind them those of the next (PTX ISA 9.0, tcgen05.mma scale factor layouts).
 */
import { SCALE_FACTORS, SCALE_ROWS, SCALE_WORDS, scaleWordOf } from "@tilewright/core";
import { eachStmt } from "./rewrite.ts";
import type { Buffer, TileProgram } from "./types.ts";

/** Global buffers of factors, and the operand that each scales. */
export const factorOperands = { SFA: "a", SFB: "b" } as const;
export type FactorName = keyof typeof factorOperands;
/** Whether a global buffer of this name holds factors. */
export const isFactors = (name: string): name is FactorName => Object.hasOwn(factorOperands, name);

/** Lanes and columns of a block in tensor memory. */
export const SCALE_LANES = 32;
export const SCALE_COLUMNS = 4;

/** Where block (b, j) of a tile of `rows` rows of blocks begins in a tensor tile; a pair's halves lie one behind the other. */
export function scaleBlockInTensor(
  { halves }: Pick<Buffer, "halves">,
  rows: number,
  b: number,
  j: number,
): readonly [lane: number, column: number] {
  const each = halves === 0 ? rows / 2 : rows;
  return [Math.floor(b / each) * SCALE_LANES, (j * each + (b % each)) * SCALE_COLUMNS];
}

/** Row and column, in its tile, of the word with the factors 4 j to 4 j + 3 of `row` of an operand of `rows` rows. */
export function scaleWordPlace(
  buffer: Pick<Buffer, "space" | "halves">,
  rows: number,
  row: number,
  j: number,
): readonly [number, number] {
  if (buffer.space === "register") return [row, j];
  const b = Math.floor(row / SCALE_ROWS);
  if (buffer.space !== "tensor") return [b, j * SCALE_WORDS + scaleWordOf(row)];
  const [lane, column] = scaleBlockInTensor(buffer, Math.ceil(rows / SCALE_ROWS), b, j);
  return [lane + (row % SCALE_LANES), column + Math.floor((row % SCALE_ROWS) / SCALE_LANES)];
}

/** Rows and columns of the tensor tile that takes a tile of factors of these extents; `halved`: shared out between the blocks of a pair. */
export const scaleTileInTensor = (
  [rows, words]: readonly [number, number],
  halved: boolean,
): readonly [number, number] => {
  const blocks = (rows * words) / SCALE_WORDS;
  return halved ? [2 * SCALE_LANES, (blocks / 2) * SCALE_COLUMNS] : [SCALE_LANES, blocks * SCALE_COLUMNS];
};

/** Rows and columns of the register tile that takes a tile of factors of these extents. */
export const scaleTileInRegisters = ([rows, words]: readonly [number, number]): readonly [number, number] => [
  rows * SCALE_ROWS,
  words / SCALE_WORDS,
];

/** Words of factors along K for `k` elements. */
export const scaleWords = (k: number, block: number): number => (k / (block * SCALE_FACTORS)) * SCALE_WORDS;

/** Whether a tile holds scale factors: it is read as such, or copied to one that is. */
export function holdsScales(program: TileProgram, name: string): boolean {
  const found = new Set([name]);
  for (let grew = true; grew; ) {
    grew = false;
    for (const stmt of eachStmt(program.body)) {
      if (stmt.kind === "mma" && stmt.scales !== undefined)
        if (found.has(stmt.scales.a.buffer) || found.has(stmt.scales.b.buffer)) return true;
      if (stmt.kind === "copy" && found.has(stmt.src.buffer) && !found.has(stmt.dst.buffer)) {
        found.add(stmt.dst.buffer);
        grew = true;
      }
    }
  }
  return false;
}
