/**
 * Where the matrices of tcgen05.mma lie in tensor memory. The ISA shows these layouts as figures (9.0, 9.7.16.10.5 and
 * 9.7.16.10.7); in numbers they are those of CuTe's tensor-memory fragments for sm_100.
 */
import type { Tcgen05ScaleVector } from "./tcgen05-kinds.ts";

/**
 * Layout of D. A block holds `rows` rows. N is cut into `parts` equal parts that lie side by side in lanes, each in its own
 * `partLanes` lanes and all in the same columns.
 */
export interface AccumulatorLayout {
  /** The ISA's letter. */
  readonly id: "A" | "B" | "C" | "D" | "E" | "F" | "G";
  readonly rows: 32 | 64 | 128;
  readonly parts: 1 | 2 | 4;
  readonly partLanes: number;
  /** Only 16 lanes of each 32 are used; the address may choose the upper ones. */
  readonly halfLanes: boolean;
}

const layouts = {
  A: { id: "A", rows: 128, parts: 1, partLanes: 128, halfLanes: false },
  B: { id: "B", rows: 64, parts: 2, partLanes: 64, halfLanes: false },
  C: { id: "C", rows: 64, parts: 1, partLanes: 128, halfLanes: true },
  D: { id: "D", rows: 128, parts: 1, partLanes: 128, halfLanes: false },
  E: { id: "E", rows: 64, parts: 2, partLanes: 64, halfLanes: false },
  F: { id: "F", rows: 64, parts: 1, partLanes: 128, halfLanes: true },
  G: { id: "G", rows: 32, parts: 4, partLanes: 32, halfLanes: false },
} as const satisfies Record<string, AccumulatorLayout>;

/** The layout of an M; null for an M that the form does not have. */
export function accumulatorLayout(
  m: number,
  group: 1 | 2,
  weightStationary: boolean,
  sparse = false,
): AccumulatorLayout | null {
  if (group === 2) return m === 256 ? layouts.A : m !== 128 ? null : sparse ? layouts.C : layouts.B;
  if (m === 128) return layouts.D;
  if (weightStationary) return m === 64 ? layouts.E : m === 32 ? layouts.G : null;
  return m === 64 ? layouts.F : null;
}

/** Columns of tensor memory that D with N columns takes: one word per element, whatever its type. */
export const accumulatorColumns = ({ parts }: AccumulatorLayout, n: number): number => n / parts;

/**
 * Columns that A takes in tensor memory: 32 bytes of K. Row r of A lies in the lane of row r of D; where D has several parts,
 * each part reads A from its own lanes, so A has to be there in each.
 */
export const tensorOperandColumns = 8;

/**
 * Where the scale factors of row `row` lie, from their address: the word's lane (of 32) and column, and the byte of factor `j`.
 * The 32 lanes are repeated in all four quarters of the lanes; of B in layout B each half of the lanes holds the half of N that
 * it multiplies.
 */
export const scalePlace = (
  row: number,
  j: number,
  id: number,
): { readonly lane: number; readonly column: number; readonly byte: number } => ({
  lane: row & 31,
  column: row >> 5,
  byte: id + j,
});

/**
 * Where the metadata of a sparse A lies from its address: lane, column and first bit of the four bits of chunk `chunk` of row `row`. With elements of 16 bits and
 * more a word has 16 bits of rows r and r + 8, and the second half of K is eight lanes further on (as registers have it for mma.sp); else a row is a lane.
 */
export const metadataPlace = (
  bits: number,
  row: number,
  chunk: number,
): { readonly lane: number; readonly column: number; readonly shift: number } =>
  bits >= 16
    ? {
        lane: (row & ~15) + 8 * (chunk >> 2) + (row & 7),
        column: 0,
        shift: 16 * ((row >> 3) & 1) + 4 * (chunk & 3),
      }
    : { lane: row, column: chunk >> 3, shift: 4 * (chunk & 7) };

/** Columns of metadata that an instruction reads. */
export const metadataColumns = (bits: number): number => (bits >= 16 ? 1 : 2);

/** Elements of K under one factor. */
export const scaleBlock = (k: number, vector: Tcgen05ScaleVector): number => k / vector;
