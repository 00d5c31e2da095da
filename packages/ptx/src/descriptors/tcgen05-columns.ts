/** The zero-column mask descriptor of tcgen05.mma.ws: PTX ISA 9.0, chapter 9.7.16.4.3. */
import { type BitFields, field, readField, reservedBits } from "./bit-fields.ts";

const fields = {
  start0: field(0, 8),
  start1: field(8, 8),
  start2: field(16, 8),
  start3: field(24, 8),
  first0: field(32, 1),
  first1: field(33, 1),
  first2: field(34, 1),
  first3: field(35, 1),
  /** 0: no column is zeroed, whatever the other fields say. */
  enabled: field(39, 1),
  skip: field(40, 8),
  use: field(48, 8),
  shift: field(56, 6),
} satisfies BitFields;
const starts = [fields.start0, fields.start1, fields.start2, fields.start3] as const;
const firsts = [fields.first0, fields.first1, fields.first2, fields.first3] as const;

/** Which columns of B count as zero, and where in B the first column is. */
export interface ColumnMask {
  /** By column of D: 1 where B counts as zero. */
  readonly zero: Uint8Array;
  /** Column n of D is multiplied by column n + shift of B. */
  readonly shift: number;
}

/**
 * Expand a descriptor for an M x N product, naming what is wrong with it. The mask has one part per part of N (one for M = 128,
 * two for 64, four for 32). A part alternates runs of `use` + 1 used and `skip` + 1 zeroed columns; it begins with a zeroed run
 * where its first span says so, with `start` columns cut off the front.
 *
 * @param maxShift the largest shift that the instruction descriptor announces.
 */
export function decodeColumnMask(
  word: bigint,
  m: number,
  n: number,
  maxShift: number,
): { readonly mask: ColumnMask; readonly faults: readonly string[] } {
  const faults = [...reservedBits(word, fields, 64)];
  const shift = readField(word, fields.shift);
  const most = m === 32 ? 16 : 32;
  if (shift > most) faults.push(`a shift of ${shift} columns: with M = ${m} it is at most ${most}`);
  else if (shift > maxShift)
    faults.push(`a shift of ${shift} columns: the instruction descriptor allows ${maxShift}`);
  const zero = new Uint8Array(n);
  if (readField(word, fields.enabled) === 1) {
    const parts = 128 / m;
    const width = n / parts;
    const skip = readField(word, fields.skip) + 1;
    const use = readField(word, fields.use) + 1;
    for (let column = 0; column < n; column++) {
      const part = Math.floor(column / width);
      const [start, first] = [starts[part], firsts[part]];
      if (start === undefined || first === undefined) continue;
      const at = ((column % width) + readField(word, start)) % (skip + use);
      const startsZeroed = readField(word, first) === 1;
      zero[column] = Number(startsZeroed ? at < skip : at >= use);
    }
  }
  return { mask: { zero, shift }, faults };
}
