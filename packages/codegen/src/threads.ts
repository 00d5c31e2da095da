/** Coordinates of a thread: its part of an element's position, as registers computed once in the prologue. */
import {
  type Distribution,
  distributionGrid,
  type Ownership,
  type OwnershipMode,
  type Tier,
  weighted,
} from "@tilewright/ir";
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

/** A coordinate that is 0 for every thread. */
export const NOWHERE: ThreadCoord = { key: "0", reg: null, bits: 0 };

/** A coordinate and `by` more. */
export function moved(values: Values, coord: ThreadCoord, by: Reg<"u32"> | null): ThreadCoord {
  if (by === null) return coord;
  const reg = coord.reg === null ? by : values.sum(coord.reg, by);
  return { key: `${coord.key}+${by.name}`, reg, bits: null };
}

const isPowerOfTwo = (n: number): boolean => n > 0 && (n & (n - 1)) === 0;

const threadTiers = ["cluster", "warp", "thread"] as const satisfies readonly Tier[];

/** Tiers of a thread's position in its own block's part of a tile. */
export const insideBlock = ["warp", "thread"] as const satisfies readonly Tier[];

/** Part of a register tile's coordinates that depends on the thread: on all that it is, or on some tiers of it. */
export const ownedPosition = (
  values: Values,
  own: Ownership,
  of: readonly Tier[] = threadTiers,
): ThreadPosition => ({
  row: factorCoord(values, own.rows, of),
  col: factorCoord(values, own.cols, of),
});

function factorCoord(values: Values, factors: readonly OwnershipMode[], of: readonly Tier[]): ThreadCoord {
  const parts = weighted(factors).filter((f) => f.extent > 1 && of.includes(f.tier));
  if (parts.length === 0) return NOWHERE;
  const key = parts.map((f) => `${f.tier}/${f.stride}%${f.extent}*${f.weight}`).join("+");
  const reg = parts.reduce<Reg<"u32"> | null>((sum, f) => {
    const index = f.tier === "cluster" ? values.rank() : f.tier === "warp" ? values.warp() : values.lane();
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

/** 0 in one of the threads that hold the same elements of a register tile; null where each has its own. */
export function replica(values: Values, own: Ownership): Reg<"u32"> | null {
  const digits = insideBlock.flatMap((tier): readonly Reg<"u32">[] => {
    const size = tierSize(values, tier);
    const index = tier === "warp" ? values.warp() : values.lane();
    const held = [...own.rows, ...own.cols]
      .filter((f) => f.tier === tier && f.extent > 1)
      .sort((x, y) => x.stride - y.stride);
    const ends = [...held, { stride: size, extent: 1 }];
    return ends.flatMap(({ stride }, i) => {
      const below = held[i - 1];
      const from = below === undefined ? 1 : below.stride * below.extent;
      return stride <= from ? [] : [values.modulo(values.divide(index, from), stride / from, size / from)];
    });
  });
  return digits.length === 0 ? null : digits.reduce((sum, digit) => values.sum(sum, digit));
}

/** Of a cluster's blocks as many as a digit needs: how many there are is not known here. */
const tierSize = (values: Values, tier: Tier): number =>
  tier === "cluster" ? Number.POSITIVE_INFINITY : tier === "warp" ? values.warps : 32;

/** One vector of a distributed copy: where the thread stands, the constant part, and which threads take part. */
export interface DistributedStep {
  readonly position: ThreadPosition;
  readonly row: number;
  readonly col: number;
  /** Bounds on thread coordinates at the edges of the tile; a thread moves the vector when all hold. */
  readonly limits: readonly { readonly coordinate: Reg<"u32">; readonly below: number }[];
}

/** The vectors that a thread moves, in order: the thread's own coordinates are shared by all of them, the rest is constant. */
export function distributedSteps(
  values: Values,
  dist: Distribution,
  extent: readonly [number, number],
): readonly DistributedStep[] {
  const { threads, along, vector } = dist;
  const grid = distributionGrid(dist, extent);
  const across = threads / along;
  const x = along === 1 ? values.thread() : values.modulo(values.thread(), along, threads);
  const y = across === 1 ? values.thread() : values.divide(values.thread(), along);
  const exact = isPowerOfTwo(along) && isPowerOfTwo(threads);
  const inner: ThreadCoord =
    along === 1
      ? NOWHERE
      : {
          key: `t%${along}*${vector}`,
          reg: values.scale(x, vector),
          bits: exact && isPowerOfTwo(vector) ? (along - 1) * vector : null,
        };
  const outer: ThreadCoord =
    across === 1 ? NOWHERE : { key: `t/${along}`, reg: y, bits: exact ? across - 1 : null };
  const position = dist.fastest === 1 ? { row: outer, col: inner } : { row: inner, col: outer };

  const steps: DistributedStep[] = [];
  for (let o = 0; o < grid.outerSteps; o++)
    for (let i = 0; i < grid.innerSteps; i++) {
      const [innerLeft, outerLeft] = [grid.inner - along * i, grid.outer - across * o];
      const limits = [
        ...(innerLeft < along ? [{ coordinate: x, below: innerLeft }] : []),
        ...(outerLeft < across ? [{ coordinate: y, below: outerLeft }] : []),
      ];
      const [within, beyond] = [along * i * vector, across * o];
      const [row, col] = dist.fastest === 1 ? [beyond, within] : [within, beyond];
      steps.push({ position, row, col, limits });
    }
  return steps;
}
