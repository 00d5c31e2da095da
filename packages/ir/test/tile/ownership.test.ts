import fc from "fast-check";
import { expect, test } from "vitest";
import { distribute, distributedVector, distributionGrid, vectorsPerThread } from "../../src/index.ts";

const sizes = fc.record({
  threads: fc.constantFrom(32, 64, 96, 128, 256),
  extent: fc.tuple(fc.integer({ min: 1, max: 40 }), fc.integer({ min: 1, max: 40 })),
  fastest: fc.constantFrom<0 | 1>(0, 1),
  pieces: fc.constantFrom(1, 2, 3, 4, 8),
});

test("each element is moved once, by a thread of the block, whatever pieces it has", () => {
  fc.assert(
    fc.property(sizes, ({ threads, extent, fastest, pieces }) => {
      const dist = distribute(threads, extent, fastest, 1, 4, pieces);
      expect(threads % dist.along).toBe(0);
      const { innerSteps, outerSteps } = distributionGrid(dist, extent);
      const seen = new Set<string>();
      for (let thread = 0; thread < threads; thread++)
        for (let i = 0; i < innerSteps; i++)
          for (let o = 0; o < outerSteps; o++) {
            const at = distributedVector(dist, extent, thread, [i, o]);
            if (at === null) continue;
            expect(seen.has(at.join())).toBe(false);
            seen.add(at.join());
          }
      expect(seen.size).toBe(extent[0] * extent[1]);
    }),
    { numRuns: 150 },
  );
});

test("pieces cost no step, and are as many as asked where rows and threads have them", () => {
  fc.assert(
    fc.property(sizes, ({ threads, extent, fastest, pieces }) => {
      const [plain, interleaved] = [1, pieces].map((p) => distribute(threads, extent, fastest, 1, 4, p));
      if (plain === undefined || interleaved === undefined) throw new Error("two distributions");
      expect(vectorsPerThread(interleaved, extent)).toBeLessThanOrEqual(vectorsPerThread(plain, extent));
      expect(interleaved.along).toBeLessThanOrEqual(plain.along);
    }),
    { numRuns: 150 },
  );
  const along = (extent: readonly [number, number], vector: number, pieces: number): number =>
    distribute(128, extent, 1, vector, 4, pieces).along;
  // Rows of 8 elements are one sector, which 8 threads bring together; of rows of 32 each may have 4.
  expect([1, 2, 4, 8].map((p) => along([128, 8], 1, p))).toEqual([8, 8, 8, 8]);
  expect([1, 2, 4, 8].map((p) => along([128, 32], 1, p))).toEqual([32, 16, 8, 8]);
  // One of 8 rows and 128 columns by fours: a thread has two vectors, so no more than two of a row.
  expect([1, 2, 8].map((p) => along([8, 128], 4, p))).toEqual([32, 16, 16]);
});
