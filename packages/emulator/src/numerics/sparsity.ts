/** Structured sparsity: of each chunk of a row of A half the elements are stored, and four bits of metadata say which. */

/** Elements of a chunk, of which half are stored; two indices of a quarter of a chunk each say which. By bits of an element. */
const chunks: Readonly<Record<number, number>> = { 4: 8, 6: 4, 8: 4, 16: 4, 32: 2 };
export const chunkOf = (bits: number): number => chunks[bits] ?? 4;

/**
 * Where the stored elements of chunk `c` stand in their row, written to `positions` from `at` on.
 * Returns whether the bits name two quarters in ascending order, or the first or second element of two; `named`: two different ones.
 */
export function placeChunk(
  positions: Int32Array,
  at: number,
  nibble: number,
  c: number,
  chunk: number,
): { readonly ascending: boolean; readonly named: boolean } {
  const [low, high] = [nibble & 3, nibble >> 2];
  if (chunk === 2) {
    positions[at] = c * chunk + (low >> 1);
    const named = nibble === 4 || nibble === 14;
    return { ascending: named, named };
  }
  const quarter = chunk / 4;
  for (let i = 0; i < quarter; i++) {
    positions[at + i] = c * chunk + low * quarter + i;
    positions[at + quarter + i] = c * chunk + high * quarter + i;
  }
  return { ascending: low < high, named: low !== high };
}

/** A finding's words for metadata that names nothing. */
export const chunkNamed = (lane: number, nibble: number, c: number, chunk: number, row: number): string =>
  `lane ${lane} gives ${nibble.toString(2).padStart(4, "0")} for columns ${c * chunk} to ${c * chunk + chunk - 1} of row ${row}`;

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
