/** Copies of several pieces of a row by one pointer: what becomes of the main loop's pointers, and of the numbers. */
import { expect, test } from "vitest";
import { problemOf, targetOf } from "./support/cases.ts";
import { emulated } from "./support/emulated.ts";

const { compile, run } = emulated(targetOf("sm_80"));
/** Copies of 16 bytes, two of each operand for a thread and chunk. */
const layouts = { a: { layout: "col" }, b: { layout: "row" } } as const;
const base = "tile=128x128x8 thread=16x8 copy=cp.async registerPrefetch=off stages=3 copySpread=4";

const problemWith = (m: number, n: number, k: number) => problemOf({ m, n, k, dtype: "f32", ...layouts });

/** Bytes within which two copies of a thread are of one row: rows of the matrices are 16 KiB apart, those of a tile 512 bytes. */
const NEAR = 1024;

test("one pointer serves the copies of a row", () => {
  const pointers = (pieces: number): number => {
    const { ptx } = compile(problemWith(4096, 4096, 4096), `${base} vectorsPerThread=${pieces}`);
    const sources = [...ptx.matchAll(/cp\.async\S* \[[^\]]*\], \[%\w+(\+\d+)?\]/g)].map(([, at]) =>
      Math.floor(Number(at ?? 0) / NEAR),
    );
    return new Set(sources).size;
  };
  // A thread has no more than two vectors of a row.
  expect([2, 8].map((pieces) => pointers(1) / pointers(pieces))).toEqual([2, 2]);
});

test("the bits are the same, by however many pieces", () => {
  const by = (pieces: number) => run(problemWith(132, 140, 45), `${base} vectorsPerThread=${pieces}`);
  const plain = by(1);
  for (const pieces of [2, 8]) expect(by(pieces)).toEqual(plain);
});
