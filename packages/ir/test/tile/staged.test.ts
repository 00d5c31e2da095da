import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { type Ownership, ownedRegisters, stagedOwner, storeOwners, weighted } from "../../src/index.ts";

/** The accumulator of warps side by side and below each other, each of some 16 x 8 fragments of mma.sync. */
const accumulator = (warps: readonly [number, number], atoms: readonly [number, number]): Ownership => ({
  rows: [
    { tier: "warp", extent: warps[0], stride: warps[1] },
    { tier: "register", extent: atoms[0], stride: 4 * atoms[1] },
    { tier: "register", extent: 2, stride: 2 },
    { tier: "thread", extent: 8, stride: 4 },
  ],
  cols: [
    { tier: "warp", extent: warps[1], stride: 1 },
    { tier: "register", extent: atoms[1], stride: 4 },
    { tier: "thread", extent: 4, stride: 1 },
    { tier: "register", extent: 2, stride: 1 },
  ],
});

/** Elements that a lane holds, `width` neighbours along `axis` from each of its registers on. */
function held(own: Ownership, warp: number, lane: number, axis: 0 | 1, width: number): readonly string[] {
  const part = (factors: Ownership["rows"]): number =>
    weighted(factors).reduce((sum, f) => {
      const index = f.tier === "warp" ? warp : f.tier === "thread" ? lane : 0;
      return sum + (Math.floor(index / f.stride) % f.extent) * f.weight;
    }, 0);
  return ownedRegisters(own).flatMap(({ row, col }) =>
    Array.from(
      { length: width },
      (_, i) =>
        `${part(own.rows) + row + (axis === 0 ? i : 0)},${part(own.cols) + col + (axis === 1 ? i : 0)}`,
    ),
  );
}

describe("a tile that D passes through", () => {
  test("each warp stores what it has put there, every element once, in every pass", () => {
    const side = fc.integer({ min: 1, max: 3 });
    fc.assert(
      fc.property(
        fc.record({
          m: side,
          n: side,
          am: side,
          an: fc.constantFrom(1, 2, 3, 4, 8),
          axis: fc.constantFrom(0, 1),
        }),
        fc.nat(),
        ({ m, n, am, an, axis }, pick) => {
          const own = accumulator([m, n], [am, an]);
          const counts = [1, 2, 3, 4, 8].filter((count) => an % count === 0);
          const columns = 8 * (counts[pick % counts.length] ?? 1);
          const cols = columns * n;
          const into = stagedOwner(own, cols);
          const owners = [8, 4, 2, 1].flatMap((width) => {
            const found = storeOwners(own, cols, axis as 0 | 1, width);
            return found === null ? [] : [{ width, ...found }];
          });
          expect(owners.length).toBeGreaterThan(0);
          const lanes = Array.from({ length: 32 }, (_, lane) => lane);
          for (let warp = 0; warp < m * n; warp++) {
            // Where no warp stands beside another the owner stays, and a pass takes its first columns.
            const put = lanes
              .flatMap((lane) => held(into, warp, lane, 1, 1))
              .filter((at) => Number(at.split(",")[1]) < cols)
              .sort();
            expect(new Set(put).size).toBe(16 * am * columns);
            for (const { tile, matrix, width } of owners) {
              expect(lanes.flatMap((lane) => held(tile, warp, lane, axis as 0 | 1, width)).sort()).toEqual(
                put,
              );
              // In D a warp's columns of one pass are its first ones there.
              const [at = ""] = held(matrix, warp, 0, 1, 1);
              expect(at).toBe(`${Math.floor(warp / n) * 16 * am},${(warp % n) * 8 * an}`);
            }
          }
        },
      ),
      { numRuns: 25 },
    );
  });

  test("no store goes over the edge of a warp's part", () => {
    const own = accumulator([2, 2], [1, 1]);
    expect(storeOwners(own, 16, 1, 8)).toBeNull();
    expect(storeOwners(own, 16, 1, 4)?.tile.cols.at(-1)).toEqual({ tier: "atom", extent: 4, stride: 1 });
  });
});
