/** First schedules through ptxas: of forward attention of each form of parts those that have the fewest registers left, and of experts whose outputs integer arithmetic rounds to 8 bits. */
import { assemble, hasPtxas, must, problemOf, targetOf } from "@tilewright/conformance";
import { attentionText, createCompiler, readAttention } from "@tilewright/ir";
import { expect, test } from "vitest";
import { mma } from "../src/index.ts";

const compiler = createCompiler({ backends: [mma] });
const alibi = { alibi: true, causal: true } as const;
const cases = [
  ["sm_90", 8190, 128, {}],
  ["sm_120a", 8190, 128, {}],
  ["sm_90", 8192, 128, { causal: true }],
  ["sm_90", 8192, 128, alibi],
  ["sm_90", 8192, 128, { bias: "qs" }],
  ["sm_90", 8192, 128, { bias: "hqs", causal: true }],
  ["sm_90", 8190, 128, { ...alibi, softCap: 30 }],
  ["sm_90", 8190, 128, { ...alibi, offsets: "both", batch: 4 }],
  ["sm_80", 8192, 128, { offsets: "keys", batch: 4 }],
  ["sm_90", 8192, 96, {}],
  ["sm_120a", 8190, 96, alibi],
  ["sm_90", 8192, 64, { causal: true, pageSize: 64, batch: 2 }],
  ["sm_120a", 8192, 64, {}],
  ["sm_90", 8190, 48, { causal: true }],
] as const;

test.skipIf(!hasPtxas).each(cases)(
  "no spills of attention for %s, %i queries and keys, head dim %i: %j",
  (arch, length, headDim, fields) => {
    const sizes = { queries: length, keys: length, heads: 16, headDim, dtype: "f16" };
    const from = attentionText(must(readAttention({ op: "attention", ...sizes, ...fields })));
    const { ptx, schedule } = must(compiler.compile({ from, target: targetOf(arch), verify: "none" }));
    expect(schedule).toMatch(/ warp=32x.* chainTile=\d/);
    expect(assemble(ptx, arch).faults).toEqual([]);
  },
);

test("few rows of many problems are tiles of 64 rows", () => {
  const few = { queries: 1, keys: 8192, heads: 64, kvHeads: 8, headDim: 128, batch: 64, dtype: "bf16" };
  const from = attentionText(must(readAttention({ op: "attention", ...few })));
  const { schedule } = must(compiler.compile({ from, target: targetOf("sm_90"), verify: "none" }));
  expect(schedule).toMatch(/^tile=64x128x128 warp=16x128/);
});

test.skipIf(!hasPtxas).each([
  [4096, 4096, 128],
  [8192, 28672, 16],
  [8192, 28672, 128],
  [16384, 16384, 32],
])("no spills of weights in e2m1 at 128 rows, %i x %i in groups of %i", (n, k, group) => {
  const problem = problemOf({ m: 128, n, k, dtype: "bf16", weights: { dtype: "e2m1", group } });
  const { ptx } = must(compiler.compile({ problem, target: targetOf("sm_80"), verify: "none" }));
  expect(assemble(ptx, "sm_80").faults).toEqual([]);
});

test.skipIf(!hasPtxas).each(["mxf8", "mxf4", "nvf4"])("no spills of experts of %s", (dtype) => {
  const problem = problemOf({
    ...{ m: 32768, n: 4096, k: 7168, dtype, b: { layout: "col" }, d: { dtype: "bf16" }, experts: 8 },
  });
  const { ptx } = must(compiler.compile({ problem, target: targetOf("sm_120a"), verify: "none" }));
  expect(assemble(ptx, "sm_120a").faults).toEqual([]);
});

test.skipIf(!hasPtxas).each(["mxf8", "mxf8e5m2"])("no spills of experts with outputs in %s", (dtype) => {
  const problem = problemOf({
    ...{ m: 32768, n: 4096, k: 7168, dtype: "bf16", b: { layout: "col" }, d: { dtype } },
    ...{ experts: 8, epilogue: "quantize(32,u8)" },
  });
  const { ptx, schedule } = must(compiler.compile({ problem, target: targetOf("sm_80"), verify: "none" }));
  expect(schedule).toContain("tile=128x256x64 warp=64x64");
  expect(assemble(ptx, "sm_80").faults).toEqual([]);
});
