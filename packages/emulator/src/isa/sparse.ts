/**
 * Structured sparsity: of each chunk of a row of A half the elements are stored, and metadata says which. PTX ISA 9.0,
 * chapters 9.7.14.6 and 9.7.15.6; which lane holds which bits is what an H100 reads (318 products, bit for bit).
 */

import type { Register } from "../load/types.ts";
import type { Execution } from "../machine/state.ts";
import { chunkNamed, chunkOf, placeChunk } from "../numerics/sparsity.ts";
import { laneZero, registersIn } from "./aligned.ts";
import type { Decoder } from "./row.ts";

/** The metadata operands of a sparse product. */
export interface Sparsity {
  readonly metadata: Register;
  /** Which lanes of a group of four hold the metadata, where not all do. */
  readonly selector: number;
  /** The text promises that the indices of a chunk ascend. */
  readonly ordered: boolean;
}

/** Metadata and selector, operands `index` and `index + 1`. */
export function decodeSparsity(d: Decoder, index: number, ordered: boolean): Sparsity {
  const [metadata] = registersIn(d, d.use(index, "int"), 1);
  if (metadata === undefined) return d.refuse("the metadata has to be a register");
  return { metadata, selector: d.literal(index + 1), ordered };
}

/** Of a warp, where in its row each stored element of A stands, [16][k / 2]; null for a dense A. */
export type StoredPositions = ((by: Execution) => Int32Array) | null;

/** Rows of A that a warp holds. */
const rows = 16;

/**
 * Where in its row of `k` elements each stored element of A stands, [16][k / 2], of one warp.
 * Reports metadata that means nothing (H068).
 */
export function storedPositions(
  { metadata, selector, ordered }: Sparsity,
  { bits, k }: { readonly bits: number; readonly k: number },
): (by: Execution) => Int32Array {
  const positions = new Int32Array((rows * k) / 2);
  const chunk = chunkOf(bits);
  const chunks = k / chunk;
  /** 16 bits of two rows in a register, or 32 of one. */
  const halves = bits >= 16;
  const nibbles = halves ? 4 : 8;
  return (by) => {
    const { words } = by.machine.arena;
    const base = laneZero(by.warp, metadata);
    let at = 0;
    for (let row = 0; row < rows; row++)
      for (let c = 0; c < chunks; c++) {
        const lower = row >> 3;
        const part = Math.floor(c / nibbles);
        const first = halves
          ? selector * Math.ceil(chunks / nibbles) + part
          : selector * 2 + lower + part * 2;
        const lane = (row & 7) * 4 + first;
        const shift = (c % nibbles) * 4 + (halves ? lower * 16 : 0);
        const nibble = ((words[base + lane] as number) >>> shift) & 15;
        const { ascending, named } = placeChunk(positions, at, nibble, c, chunk);
        at += chunk / 2;
        if (!(ordered ? ascending : named) && by.machine.checked)
          by.report("H068", () => chunkNamed(lane, nibble, c, chunk, row));
      }
    return positions;
  };
}
