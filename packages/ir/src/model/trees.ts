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
  /** Of all trees, in base64. */
  readonly trees: string;
}

export interface Tree {
  readonly questions: readonly (readonly [trait: number, cut: number, yes: number, no: number])[];
  readonly leaves: readonly number[];
}

export function packTrees(trees: readonly Tree[]): string {
  const bytes = trees.flatMap(({ questions, leaves }) => [
    questions.length,
    ...questions.flatMap((each) => each.map((value) => value & 0xff)),
    ...leaves.flatMap((value) => [value & 0xff, (value >> 8) & 0xff]),
  ]);
  return btoa(bytes.map((byte) => String.fromCharCode(byte)).join(""));
}

/** The sum of all trees' leaves for a kernel's traits. */
export function treesOf({ cuts, unit, trees }: TreeData): (traits: Float64Array) => number {
  const bytes = Int8Array.from(atob(trees), (char) => char.charCodeAt(0));
  // Side by side: of each question trait, where it goes and the cut; leaves lie behind all of them.
  const words: number[] = [];
  const values: number[] = [];
  const leaves: number[] = [];
  const roots: number[] = [];
  for (let at = 0; at < bytes.length; ) {
    const count = (bytes[at++] ?? 0) & 0xff;
    const [first, firstLeaf] = [values.length, leaves.length];
    roots.push(count === 0 ? ~firstLeaf : first);
    const place = (to: number): number => (to < 0 ? ~(firstLeaf + ~to) : first + to);
    for (let i = 0; i < count; i++, at += 4) {
      const [trait, cut, yes, no] = bytes.subarray(at, at + 4).map((byte) => byte);
      words.push((trait ?? 0) & 0xff, place(yes ?? 0), place(no ?? 0));
      values.push(cuts[(trait ?? 0) & 0xff]?.[(cut ?? 0) & 0xff] ?? 0);
    }
    for (let i = 0; i <= count; i++, at += 2)
      leaves.push((((bytes[at] ?? 0) & 0xff) | ((bytes[at + 1] ?? 0) << 8)) * unit);
  }
  const [where, cut, leaf] = [Int32Array.from(words), Float64Array.from(values), Float64Array.from(leaves)];
  return (traits) => {
    let sum = 0;
    for (const root of roots) {
      let at = root;
      while (at >= 0)
        at = where[3 * at + ((traits[where[3 * at] ?? 0] ?? 0) <= (cut[at] ?? 0) ? 1 : 2)] ?? -1;
      sum += leaf[~at] ?? 0;
    }
    return sum;
  };
}
