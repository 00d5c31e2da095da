import { defineProblem } from "@tilewright/core";
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import {
  applySwizzle,
  type Buffer,
  elementOffset,
  interleavedOver,
  isInjective,
  type Layout,
  panelled,
  parseLayout,
  printLayout,
  tensorAccessFault,
  tensorCut,
  tensorSwizzles,
} from "../../src/index.ts";

const buffer = (shape: readonly [number, number], layout: Layout): Buffer => ({
  name: "sA",
  space: "shared",
  dtype: "bf16",
  shape,
  slots: 1,
  layout,
  own: null,
  align: 128,
});

const spans = { "128B": 64, "64B": 32, "32B": 16, none: 8 } as const;
const shapes = fc.record({
  swizzle: fc.constantFrom("128B", "64B", "32B", "none"),
  axis: fc.constantFrom<0 | 1>(0, 1),
  panels: fc.integer({ min: 1, max: 4 }),
  across: fc.integer({ min: 1, max: 6 }).map((n) => 8 * n),
  parts: fc.constantFrom(1, 2, 3),
  turns: fc.constantFrom(1, 1, 2, 4),
});

describe("tensorCut", () => {
  it("writes every element where the layout has it, box by box, as TMA lays a box out", () => {
    fc.assert(
      fc.property(shapes, ({ swizzle, axis, panels, across, parts, turns }) => {
        const extent = spans[swizzle];
        const shape: readonly [number, number] =
          axis === 1 ? [across, extent * panels] : [extent * panels, across];
        const plain = panelled(shape, axis, extent, tensorSwizzles[swizzle]);
        const layout = interleavedOver(plain, axis === 1 ? 0 : 1, turns);
        const cut = tensorCut(buffer(shape, layout), parts);
        fc.pre(cut !== null);
        if (cut === null) return;
        expect([cut.contiguous, cut.swizzle, cut.box[0], cut.runs]).toEqual([axis, swizzle, extent, turns]);
        expect(cut.pieces.length % parts).toBe(0);
        const seen = new Set<number>();
        for (const piece of cut.pieces)
          for (let o = 0; o < cut.box[1] * turns; o++)
            for (let i = 0; i < cut.box[0]; i++) {
              // TMA fills a box densely, then permutes by the address's own bits.
              const byte = applySwizzle(tensorSwizzles[swizzle], piece.offset + (o * cut.box[0] + i) * 2);
              // Of rows that are interleaved the box has every so-many-th first, then those after them.
              const over = (o % cut.box[1]) * turns + Math.floor(o / cut.box[1]);
              const at = axis === 1 ? [piece.row + over, piece.col + i] : [piece.row + i, piece.col + over];
              expect(byte / 2).toBe(elementOffset(layout, at, 2));
              seen.add(byte);
            }
        expect(seen.size).toBe(shape[0] * shape[1]);
      }),
      { numRuns: 100 },
    );
  });

  it("refuses layouts that no box has", () => {
    const wide = panelled([64, 64], 1, 64, tensorSwizzles["128B"]);
    expect(tensorCut(buffer([64, 64], { ...wide, stride: [72, 1] }))).toBeNull();
    expect(tensorCut(buffer([64, 64], { ...wide, swizzle: { bits: 3, base: 4, shift: 4 } }))).toBeNull();
    expect(tensorCut(buffer([12, 64], panelled([12, 64], 1, 64, tensorSwizzles["128B"])), 2)).toBeNull();
    expect(tensorCut(buffer([300, 300], panelled([300, 300], 1, 300, null)))).toBeNull();
    const interleaved = interleavedOver(wide, 0, 4);
    expect(tensorCut(buffer([64, 64], interleaved))?.runs).toBe(4);
    expect(tensorCut(buffer([64, 64], interleaved), 2)).toBeNull();
    expect(
      tensorCut(buffer([64, 64], { ...interleaved, interleaved: { axis: 0, runs: 4, step: 2048 } })),
    ).toBeNull();
    expect(
      tensorCut(buffer([48, 64], interleavedOver(panelled([48, 64], 1, 64, wide.swizzle), 0, 4))),
    ).toBeNull();
  });

  it("cuts tiles higher than a box", () => {
    const cut = tensorCut(buffer([512, 64], panelled([512, 64], 1, 64, tensorSwizzles["128B"])));
    expect(cut?.box).toEqual([64, 256]);
    expect(cut?.pieces).toEqual([
      { row: 0, col: 0, offset: 0 },
      { row: 256, col: 0, offset: 32768 },
    ]);
  });
});

describe("panels and interleaved axes", () => {
  it("print, parse back and give every element its place", () => {
    fc.assert(
      fc.property(shapes, ({ swizzle, axis, panels, across, turns }) => {
        const extent = spans[swizzle];
        const shape: readonly [number, number] =
          axis === 1 ? [across, extent * panels] : [extent * panels, across];
        const layout = interleavedOver(
          panelled(shape, axis, extent, tensorSwizzles[swizzle]),
          axis === 1 ? 0 : 1,
          turns,
        );
        expect(parseLayout(printLayout(layout))).toEqual({ ok: true, value: layout });
        expect(isInjective(layout)).toBe(true);
      }),
    );
  });

  it.each([
    ["(8,16):(8,1) panels<1,8,32>", "panels 32 apart overlap: each reaches 64"],
    ["(8,16):(8,1) panels<1,5,64>", "panels of 5 do not divide an axis of 16"],
    ["(8,16):(8,1) interleaved<0,3,64>", "3 runs do not divide an axis of 8"],
    ["(8,16):(8,1) panels<1,8,64> interleaved<1,4,4>", "an axis is cut into panels or interleaved, not both"],
  ])("refuse %s", (text, message) => {
    const parsed = parseLayout(text);
    expect(parsed.ok ? [] : parsed.error.map((d) => d.message)).toEqual([message]);
  });
});

describe("tensorAccessFault", () => {
  const problem = (input: Parameters<typeof defineProblem>[0]) => {
    const made = defineProblem(input);
    if (!made.ok) throw new Error(JSON.stringify(made.error));
    return made.value;
  };
  it.each([
    [
      { a: { dtype: "bf16", align: 8 } },
      "A may begin at any multiple of 8 bytes; bulk tensor copies need multiples of 16",
    ],
    [
      { a: { dtype: "bf16", align: 16, ld: 44 } },
      "rows of A are 88 bytes apart; bulk tensor copies need multiples of 16",
    ],
    [{ a: { dtype: "bf16", align: 16, ld: 48 } }, undefined],
  ] as const)("%o", (given, message) => {
    const p = problem({ m: 40, n: 40, k: 40, b: { dtype: "bf16" }, d: { dtype: "bf16" }, ...given });
    expect(tensorAccessFault(p, "A")?.message).toBe(message);
  });
});
