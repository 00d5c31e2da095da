/** What is handed from warp to warp: by barriers, phases of mbarriers and flags. The clocks are those of clocks.ts. */
import { Past } from "./past.ts";

/** `array`, or a longer copy of it where it has fewer than `size` entries. */
function atLeast(array: Int32Array, size: number): Int32Array {
  if (array.length >= size) return array;
  const wider = new Int32Array(Math.max(size, 2 * array.length));
  wider.set(array);
  return wider;
}

/** Clocks before there are any. */
const none: Int32Array = new Int32Array(0);

/** Raise entry `at` of `table` to `clock`. */
export function raiseAt(table: Int32Array, at: number, clock: number): void {
  if (clock > (table[at] ?? 0)) table[at] = clock;
}

/** Raise `size` entries of `into`, the first at `to`, to those of `from` that begin at `at`. */
export function raise(into: Int32Array, to: number, from: Int32Array, at: number, size: number): void {
  for (let a = 0; a < size; a++) {
    const value = from[at + a] as number;
    if (value > (into[to + a] as number)) into[to + a] = value;
  }
}

/**
 * What a barrier, an mbarrier's phase or a flag hands on: clocks V, P, G and X, the past in other clusters, what fences have made ready to be told by strong
 * writes, and what strong reads have seen that counts after the next fence.
 */
export class Carried {
  v = none;
  p = none;
  g = none;
  x = none;
  past: Past | null = null;
  fenced: Handed | null = null;
  pending: Handed | null = null;

  /** Make room for `size` agents. */
  fit(size: number): void {
    if (this.v.length >= size) return;
    this.v = atLeast(this.v, size);
    this.p = atLeast(this.p, size);
    this.g = atLeast(this.g, size);
    this.x = atLeast(this.x, size);
  }

  /** Take over the clocks and the past of another. */
  add(other: Carried): void {
    const size = other.v.length;
    this.fit(size);
    raise(this.v, 0, other.v, 0, size);
    raise(this.p, 0, other.p, 0, size);
    raise(this.g, 0, other.g, 0, size);
    raise(this.x, 0, other.x, 0, size);
    this.past = Past.join(this.past, other.past);
  }

  join(other: Carried): void {
    this.add(other);
    this.fenced = joinFenced(this.fenced, other.fenced);
    this.pending = joinPending(this.pending, other.pending);
  }

  /** Whether nothing in `other` is missing here. */
  covers(other: Carried): boolean {
    if (other.past !== null && other.past !== this.past) return false;
    return (["v", "p", "g", "x"] as const).every((table) => {
      const mine = this[table];
      return other[table].every((clock, agent) => clock <= (mine[agent] ?? 0));
    });
  }
}

/** What a fence covers, or a strong read has seen: within the cluster, and for others or from them. Never changed. */
export interface Handed {
  readonly near: Carried;
  readonly far: Past | null;
}

/** Both; one of the two where it holds the other, so that warps which meet again and again keep one object. */
function joinHanded(
  a: Handed | null,
  b: Handed | null,
  holds: (far: Past | null, other: Past | null) => boolean,
) {
  if (a === null || a === b) return b;
  if (b === null) return a;
  if (holds(b.far, a.far) && b.near.covers(a.near)) return b;
  if (holds(a.far, b.far) && a.near.covers(b.near)) return a;
  const near = new Carried();
  near.add(a.near);
  near.add(b.near);
  return { near, far: Past.join(a.far, b.far) };
}
/** Who knows of a fence knows what it tells other clusters: both have come the same way. */
export const joinFenced = (a: Handed | null, b: Handed | null): Handed | null =>
  joinHanded(a, b, (far, other) => far !== null || other === null);
export const joinPending = (a: Handed | null, b: Handed | null): Handed | null =>
  joinHanded(a, b, (far, other) => far === other || other === null);
