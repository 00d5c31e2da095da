import { fc, test as property } from "@fast-check/vitest";
import { describe, expect, test } from "vitest";
import { type AccessWidth, bankCells, bankConflicts } from "../../src/layout/banks.ts";
import { chooseLayout, rankLayouts, swizzleCandidates, type TileAccess } from "../../src/layout/choose.ts";
import { byteOffset, isInjective, rowMajor, withPadding, withSwizzle } from "../../src/layout/layout.ts";

const lanes = Array.from({ length: 32 }, (_, lane) => lane);
const access = (width: AccessWidth, address: (lane: number) => number | null) =>
  bankConflicts({ width, addresses: lanes.map(address) });

describe("hand-known accesses", () => {
  test.each([
    ["neighbouring words", access(4, (l) => l * 4), 1, 0, 1],
    ["one word for all: broadcast", access(4, () => 64), 1, 0, 1],
    ["stride 2 words: 2-way", access(4, (l) => l * 8), 2, 1, 2],
    ["a column of a 32-word row: 32-way", access(4, (l) => l * 128), 32, 31, 32],
    ["a column of a row padded by one word: free", access(4, (l) => l * 132), 1, 0, 1],
    ["halves of words: two lanes share a word", access(2, (l) => l * 2), 1, 0, 1],
    ["bytes", access(1, (l) => l), 1, 0, 1],
    ["16 bytes each, contiguous: four quarter-warps", access(16, (l) => l * 16), 4, 0, 1],
    [
      "16 bytes each, one row per lane of 128 bytes: 8-way in each quarter",
      access(16, (l) => l * 128),
      32,
      28,
      8,
    ],
    ["16 bytes, rows padded to 144 bytes: free", access(16, (l) => l * 144), 4, 0, 1],
    ["16 bytes, 128-byte swizzle: free", access(16, (l) => l * 128 + ((l % 8) ^ 3) * 16), 4, 0, 1],
    ["8 bytes each, contiguous: two half-warps", access(8, (l) => l * 8), 2, 0, 1],
    ["8 bytes, stride 16: 2-way in each half", access(8, (l) => l * 16), 4, 2, 2],
    ["two lanes, one bank", access(4, (l) => (l < 2 ? l * 128 : null)), 2, 1, 2],
    ["only the third quarter active", access(16, (l) => (l >> 3 === 2 ? l * 16 : null)), 1, 0, 1],
    ["no lane active", access(4, () => null), 0, 0, 0],
  ])("%s", (_name, report, wavefronts, excess, ways) => {
    expect(report).toEqual({ wavefronts, ideal: wavefronts - excess, excess, ways });
  });

  test("a misaligned address is a bug", () => {
    expect(() => access(16, (l) => l * 4)).toThrow("not aligned to 16 bytes");
  });
});

property.prop([fc.array(fc.nat(1023), { minLength: 32, maxLength: 32 }), fc.nat(63)])(
  "moving all lanes by whole rows of banks changes nothing",
  (words, rows) => {
    const before = bankConflicts({ width: 4, addresses: words.map((w) => w * 4) });
    const after = bankConflicts({ width: 4, addresses: words.map((w) => w * 4 + rows * 128) });
    expect(after).toEqual(before);
    const distinct = new Set(words).size;
    expect(before.wavefronts).toBeGreaterThanOrEqual(Math.ceil(distinct / 32));
    expect(before.wavefronts).toBeLessThanOrEqual(distinct);
  },
);

/** Stores of a transposed 128x8 tile: lane l holds row l/2, four k values from (l%2)*4, stored one by one. */
const transposeStore: TileAccess = {
  name: "store",
  width: 4,
  lanes: lanes.map((l) => [l >> 1, (l % 2) * 4] as const),
};
const fragmentLoad: TileAccess = {
  name: "load",
  width: 16,
  lanes: lanes.map((l) => [(l >> 2) * 4, 0] as const),
  weight: 8,
};

describe("choice of a layout", () => {
  test("the transposed store of an fp32 A tile takes padding by 4, which keeps 16-byte fragment loads", () => {
    const best = chooseLayout({
      shape: [128, 8],
      contiguous: 0,
      elementBytes: 4,
      accesses: [transposeStore, fragmentLoad],
    });
    expect(best).toMatchObject({
      kind: "padding",
      excess: 0,
      layout: { shape: [128, 8], stride: [1, 132] },
      bytes: (7 * 132 + 128) * 4,
    });
  });

  test("with swizzles preferred, one of 4096 bytes does the same", () => {
    const best = chooseLayout({
      shape: [128, 8],
      contiguous: 0,
      elementBytes: 4,
      accesses: [transposeStore, fragmentLoad],
      prefer: "swizzle",
    });
    expect(best).toMatchObject({ kind: "swizzle", excess: 0, bytes: 4096 });
  });

  test("no room for padding: a swizzle", () => {
    const best = chooseLayout({
      shape: [128, 8],
      contiguous: 0,
      elementBytes: 4,
      accesses: [transposeStore],
      maxBytes: 4096,
      runAlign: 16,
    });
    expect(best).toMatchObject({ kind: "swizzle", excess: 0 });
  });

  test("nothing to gain: the plain layout", () => {
    expect(
      chooseLayout({ shape: [128, 8], contiguous: 0, elementBytes: 4, accesses: [fragmentLoad] }),
    ).toMatchObject({ kind: "plain", excess: 0 });
  });

  test("ldmatrix rows of 64 f16: the 128-byte swizzle is among the conflict-free ones", () => {
    const rows: TileAccess = {
      name: "ldmatrix",
      width: 16,
      lanes: lanes.map((l) => [l % 16, (l >> 4) * 8] as const),
    };
    const ranked = rankLayouts({
      shape: [64, 64],
      contiguous: 1,
      elementBytes: 2,
      accesses: [rows],
      prefer: "swizzle",
    });
    expect(ranked[0]).toMatchObject({
      kind: "swizzle",
      excess: 0,
      layout: { swizzle: { bits: 3, base: 4, shift: 3 } },
    });
    expect(ranked.find((choice) => choice.kind === "plain")?.excess).toBe(28);
  });

  test("impossible demands: null", () => {
    expect(
      chooseLayout({
        shape: [128, 8],
        contiguous: 0,
        elementBytes: 4,
        accesses: [fragmentLoad],
        maxBytes: 100,
      }),
    ).toBeNull();
    // 16-byte accesses along the axis that is not contiguous.
    expect(
      chooseLayout({ shape: [6, 7], contiguous: 1, elementBytes: 4, accesses: [fragmentLoad] }),
    ).toBeNull();
  });

  test("a query that runs twice gives the same ranking", () => {
    const query = { shape: [64, 16], contiguous: 1, elementBytes: 4, accesses: [transposeStore] } as const;
    expect(rankLayouts(query)).toEqual(rankLayouts(query));
  });

  property.prop([fc.integer({ min: 1, max: 40 }), fc.integer({ min: 1, max: 40 }), fc.boolean()])(
    "every ranked candidate is injective, fits its bytes and costs what it says",
    (rows, columns, row) => {
      const column: TileAccess = {
        name: "column",
        width: 4,
        lanes: lanes.map((l) => [l % rows, 0] as const),
      };
      const ranked = rankLayouts({
        shape: [rows, columns],
        contiguous: row ? 1 : 0,
        elementBytes: 4,
        accesses: [column],
      });
      expect(ranked.length).toBeGreaterThan(0);
      for (const { layout, bytes, wavefronts } of ranked) {
        expect(isInjective(layout)).toBe(true);
        const offsets = lanes.map((l) => byteOffset(layout, [l % rows, 0], 4));
        expect(Math.max(...offsets)).toBeLessThan(bytes);
        expect(bankConflicts({ width: 4, addresses: offsets }).wavefronts).toBe(wavefronts);
      }
      const excesses = ranked.map((choice) => choice.excess);
      expect(excesses).toEqual(excesses.toSorted((x, y) => x - y));
    },
  );
});

test("swizzle candidates stay within a row of banks and within the tile", () => {
  const all = swizzleCandidates(16, 4096);
  expect(all).toContainEqual({ bits: 3, base: 4, shift: 3 });
  for (const swizzle of all) {
    expect(swizzle.base + swizzle.bits).toBeLessThanOrEqual(7);
    expect(swizzle.shift).toBeGreaterThanOrEqual(swizzle.bits);
  }
  expect(withSwizzle(rowMajor([2, 2]), null)).toEqual(withPadding([2, 2], 1, 0));
});

property.prop([
  fc.constantFrom<AccessWidth>(1, 2, 4, 8, 16),
  fc.array(fc.option(fc.integer({ min: 0, max: 511 })), { minLength: 32, maxLength: 32 }),
])(
  "the map of lanes by banks takes as many wavefronts as the oracle counts, and no bank serves two words in one",
  (width, units) => {
    const addresses = units.map((unit) => (unit === null ? null : unit * width));
    const cells = bankCells({ width, addresses });
    const active = addresses.filter((address) => address !== null).length;
    expect(cells.length).toBe(active * Math.max(1, width / 4));
    expect(new Set(cells.map((cell) => cell.wavefront)).size).toBe(
      bankConflicts({ width, addresses }).wavefronts,
    );
    const served = new Map<string, number>();
    for (const { bank, word, wavefront } of cells) {
      const place = `${wavefront} ${bank}`;
      expect(served.get(place) ?? word).toBe(word);
      served.set(place, word);
      expect(word % 32).toBe(bank);
    }
  },
);
