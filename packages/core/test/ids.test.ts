import { expect, test } from "vitest";
import { bytes, elements } from "../src/ids.ts";

test("a byte count is a non-negative integer", () => {
  expect(bytes(16)).toBe(16);
  expect(() => bytes(-1)).toThrow("not a byte count: -1");
  expect(() => elements(0.5)).toThrow("not an element count: 0.5");
});
