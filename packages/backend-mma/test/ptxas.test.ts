/** Default schedules through ptxas: no spills, no serialisation, on every architecture that the backend serves. */
import { assemble, build, hasPtxas, problemOf, targetOf } from "@tilewright/conformance";
import { describe, expect, test } from "vitest";
import { mma } from "../src/backend.ts";

const slow = process.env.TILEWRIGHT_SLOW === "1";
const archs = ["sm_75", "sm_80", "sm_86", "sm_89", "sm_90", "sm_90a", "sm_120a"] as const;
const types: readonly { readonly dtype: string; readonly acc?: string; readonly precision?: string }[] = [
  { dtype: "f16" },
  { dtype: "bf16" },
  { dtype: "f16", acc: "f16" },
  { dtype: "tf32" },
  { dtype: "s8" },
  { dtype: "e4m3" },
  { dtype: "f64" },
  { dtype: "f32", precision: "3xtf32" },
];
const layouts = [
  ["row", "col"],
  ["row", "row"],
  ["col", "row"],
  ["col", "col"],
] as const;
const sizes = [
  [4096, 4096, 4096],
  [16, 4096, 4096],
  [4095, 333, 1001],
] as const;

/** All of them when slow; by default each dtype once on each architecture, layouts and sizes in turn. */
const cases = archs.flatMap((arch, i) =>
  types.flatMap((type, j) =>
    layouts.flatMap(([a, b], l) =>
      sizes.flatMap(([m, n, k], s) =>
        slow || ((i + j) % layouts.length === l && (i * 2 + j) % sizes.length === s)
          ? [{ arch, m, n, k, ...type, a: { layout: a }, b: { layout: b } }]
          : [],
      ),
    ),
  ),
);

describe.skipIf(!hasPtxas)("defaults", () => {
  test.each(cases)("$dtype $m x $n x $k, $arch, $a.layout $b.layout", ({ arch, ...request }) => {
    const problem = problemOf(request);
    const target = targetOf(arch);
    if (!mma.accepts(problem, target).ok) {
      expect(`${request.dtype} ${arch}`).toMatch(/^e4m3 sm_8[06]$|^(bf16|tf32|f32|e4m3|f64) sm_75$/);
      return;
    }
    expect(assemble(build(mma, problem, target).kernel.ptx, arch).faults).toEqual([]);
  });
});
