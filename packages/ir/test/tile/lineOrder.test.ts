import fc from "fast-check";
import { expect, test } from "vitest";
import { linesInOrder } from "../../src/index.ts";
import { parseLineOrder, printLineOrder } from "../../src/tile/lineOrder.ts";

const orders = fc.record({ kind: fc.constantFrom("up", "down", "flip"), from: fc.nat(40) });

test("every order takes every line once", () => {
  fc.assert(
    fc.property(orders, fc.nat(40), (order, count) => {
      expect([...linesInOrder(count, order)].sort((a, b) => a - b)).toEqual(
        Array.from({ length: count }, (_, i) => i),
      );
    }),
  );
});

test("what is printed reads back, and other words do not", () => {
  fc.assert(
    fc.property(orders, (order) => {
      expect(parseLineOrder(printLineOrder(order))).toEqual(order);
    }),
  );
  for (const text of ["", "sideways", "up:", "flip:-1", "down:1.5", "up:4 "])
    expect(parseLineOrder(text)).toBeNull();
});

test("fours are flipped, and the start wraps", () => {
  expect(linesInOrder(8, { kind: "flip", from: 0 })).toEqual([3, 2, 1, 0, 7, 6, 5, 4]);
  expect(linesInOrder(6, { kind: "flip", from: 1 })).toEqual([2, 1, 0, 5, 4, 3]);
  expect(linesInOrder(4, { kind: "down", from: 5 })).toEqual([2, 1, 0, 3]);
});
