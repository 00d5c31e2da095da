/** Coordinates of a thread: its part of an element's position, as registers computed once in the prologue. */
import {
  type Distribution,
  distributionCounts,
  type Factor,
  type Ownership,
  type Tier,
  weighted,
} from "@tilewright/ir";
import { imm } from "@tilewright/ptx";
import type { Reg } from "./code.ts";
import type { Values } from "./values.ts";

/** One thread-dependent coordinate: a register, or null where it is 0 for every thread. */
export interface ThreadCoord {
  readonly key: string;
  readonly reg: Reg<"u32"> | null;
  /** Every bit that the value can have set; null where that is not known (extents that are no powers of two). */
  readonly bits: number | null;
}

/** A thread's position in a tile: rows and columns. */
export interface ThreadPosition {
  readonly row: ThreadCoord;
  readonly col: ThreadCoord;
}

const ZERO: ThreadCoord = { key: "0", reg: null, bits: 0 };

const isPowerOfTwo = (n: number): boolean => n > 0 && (n & (n - 1)) === 0;

/** Part of a register tile's coordinates that depends on the thread. */
export const ownedPosition = (values: Values, own: Ownership): ThreadPosition => ({
  row: factorCoord(values, own.rows),
  col: factorCoord(values, own.cols),
});

function factorCoord(values: Values, factors: readonly Factor[]): ThreadCoord {
  const parts = weighted(factors).filter((f) => f.extent > 1 && isThreadTier(f.tier));
  if (parts.length === 0) return ZERO;
  const key = parts.map((f) => `${f.tier}/${f.stride}%${f.extent}*${f.weight}`).join("+");
  const reg = parts.reduce<Reg<"u32"> | null>((sum, f) => {
    const index = f.tier === "warp" ? values.warp() : values.lane();
    const digit = values.modulo(
      values.divide(index, f.stride),
      f.extent,
      tierSize(values, f.tier) / f.stride,
    );
    const term = values.scale(digit, f.weight);
    return sum === null ? term : values.sum(sum, term);
  }, null);
  const exact = parts.every((f) => isPowerOfTwo(f.extent) && isPowerOfTwo(f.weight));
  const bits = exact ? parts.reduce((mask, f) => mask | ((f.extent - 1) * f.weight), 0) : null;
  return { key, reg, bits };
}

const isThreadTier = (tier: Tier): boolean => tier === "warp" || tier === "thread";
const tierSize = (values: Values, tier: Tier): number => (tier === "warp" ? values.warps : 32);

/** One vector of a distributed copy: where the thread stands, the constant part, and how many threads take part. */
export interface DistributedStep {
  readonly position: ThreadPosition;
  readonly row: number;
  readonly col: number;
  /** Threads below this number move the vector; null when all do. */
  readonly threads: number | null;
}

/** The vectors that a thread moves, in order. */
export function distributedSteps(
  values: Values,
  dist: Distribution,
  extent: readonly [number, number],
): readonly DistributedStep[] {
  const { total, perThread } = distributionCounts(dist, extent);
  const along = extent[dist.fastest] / dist.vector;
  const swap = (inner: ThreadCoord, outer: ThreadCoord): ThreadPosition =>
    dist.fastest === 1 ? { row: outer, col: inner } : { row: inner, col: outer };
  return Array.from({ length: perThread }, (_, i): DistributedStep => {
    const first = i * dist.threads;
    const left = total - first;
    const threads = left < dist.threads ? left : null;
    const place = placeOf(values, dist, along, first);
    const [row, col] = dist.fastest === 1 ? [place.outer, place.inner] : [place.inner, place.outer];
    return { position: swap(place.innerCoord, place.outerCoord), row, col, threads };
  });
}

interface Place {
  readonly innerCoord: ThreadCoord;
  readonly outerCoord: ThreadCoord;
  readonly inner: number;
  readonly outer: number;
}

/** Vector `first + thread`: its inner and outer coordinates, split into thread part and constant where the sizes divide. */
function placeOf(values: Values, dist: Distribution, along: number, first: number): Place {
  const { threads, vector } = dist;
  if (threads % along === 0) {
    const [innerCoord, outerCoord] = splitThread(values, threads, along, vector, 0);
    return { innerCoord, outerCoord, inner: 0, outer: first / along };
  }
  if (along % threads === 0) {
    const [innerCoord] = splitThread(values, threads, along, vector, 0);
    return {
      innerCoord,
      outerCoord: ZERO,
      inner: (first % along) * vector,
      outer: Math.floor(first / along),
    };
  }
  const [innerCoord, outerCoord] = splitThread(values, threads, along, vector, first);
  return { innerCoord, outerCoord, inner: 0, outer: 0 };
}

function splitThread(
  values: Values,
  threads: number,
  along: number,
  vector: number,
  first: number,
): readonly [ThreadCoord, ThreadCoord] {
  const index = first === 0 ? values.thread() : values.sum(values.thread(), imm(first));
  const size = threads + first;
  const exact = isPowerOfTwo(along) && isPowerOfTwo(vector) && isPowerOfTwo(size);
  const name = `(t+${first})`;
  const inner: ThreadCoord =
    along === 1
      ? ZERO
      : {
          key: `${name}%${along}*${vector}`,
          reg: values.scale(values.modulo(index, along, size), vector),
          bits: exact ? (Math.min(along, size) - 1) * vector : null,
        };
  const outer: ThreadCoord =
    size <= along
      ? ZERO
      : {
          key: `${name}/${along}`,
          reg: values.divide(index, along),
          bits: exact ? size / along - 1 : null,
        };
  return [inner, outer];
}
