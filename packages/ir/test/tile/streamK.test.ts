/** Shares: every chunk of every tile once, blocks in equal shares, and tiles beyond them whole. */
import { test as property } from "@fast-check/vitest";
import fc from "fast-check";
import { expect, test } from "vitest";
import { partialTilesOf, streamKBlocks, streamKFor, streamKGrid } from "../../src/tile/streamK.ts";

const positive = (max: number) => fc.integer({ min: 1, max });

property.prop([positive(40), positive(30), positive(50)])(
  "every chunk of every tile is in one part, and no block has more than its share",
  (tiles, chunks, blocks) => {
    const shares = streamKFor(tiles, chunks, blocks);
    if (shares === null) {
      expect(tiles % blocks === 0 || chunks === 1).toBe(true);
      return;
    }
    const share = { first: "f", count: "n", chunks, ...shares };
    const rest = tiles % blocks;
    // Three or more blocks for a tile of the last wave: the wave before it is shared, too.
    expect(share.tiles).toBe(tiles > blocks && 3 * rest < blocks ? rest + blocks : rest);
    expect(streamKBlocks(share)).toBeLessThanOrEqual(blocks);
    const parts = partialTilesOf(share, tiles);
    const line = parts.flatMap(({ tile, first, count }) =>
      Array.from({ length: count }, (_, i) => tile * chunks + first + i),
    );
    expect(line).toEqual(Array.from({ length: tiles * chunks }, (_, i) => i));
    const whole = parts.filter(({ count }) => count === chunks).length;
    expect(whole).toBeGreaterThanOrEqual(tiles - share.tiles);
    expect(streamKGrid(share, tiles)).toBe(streamKBlocks(share) + tiles - share.tiles);
  },
);

test("two tiles of five chunks for three blocks", () => {
  const share = { first: "f", count: "n", chunks: 5, each: 4, tiles: 2 };
  expect(partialTilesOf(share, 3)).toEqual([
    { tile: 0, first: 0, count: 4, cta: 0 },
    { tile: 0, first: 4, count: 1, cta: 1 },
    { tile: 1, first: 0, count: 3, cta: 1 },
    { tile: 1, first: 3, count: 2, cta: 2 },
    { tile: 2, first: 0, count: 5, cta: 3 },
  ]);
});
