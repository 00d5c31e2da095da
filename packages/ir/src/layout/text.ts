/** Text form of layouts: `(128,8):(1,132) swizzle<3,4,3>`, `(128,128):(64,1) panels<1,64,8192> swizzle<3,4,3>`, `(64,128):(1,64) interleaved<1,4,2048>`. */
import type { Checked } from "@tilewright/core";
import { err, ok } from "@tilewright/core";
import { interleavedFault, panelsFault } from "./layout.ts";
import { swizzleFault } from "./swizzle.ts";
import type { Interleaved, Layout, Panels, Swizzle } from "./types.ts";

export const printSwizzle = (swizzle: Swizzle): string =>
  `swizzle<${swizzle.bits},${swizzle.base},${swizzle.shift}>`;

const printPanels = (p: Panels): string => `panels<${p.axis},${p.extent},${p.step}>`;

const printInterleaved = (d: Interleaved): string => `interleaved<${d.axis},${d.runs},${d.step}>`;

/** `(shape):(stride)` and, where there are any, the panels (axis, extent, step), the interleaved axis (axis, turns, step) and the swizzle. */
export function printLayout(layout: Layout): string {
  const plain = `(${layout.shape.join(",")}):(${layout.stride.join(",")})`;
  const { panels, interleaved, swizzle } = layout;
  return [
    plain,
    ...(panels === undefined ? [] : [printPanels(panels)]),
    ...(interleaved === undefined ? [] : [printInterleaved(interleaved)]),
    ...(swizzle === null ? [] : [printSwizzle(swizzle)]),
  ].join(" ");
}

const list = String.raw`\(\s*(\d+(?:\s*,\s*\d+)*)\s*\)`;
const pattern = new RegExp(
  String.raw`^\s*${list}\s*:\s*${list}\s*(?:panels\s*<\s*([01])\s*,\s*(\d+)\s*,\s*(\d+)\s*>)?\s*(?:interleaved\s*<\s*([01])\s*,\s*(\d+)\s*,\s*(\d+)\s*>)?\s*(?:swizzle\s*<\s*(\d+)\s*,\s*(\d+)\s*,\s*(\d+)\s*>)?\s*$`,
);

/**
 * As much of a text as is meant for a layout, well formed or not: how parsers of texts that hold layouts (tile programs) find where one
 * ends. Sticky; the layout and its swizzle stand on one line.
 */
export const layoutExtent =
  /\([^()\n]*\)\s*:\s*\([^()\n]*\)(?:[^\S\n]*panels\s*<[^<>()\n]*>)?(?:[^\S\n]*interleaved\s*<[^<>()\n]*>)?(?:[^\S\n]*swizzle\s*(?:<[^<>()\n]*>|\([^<>()\n]*\)))?/y;

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
  const panels =
    match[3] === undefined
      ? undefined
      : { axis: Number(match[3]) as 0 | 1, extent: Number(match[4]), step: Number(match[5]) };
  const interleaved =
    match[6] === undefined
      ? undefined
      : { axis: Number(match[6]) as 0 | 1, runs: Number(match[7]), step: Number(match[8]) };
  const swizzle =
    match[9] === undefined
      ? null
      : { bits: Number(match[9]), base: Number(match[10]), shift: Number(match[11]) };
  const layout: Layout = {
    shape,
    stride,
    swizzle,
    ...(panels === undefined ? {} : { panels }),
    ...(interleaved === undefined ? {} : { interleaved }),
  };
  if (panels !== undefined) {
    const fault = panelsFault(layout, panels);
    if (fault !== null) return fail(fault, "panels<AXIS,EXTENT,STEP>, for instance panels<1,64,8192>");
  }
  if (interleaved !== undefined) {
    const fault = interleavedFault(layout, interleaved);
    if (fault !== null) return fail(fault, "interleaved<AXIS,RUNS,STEP>, for instance interleaved<1,4,4096>");
  }
  const fault = swizzle === null ? null : swizzleFault(swizzle);
  return fault === null ? ok(layout) : fail(fault, "the 128-byte swizzle is swizzle<3,4,3>");
}
