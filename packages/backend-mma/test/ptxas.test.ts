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

  const sizes = { m: {}, n: {}, k: {} };
  const withBias = [
    { kind: "bias", along: "n", dtype: "f32" },
    { kind: "activation", fn: "gelu" },
  ] as const;
  test.each([
    { arch: "sm_80", m: 4096, n: 4096, k: 4096, dtype: "f16", symbolic: sizes },
    { arch: "sm_90", m: 4096, n: 4096, k: 4096, dtype: "bf16", batch: { kind: "grouped", count: 4 } },
    { arch: "sm_86", m: 4095, n: 4093, k: 1021, dtype: "bf16", a: { layout: "col" }, b: { layout: "col" } },
    { arch: "sm_90", m: 4102, n: 4096, k: 4100, dtype: "bf16", epilogue: withBias },
    { arch: "sm_80", m: 4102, n: 4096, k: 4100, dtype: "bf16", a: { layout: "col" }, epilogue: withBias },
    { arch: "sm_90", m: 4096, n: 4096, k: 4096, dtype: "bf16", b: { layout: "row" }, epilogue: withBias },
    { arch: "sm_86", m: 1023, n: 1025, k: 1027, dtype: "tf32", b: { layout: "row" } },
    { arch: "sm_90", m: 96, n: 4096, k: 4096, dtype: "e4m3", a: { layout: "col" } },
    { arch: "sm_120a", m: 4095, n: 333, k: 993, dtype: "mxf8", epilogue: withBias },
    { arch: "sm_120a", m: 4096, n: 4096, k: 4096, dtype: "mxf4", b: { layout: "col" } },
    { arch: "sm_120a", m: 4095, n: 333, k: 1008, dtype: "nvf4", b: { layout: "col" }, epilogue: withBias },
  ] as const)("copies one by one or guarded, and epilogues: %j", ({ arch, ...request }) => {
    expect(assemble(build(mma, problemOf(request), targetOf(arch)).kernel.ptx, arch).faults).toEqual([]);
  });
});
