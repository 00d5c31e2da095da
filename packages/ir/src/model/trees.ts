/**
 * Sums of regression trees as data: each tree asks a few traits of a kernel whether they are at most one of the trait's cuts. A tree is bytes: how many questions it has, of each the trait, the cut
 * and where it goes on either way (a later question, or below 0 the leaf ~x), and its leaves as 16-bit integers.
 */
export interface TreeData {
  /** Their names (model/traits.ts). */
  readonly traits: readonly string[];
  /** Of each trait. */
  readonly cuts: readonly (readonly number[])[];
  /** What an integer of a leaf stands for. */
  readonly unit: number;
  /** Of all trees, in base64, without an end that is filled up. */
  readonly trees: string;
}

export interface Tree {
  readonly questions: readonly (readonly [trait: number, cut: number, yes: number, no: number])[];
  readonly leaves: readonly number[];
}

/** The bytes of trees. */
export const packTrees = (trees: readonly Tree[]): Uint8Array =>
  Uint8Array.from(
    trees.flatMap(({ questions, leaves }) => [
      questions.length,
      ...questions.flatMap((each) => each.map((value) => value & 0xff)),
      ...leaves.flatMap((value) => [value & 0xff, (value >> 8) & 0xff]),
    ]),
  );

const digits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/** Bytes of base64, where neither Node nor a page is asked for. */
function bytesOf(text: string): Uint8Array {
  const values = new Int32Array(128);
  for (let i = 0; i < digits.length; i++) values[digits.charCodeAt(i)] = i;
  const bytes = new Uint8Array((text.length * 3) >> 2);
  let [word, to] = [0, 0];
  for (let i = 0; i < text.length; i++) {
    word = (word << 6) | (values[text.charCodeAt(i)] ?? 0);
    if ((i & 3) === 0) continue;
    bytes[to++] = word >> (6 - 2 * (i & 3));
  }
  return bytes;
}

/** The sum of all trees' leaves for a kernel's traits. */
export function treesOf({ cuts, unit, trees }: TreeData): (traits: Float64Array) => number {
  const bytes = bytesOf(trees);
  const byte = (at: number): number => bytes[at] ?? 0;
  const signed = (at: number): number => (byte(at) << 24) >> 24;
  const roots: number[] = [];
  // Of each question trait, where it goes on either way and, beside them, the cut; leaves of all trees in a row.
  const where = new Int32Array(bytes.length);
  const limits = new Float64Array(bytes.length >> 2);
  const leaves = new Float64Array(bytes.length >> 1);
  let [questions, leaf] = [0, 0];
  for (let at = 0; at < bytes.length; ) {
    const count = byte(at++);
    const place = (to: number): number => (to < 0 ? to - leaf : to + first);
    const first = questions;
    roots.push(count === 0 ? -1 - leaf : first);
    for (let end = first + count; questions < end; questions++, at += 4) {
      where[3 * questions] = byte(at);
      where[3 * questions + 1] = place(signed(at + 2));
      where[3 * questions + 2] = place(signed(at + 3));
      limits[questions] = cuts[byte(at)]?.[byte(at + 1)] ?? 0;
    }
    for (let end = leaf + count + 1; leaf < end; leaf++, at += 2)
      leaves[leaf] = unit * (byte(at) | (signed(at + 1) << 8));
  }
  return (traits) => {
    let sum = 0;
    for (const root of roots) {
      let at = root;
      while (at >= 0) {
        const yes = (traits[where[3 * at] ?? 0] ?? 0) <= (limits[at] ?? 0);
        at = where[3 * at + (yes ? 1 : 2)] ?? -1;
      }
      sum += leaves[~at] ?? 0;
    }
    return sum;
  };
}
