/** Choice of a shared-memory layout: padding or swizzle, judged by the bank oracle. */
import type { Bytes } from "@tilewright/core";
import { type AccessWidth, bankConflicts } from "./banks.ts";
import { byteOffset, footprint, vectorLength, withPadding, withSwizzle } from "./layout.ts";
import { swizzlePeriod } from "./swizzle.ts";
import type { Layout, Swizzle } from "./types.ts";

/** One warp instruction on the tile, as coordinates: what it wants, whatever the layout. */
export interface TileAccess {
  /** For reports: `store A`, `load A fragment`. */
  readonly name: string;
  /** Bytes that a lane moves; more than one element run along the contiguous axis. */
  readonly width: AccessWidth;
  /** First element of each lane, null for a lane that is switched off. */
  readonly lanes: readonly (readonly [row: number, column: number] | null)[];
  /** How often the instruction runs, relative to the others. Default 1. */
  readonly weight?: number;
}

export interface LayoutQuery {
  /** Rows and columns of the tile, in elements. */
  readonly shape: readonly [number, number];
  /** Axis whose neighbours are neighbours in memory: 0 rows (column-major), 1 columns (row-major). */
  readonly contiguous: 0 | 1;
  readonly elementBytes: number;
  readonly accesses: readonly TileAccess[];
  /** Extra elements between runs to try. Default 0, 1, 2, 4, 8, 16, 32. */
  readonly paddings?: readonly number[];
  /** Swizzles to try. Default: every one that permutes vectors of the widest access within 128 bytes, see `swizzleCandidates`. */
  readonly swizzles?: readonly Swizzle[];
  /** Layouts of the shape to try beside those. */
  readonly others?: readonly Layout[];
  /** Bytes that the tile may take. */
  readonly maxBytes?: number;
  /** Alignment in bytes that every run's start must have: 16 for cp.async and vector copies. Default: that of the widest access. */
  readonly runAlign?: number;
  /** Which remedy wins at equal cost. Padding costs bytes, a swizzle costs address arithmetic. Default padding. */
  readonly prefer?: "padding" | "swizzle";
}

export interface LayoutChoice {
  readonly layout: Layout;
  readonly kind: "plain" | "padding" | "swizzle";
  readonly bytes: Bytes;
  /** Weighted sums over the accesses. */
  readonly wavefronts: number;
  readonly excess: number;
}

/**
 * Swizzles that keep vectors of `vectorBytes` whole and move them within one row of banks (128 bytes): bits 1 … 7 - log2(vector),
 * and source bits from just above the target bits up to the tile's last offset bit.
 */
export function swizzleCandidates(vectorBytes: number, tileBytes: number): readonly Swizzle[] {
  const base = Math.round(Math.log2(vectorBytes));
  const result: Swizzle[] = [];
  for (let bits = 1; bits <= 7 - base; bits++)
    for (let shift = bits; 2 ** (base + shift) < tileBytes; shift++) result.push({ bits, base, shift });
  return result;
}

const order = { padding: ["plain", "padding", "swizzle"], swizzle: ["plain", "swizzle", "padding"] } as const;

/**
 * Every legal candidate, best first: fewest conflicts (weighted), then the preferred kind, then fewest bytes, then the order of
 * the candidates. Deterministic. Legal: fits `maxBytes`, keeps every run's alignment, and every access is contiguous and aligned.
 * Empty when nothing fits.
 */
export function rankLayouts(query: LayoutQuery): readonly LayoutChoice[] {
  const { shape, contiguous, elementBytes, accesses } = query;
  const widest = accesses.reduce((max, access) => Math.max(max, access.width), elementBytes);
  const runAlign = query.runAlign ?? widest;
  const plain = withPadding(shape, contiguous, 0);
  const candidates: { readonly layout: Layout; readonly kind: LayoutChoice["kind"] }[] = (
    query.paddings ?? [0, 1, 2, 4, 8, 16, 32]
  ).map((pad) => ({ layout: withPadding(shape, contiguous, pad), kind: pad === 0 ? "plain" : "padding" }));
  for (const swizzle of query.swizzles ??
    swizzleCandidates(Math.max(widest, runAlign), footprint(plain, elementBytes)))
    candidates.push({ layout: withSwizzle(plain, swizzle), kind: "swizzle" });
  for (const layout of query.others ?? []) candidates.push({ layout, kind: "swizzle" });

  const choices: LayoutChoice[] = [];
  for (const { layout, kind } of candidates) {
    const size = footprint(layout, elementBytes);
    if (size > (query.maxBytes ?? Number.POSITIVE_INFINITY)) continue;
    if (((layout.stride[1 - contiguous] ?? 0) * elementBytes) % runAlign !== 0) continue;
    if (layout.swizzle !== null && 2 ** layout.swizzle.base < runAlign) continue;
    const vectorBytes = vectorLength(layout, contiguous, elementBytes) * elementBytes;
    if (accesses.some((access) => access.width > Math.max(vectorBytes, elementBytes))) continue;
    let wavefronts = 0;
    let excess = 0;
    for (const { width, lanes, weight = 1 } of accesses) {
      const addresses = lanes.map((lane) => (lane === null ? null : byteOffset(layout, lane, elementBytes)));
      const report = bankConflicts({ width, addresses });
      wavefronts += weight * report.wavefronts;
      excess += weight * report.excess;
    }
    choices.push({ layout, kind, bytes: size as Bytes, wavefronts, excess });
  }
  const rank = order[query.prefer ?? "padding"];
  // Array.prototype.sort is stable: equal candidates keep their order. A short swizzle period (fewer address bits) wins among swizzles.
  return choices.sort(
    (x, y) =>
      x.excess - y.excess ||
      rank.indexOf(x.kind) - rank.indexOf(y.kind) ||
      x.bytes - y.bytes ||
      swizzlePeriod(x.layout.swizzle) - swizzlePeriod(y.layout.swizzle),
  );
}

/** The best layout for a tile, or null when none is legal. */
export const chooseLayout = (query: LayoutQuery): LayoutChoice | null => rankLayouts(query)[0] ?? null;
