/**
 * Structured sparsity: of each chunk of a row of A half the elements are stored, and metadata says which. PTX ISA 9.0,
 * chapters 9.7.14.6 and 9.7.15.6; which lane holds which bits is what an H100 reads (318 products, bit for bit).
 */
import type { Instruction, Register } from "../load/types.ts";
import type { Machine, Warp } from "../machine/state.ts";
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

/** Elements of a chunk, of which half are stored; two indices of a quarter of a chunk each say which. By bits of an element. */
const chunkOf: Readonly<Record<number, number>> = { 4: 8, 6: 4, 8: 4, 16: 4, 32: 2 };

/** Metadata and selector, operands `index` and `index + 1`. */
export function decodeSparsity(d: Decoder, index: number, ordered: boolean): Sparsity {
  const [metadata] = registersIn(d, d.use(index, "int"), 1);
  if (metadata === undefined) return d.refuse("the metadata has to be a register");
  return { metadata, selector: d.literal(index + 1), ordered };
}

/** Of a warp, where in its row each stored element of A stands, [16][k / 2]; null for a dense A. */
export type StoredPositions = ((warp: Warp) => Int32Array) | null;

/** Rows of A that a warp holds. */
const rows = 16;

/**
 * Where in its row of `k` elements each stored element of A stands, [16][k / 2], of one warp.
 * Reports metadata that means nothing (H068).
 */
export function storedPositions(
  machine: Machine,
  instruction: Instruction,
  { metadata, selector, ordered }: Sparsity,
  { bits, k }: { readonly bits: number; readonly k: number },
): (warp: Warp) => Int32Array {
  const positions = new Int32Array((rows * k) / 2);
  const chunk = chunkOf[bits] ?? 4;
  const perIndex = chunk / 4;
  const chunks = k / chunk;
  /** 16 bits of two rows in a register, or 32 of one. */
  const halves = bits >= 16;
  const nibbles = halves ? 4 : 8;
  return (warp) => {
    const { words } = machine.arena;
    const base = laneZero(warp, metadata);
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
        const [low, high] = [nibble & 3, nibble >> 2];
        const valid = perIndex < 1 ? nibble === 4 || nibble === 14 : low < high || (!ordered && low !== high);
        if (!valid && machine.checked)
          machine.report(
            "H068",
            instruction,
            warp,
            () =>
              `lane ${lane} gives ${nibble.toString(2).padStart(4, "0")} for columns ${c * chunk} to ${c * chunk + chunk - 1} of row ${row}`,
          );
        if (perIndex < 1) positions[at++] = c * chunk + (low >> 1);
        else
          for (const index of [low, high])
            for (let i = 0; i < perIndex; i++) positions[at++] = c * chunk + index * perIndex + i;
      }
    return positions;
  };
}

/** Of B [n][k] the elements that one row of A meets, [n][k / 2]. */
export function gatherStored<T extends Float32Array | Int16Array>(
  b: T,
  k: number,
  positions: Int32Array,
  row: number,
  to: T,
  place: (at: number) => number = (at) => at,
): void {
  const depth = k / 2;
  for (let j = 0; j < depth; j++) {
    const from = positions[row * depth + j] as number;
    const at = place(j);
    for (let n = 0; n * depth < to.length; n++) to[n * depth + at] = b[n * k + from] as number;
  }
}
