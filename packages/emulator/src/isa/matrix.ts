/** Moves of 8x8 matrices of 16-bit elements: ldmatrix, stmatrix, movmatrix. PTX ISA 9.0, chapters 9.7.14.5.15 to 9.7.14.5.17. */
import { aligned, checkWritten, laneZero, markWritten, registersIn } from "./aligned.ts";
import { loadNarrow, storeNarrow } from "./matrix-narrow.ts";
import { type MoveForm, moveRows, rowBytes } from "./matrix-rows.ts";
import type { Decoder, Row, Table } from "./row.ts";

function decodeMove(d: Decoder, load: boolean): MoveForm {
  d.choice("m8n8");
  const count = { x1: 1, x2: 2, x4: 4 }[d.choice("x1", "x2", "x4")];
  const transposed = d.flag("trans");
  const space = d.option("shared", "shared::cta");
  d.type();
  const vector = load ? d.def(0, "int") : d.use(1, "int");
  return {
    address: d.address(load ? 1 : 0),
    registers: registersIn(d, vector, count),
    transposed,
    generic: space === null,
    usedBytes: rowBytes,
  };
}

/**
 * Lane l holds elements 2t and 2t+1 of row g of each matrix (g = l >> 2, t = l & 3), in one register; transposed, rows 2t and
 * 2t+1 of column g.
 */
const ldmatrix: Row = (d) => {
  if (/\.m(8|16)n16\./.test(d.mnemonic)) return loadNarrow(d);
  const form = decodeMove(d, true);
  return moveRows(form, 0, ({ words, halves }, rows, j, g, t) => {
    if (!form.transposed) {
      const row = rows[8 * j + g] as number;
      return row < 0 ? 0 : (words[(row >> 2) + t] as number);
    }
    const first = rows[8 * j + 2 * t] as number;
    const second = rows[8 * j + 2 * t + 1] as number;
    const low = first < 0 ? 0 : (halves[(first >> 1) + g] as number);
    return low | ((second < 0 ? 0 : (halves[(second >> 1) + g] as number)) << 16);
  });
};

const stmatrix: Row = (d) => {
  if (d.mnemonic.includes(".m16n8")) return storeNarrow(d);
  const form = decodeMove(d, false);
  return moveRows(form, 1, ({ words, halves }, rows, j, g, t, word) => {
    if (form.transposed) {
      const first = rows[8 * j + 2 * t] as number;
      const second = rows[8 * j + 2 * t + 1] as number;
      if (first >= 0) halves[(first >> 1) + g] = word & 0xffff;
      if (second >= 0) halves[(second >> 1) + g] = word >>> 16;
    } else {
      const row = rows[8 * j + g] as number;
      if (row >= 0) words[(row >> 2) + t] = word;
    }
    return word;
  });
};

/** A matrix in registers, transposed. */
const movmatrix: Row = (d) => {
  const to = registersIn(d, d.def(0, "int"), 1);
  const from = registersIn(d, d.use(1, "int"), 1);
  const [target] = to;
  const [source] = from;
  const matrix = new Uint16Array(64);
  return aligned(() => (by) => {
    const { machine, warp } = by;
    if (target === undefined || source === undefined) return;
    checkWritten(by, from);
    const { words } = machine.arena;
    const [at, out] = [laneZero(warp, source), laneZero(warp, target)];
    for (let lane = 0; lane < 32; lane++) {
      const word = words[at + lane] as number;
      matrix[2 * lane] = word & 0xffff;
      matrix[2 * lane + 1] = word >>> 16;
    }
    for (let lane = 0; lane < 32; lane++) {
      const [g, t] = [lane >> 2, lane & 3];
      words[out + lane] = (matrix[16 * t + g] as number) | ((matrix[16 * t + 8 + g] as number) << 16);
    }
    markWritten(machine, warp, to);
  });
};

export const matrixTable: Table = { ldmatrix, stmatrix, movmatrix };
