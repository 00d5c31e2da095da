/**
 * ldmatrix and stmatrix of 8-bit elements, and ldmatrix of 4- and 6-bit elements into bytes: PTX ISA 9.0, chapters 9.7.14.5.15 and
 * 9.7.14.5.16. The ISA shows the fragments as figures; the layouts here are those of CuTe's copy traits for sm_100.
 */
import type { Operation } from "../load/types.ts";
import { registersIn } from "./aligned.ts";
import { type MoveForm, moveRows, rowBytes } from "./matrix-rows.ts";
import type { Decoder } from "./row.ts";

/** How 16 elements lie in a row of 16 bytes: `bits` each, packed from its start, the rest padding. */
const sources = { b6x16_p32: 6, b4x16_p64: 4 } as const;

/** Element `k` of the row at `row`, zero-extended to a byte. */
function elementAt(bytes: Uint8Array, row: number, k: number, bits: number): number {
  if (bits === 8) return bytes[row + k] as number;
  const at = row + ((k * bits) >> 3);
  const pair = (bytes[at] as number) | ((bytes[at + 1] as number) << 8);
  return (pair >>> ((k * bits) & 7)) & ((1 << bits) - 1);
}

/**
 * Byte b of register r in lane l (g = l >> 2, t = l & 3): matrices of 8 rows hold element 4t + b of row g in a register each;
 * those of 16 rows are transposed, column g + 8 r of row 4t + b, in two registers each.
 */
export function loadNarrow(d: Decoder): Operation {
  const tall = d.choice("m8n16", "m16n16") === "m16n16";
  const matrices = tall
    ? { x1: 1, x2: 2 }[d.choice("x1", "x2")]
    : { x1: 1, x2: 2, x4: 4 }[d.choice("x1", "x2", "x4")];
  if (tall) d.choice("trans");
  const space = d.option("shared", "shared::cta");
  const expanded = tall ? d.choice("b8", "b8x16") === "b8x16" : d.choice("b8x16") === "b8x16";
  const bits = expanded ? sources[d.choice("b6x16_p32", "b4x16_p64")] : 8;
  const registers = registersIn(d, d.def(0, "int"), tall ? 2 * matrices : matrices);
  const form: MoveForm = {
    address: d.address(1),
    registers,
    transposed: tall,
    generic: space === null,
    usedBytes: (bits * rowBytes) / 8,
  };
  return moveRows(form, 0, ({ bytes }, rows, j, g, t) => {
    let word = 0;
    for (let b = 0; b < 4; b++) {
      const row = rows[tall ? 16 * (j >> 1) + 4 * t + b : 8 * j + g] as number;
      const k = tall ? g + 8 * (j & 1) : 4 * t + b;
      if (row >= 0) word |= elementAt(bytes, row, k, bits) << (8 * b);
    }
    return word;
  });
}

/**
 * Matrices of 16 rows and 8 columns of bytes, stored transposed: byte b of lane l is row g + 8 (b >> 1), column 2t + (b & 1), and
 * the columns become rows of 16 bytes in memory.
 */
export function storeNarrow(d: Decoder): Operation {
  d.choice("m16n8");
  const count = { x1: 1, x2: 2, x4: 4 }[d.choice("x1", "x2", "x4")];
  d.choice("trans");
  const space = d.option("shared", "shared::cta");
  d.type();
  const registers = registersIn(d, d.use(1, "int"), count);
  const form: MoveForm = {
    address: d.address(0),
    registers,
    transposed: true,
    generic: space === null,
    usedBytes: rowBytes,
  };
  return moveRows(form, 1, ({ bytes }, rows, j, g, t, word) => {
    for (let b = 0; b < 4; b++) {
      const row = rows[8 * j + 2 * t + (b & 1)] as number;
      if (row >= 0) bytes[row + g + 8 * (b >> 1)] = word >>> (8 * b);
    }
    return word;
  });
}
