import { fc, test as property } from "@fast-check/vitest";
import { describe, expect, test } from "vitest";
import { type Lifetime, planArena } from "../../src/index.ts";

const lifetime = fc
  .record({ bytes: fc.integer({ min: 1, max: 5000 }), first: fc.nat(20), length: fc.nat(8) })
  .map(({ bytes, first, length }): Lifetime => ({ bytes, first, last: first + length }));

describe("planArena", () => {
  test("what does not live at the same time shares memory", () => {
    const chain = [0, 1, 2, 3].map((first) => ({ bytes: 1000, first, last: first + 1 }));
    expect(planArena(chain)).toEqual({ offsets: [0, 1024, 0, 1024], bytes: 2048 });
    expect(planArena(chain, 16).bytes).toBe(2016);
    expect(planArena([])).toEqual({ offsets: [], bytes: 0 });
  });

  property.prop([fc.array(lifetime, { maxLength: 30 })])(
    "what lives at the same time lies apart, aligned, within the arena",
    (tensors) => {
      const { offsets, bytes } = planArena(tensors);
      expect(offsets.length).toBe(tensors.length);
      for (const [i, x] of tensors.entries()) {
        const at = offsets[i] ?? -1;
        expect(at >= 0 && at % 256 === 0 && at + x.bytes <= bytes).toBe(true);
        for (const [j, y] of tensors.entries()) {
          const other = offsets[j] ?? -1;
          const together = i !== j && x.first <= y.last && y.first <= x.last;
          if (together) expect(at + x.bytes <= other || other + y.bytes <= at).toBe(true);
        }
      }
    },
  );
});
