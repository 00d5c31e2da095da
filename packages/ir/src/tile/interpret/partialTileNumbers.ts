/** Which counter and which partial tiles a work tile has, whose parts several CTAs sum. */
import { inOnePlace } from "../launches/partialTiles.ts";
import { streamKBlocks } from "../streamK.ts";
import type { Stmt } from "../types.ts";

/** A work tile's counter and partial tiles as numbers within their regions: the emission makes the same of the CTA's. `rank`: of the CTA among those of the tile. */
export interface Numbers {
  readonly counter: number;
  readonly first: number;
  readonly own: number;
  readonly rank: number;
  /** That of part p behind the first is p further than this. */
  readonly further: number;
  /** CTAs that have parts of the tile. */
  readonly parts: number;
}

interface Place {
  /** The work tile, and which half of it the CTA of a pair has. */
  readonly tile: number;
  readonly half: number;
  /** CTAs that have halves of the tile. */
  readonly pair: number;
  /** The problem of a batch. */
  readonly problem: number;
  /** Partial tiles of a problem, and of a work tile. */
  readonly count: number;
  readonly each: number;
  /** Counters of a problem: only stream-K asks, whose region may be absent elsewhere. */
  readonly counters: () => number;
  /** A variable of the tiles around. */
  readonly variable: (name: string) => number;
}

/** Numbers within a reduction's regions, as the emission makes them. `by`: how the parts are summed. */
export function numbersOf(
  { streamK: share, split }: Extract<Stmt, { kind: "tiles" }>,
  by: Extract<Stmt, { kind: "reduce" }>["by"],
  { tile: workTile, half, pair, problem, count, each, counters: countersOf, variable }: Place,
): Numbers {
  const ofProblem = problem * count;
  if (share === undefined) {
    const tile = pair * workTile + half;
    const first = (ofProblem + tile) * each;
    const rank = split === null || inOnePlace(by) ? 0 : variable(split.var);
    return { counter: tile, first, own: first + rank, rank, further: first, parts: split?.extent ?? 1 };
  }
  const line = workTile * share.chunks;
  const firstCta = Math.floor(line / share.each);
  // Where the launch says how many tiles there are, a counter is that of the CTA in whose share the tile begins.
  const counters = by === "kernel" ? share.tiles * pair : countersOf();
  const counted = counters === share.tiles * pair ? null : counters;
  const tile = counted === null ? workTile + half * share.tiles : firstCta;
  if (inOnePlace(by)) {
    const first = ofProblem + tile;
    return { counter: tile, first, own: first, rank: 0, further: first, parts: 1 };
  }
  const ctas = counted ?? streamKBlocks(share);
  const base = ofProblem + half * 2 * ctas;
  const begin = variable(share.first);
  const cta = Math.floor((line + begin) / share.each);
  const lastCta = Math.floor((line + share.chunks - 1) / share.each);
  return {
    counter: tile,
    first: base + ctas + firstCta,
    own: base + (begin === 0 ? ctas + cta : cta),
    rank: cta - firstCta,
    further: base + firstCta,
    parts: 1 + lastCta - firstCta,
  };
}
