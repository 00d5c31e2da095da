/** Text form of layouts: `(128,8):(1,132) swizzle<3,4,3>`. */
import type { Checked } from "../diagnostics.ts";
import { err, ok } from "../ids.ts";
import { swizzleFault } from "./swizzle.ts";
import type { Layout, Swizzle } from "./types.ts";

export const printSwizzle = (swizzle: Swizzle): string =>
  `swizzle<${swizzle.bits},${swizzle.base},${swizzle.shift}>`;

/** `(shape):(stride)` and, where there is one, the swizzle. */
export function printLayout(layout: Layout): string {
  const text = `(${layout.shape.join(",")}):(${layout.stride.join(",")})`;
  return layout.swizzle === null ? text : `${text} ${printSwizzle(layout.swizzle)}`;
}

const list = String.raw`\(\s*(\d+(?:\s*,\s*\d+)*)\s*\)`;
const pattern = new RegExp(
  String.raw`^\s*${list}\s*:\s*${list}\s*(?:swizzle\s*<\s*(\d+)\s*,\s*(\d+)\s*,\s*(\d+)\s*>)?\s*$`,
);

/**
 * As much of a text as is meant for a layout, well formed or not: how parsers of texts that hold layouts (tile programs) find where one
 * ends. Sticky; the layout and its swizzle stand on one line.
 */
export const layoutExtent =
  /\([^()\n]*\)\s*:\s*\([^()\n]*\)(?:[^\S\n]*swizzle\s*(?:<[^<>()\n]*>|\([^<>()\n]*\)))?/y;

/** The inverse of `printLayout`; spaces are free. Errors: TW1401. */
export function parseLayout(text: string): Checked<Layout> {
  const fail = (message: string, hint: string) =>
    err([{ code: "TW1401", kind: "invalid", at: "layout", message, hint } as const]);
  const match = pattern.exec(text);
  if (!match)
    return fail(
      `'${text}' is not a layout`,
      "write (rows,columns):(stride,stride), e.g. (128,8):(1,132) swizzle<3,4,3>",
    );
  const numbers = (group: number) => (match[group] ?? "").split(",").map(Number);
  const shape = numbers(1);
  const stride = numbers(2);
  if (shape.length !== stride.length)
    return fail(`${shape.length} extents but ${stride.length} strides`, "give one stride for each extent");
  if (shape.includes(0)) return fail("an extent of 0", "extents are 1 or more");
  if (match[3] === undefined) return ok({ shape, stride, swizzle: null });
  const swizzle = { bits: Number(match[3]), base: Number(match[4]), shift: Number(match[5]) };
  const fault = swizzleFault(swizzle);
  return fault === null
    ? ok({ shape, stride, swizzle })
    : fail(fault, "the 128-byte swizzle is swizzle<3,4,3>");
}
