/** Rasters: every tile once on any grid, and what each of them promises about neighbours. */
import { test as property } from "@fast-check/vitest";
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { hilbertSide, rasterSpan, rasterTile } from "../../src/tile/raster.ts";
import type { Raster } from "../../src/tile/types.ts";

const sides = fc.oneof(fc.integer({ min: 1, max: 40 }), fc.constantFrom(16, 32, 33, 48, 64));
const rasters: fc.Arbitrary<Raster> = fc.oneof(
  fc.constantFrom({ kind: "row" } as const, { kind: "col" } as const, { kind: "hilbert" } as const),
  fc.record({
    kind: fc.constantFrom("grouped" as const, "snake" as const, "blocked" as const),
    group: fc.integer({ min: 1, max: 48 }),
  }),
);

const walk = (raster: Raster, rows: number, cols: number) =>
  Array.from({ length: rows * cols }, (_, t) => rasterTile(raster, [rows, cols], t));

property.prop([rasters, sides, sides])("every tile once", (raster, rows, cols) => {
  const tiles = walk(raster, rows, cols);
  expect(new Set(tiles.map(([r, c]) => r * cols + c)).size).toBe(rows * cols);
  expect(tiles.every(([r, c]) => r >= 0 && r < rows && c >= 0 && c < cols)).toBe(true);
});

const steps = (tiles: ReturnType<typeof walk>): readonly number[] =>
  tiles.slice(1).map(([r, c], i) => Math.abs(r - (tiles[i]?.[0] ?? 0)) + Math.abs(c - (tiles[i]?.[1] ?? 0)));

describe("neighbours", () => {
  test("a small grid in each order", () => {
    const order = (raster: Raster, rows: number, cols: number) =>
      walk(raster, rows, cols)
        .map(([r, c]) => `${r}${c}`)
        .join(" ");
    expect(order({ kind: "grouped", group: 2 }, 4, 3)).toBe("00 10 01 11 02 12 20 30 21 31 22 32");
    expect(order({ kind: "snake", group: 2 }, 4, 3)).toBe("00 10 01 11 02 12 22 32 21 31 20 30");
    expect(order({ kind: "snake", group: 1 }, 3, 3)).toBe("00 01 02 12 11 10 20 21 22");
    expect(order({ kind: "blocked", group: 8 }, 8, 2)).toBe(
      "00 10 20 30 01 11 21 31 40 50 60 70 41 51 61 71",
    );
    expect(order({ kind: "blocked", group: 2 }, 4, 2)).toBe(order({ kind: "grouped", group: 2 }, 4, 2));
    expect(order({ kind: "hilbert" }, 4, 4)).toBe("00 01 11 10 20 30 31 21 22 32 33 23 13 12 02 03");
  });

  property.prop([sides, sides, fc.integer({ min: 1, max: 20 })])(
    "a snake changes groups without changing the column",
    (rows, cols, group) => {
      const tiles = walk({ kind: "snake", group }, rows, cols);
      for (let t = group * cols; t < rows * cols; t += group * cols)
        expect(tiles[t]?.[1]).toBe(tiles[t - 1]?.[1]);
    },
  );

  property.prop([fc.integer({ min: 0, max: 4 }), fc.integer({ min: 1, max: 4 })])(
    "Hilbert's curve goes from tile to neighbouring tile, and on to the next square",
    (log, squares) => {
      const side = 2 ** log;
      expect(steps(walk({ kind: "hilbert" }, side, side * squares)).every((step) => step === 1)).toBe(true);
    },
  );

  test("runs of tiles are compact: a wave of 128 of 64 x 64 tiles spans about 12 rows and columns, and whole rows otherwise", () => {
    expect(hilbertSide(64, 64)).toBe(16);
    expect(hilbertSide(5, 64)).toBe(4);
    expect(rasterSpan({ kind: "row" }, [64, 64], 128)).toEqual([2, 64]);
    expect(rasterSpan({ kind: "grouped", group: 8 }, [64, 64], 128)).toEqual([8, 16]);
    const [high, wide] = rasterSpan({ kind: "hilbert" }, [64, 64], 128);
    expect(high + wide).toBeLessThanOrEqual(24);
  });
});
