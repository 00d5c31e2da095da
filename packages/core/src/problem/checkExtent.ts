/** Extents of dimensions: positive integers that indices of 32 bits reach. */
import type { Diagnostic } from "../diagnostics.ts";
import { invalid, problemCodes } from "./codes.ts";

/** Indices of a dimension are 32-bit in kernels and tensor maps. */
export const maxExtent = 2 ** 31 - 1;

/** Whether a number is an extent. */
export const isExtent = (value: number): boolean =>
  Number.isInteger(value) && value >= 1 && value <= maxExtent;

/** A positive integer of at most `maxExtent`, or why not. */
export function checkExtent(name: string, value: number): Diagnostic[] {
  if (value > maxExtent)
    return [invalid(problemCodes.tooLarge, name, `${value} is too large`, `use at most ${maxExtent}`)];
  if (isExtent(value)) return [];
  const legal = Number.isFinite(value) ? Math.max(1, Math.round(value)) : 1;
  return [
    invalid(
      problemCodes.size,
      name,
      `must be a positive integer, not ${value}`,
      `the nearest legal value is ${legal}`,
    ),
  ];
}
