/** One run of memory for tensors that do not all live at the same time. */
import { roundUp } from "../divisors.ts";

/** Bytes of a tensor, and the first and last step that touches it. */
export interface Lifetime {
  readonly bytes: number;
  readonly first: number;
  readonly last: number;
}

/** From the first to the last step that touches each tensor, in the order in which they first come. */
export function lifetimesOf<T>(
  steps: readonly (readonly T[])[],
  bytesOf: (tensor: T) => number,
): ReadonlyMap<T, Lifetime> {
  const lives = new Map<T, Lifetime>();
  for (const [i, touched] of steps.entries())
    for (const tensor of touched)
      lives.set(tensor, { bytes: bytesOf(tensor), first: lives.get(tensor)?.first ?? i, last: i });
  return lives;
}

/**
 * Where each tensor lies: those that live at the same step lie apart, the largest is placed first, each as low as it can. Offsets and the arena's size are
 * bytes, multiples of `align` (256 unless given: what cudaMalloc aligns to, enough for tensor maps).
 */
export function planArena(
  tensors: readonly Lifetime[],
  align = 256,
): { readonly offsets: readonly number[]; readonly bytes: number } {
  const aligned = (bytes: number): number => roundUp(bytes, align);
  const placed: (Lifetime & { readonly at: number; readonly index: number })[] = [];
  for (const [index, tensor] of [...tensors.entries()].sort(([, x], [, y]) => y.bytes - x.bytes)) {
    let at = 0;
    for (const other of placed.toSorted((x, y) => x.at - y.at)) {
      const together = other.first <= tensor.last && tensor.first <= other.last;
      if (together && other.at < at + tensor.bytes) at = Math.max(at, other.at + aligned(other.bytes));
    }
    placed.push({ ...tensor, at, index });
  }
  return {
    offsets: placed.toSorted((x, y) => x.index - y.index).map(({ at }) => at),
    bytes: Math.max(0, ...placed.map(({ at, bytes }) => at + aligned(bytes))),
  };
}
