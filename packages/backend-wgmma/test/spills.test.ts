/** First schedules of attention through ptxas: requests that have the fewest registers left beside sums of 64 and 128 columns. */
import { assemble, hasPtxas, must, targetOf } from "@tilewright/conformance";
import { attentionText, createCompiler, readAttention } from "@tilewright/ir";
import { expect, test } from "vitest";
import { wgmma } from "../src/backend.ts";

const compiler = createCompiler({ backends: [wgmma] });
const cases = [
  [64, "tile=192x64x64", { causal: true, lse: true }],
  [64, "tile=192x64x64", { causal: "top-left", softCap: 30 }],
  [64, "tile=128x64x64", { causal: true, window: 500 }],
  [64, "tile=128x64x64", { causal: true, alibi: true }],
  [64, "tile=128x64x64", { causal: true, offsets: "keys", batch: 2 }],
  [64, "tile=64x64x64", { queries: 64, heads: 1, backward: "kv" }],
  [128, "tile=128x128x128", { causal: true, alibi: true }],
  [128, "tile=128x128x128", { causal: true, window: 500 }],
  [128, "regs=56/224", { causal: true, lse: true, layout: "bshd", batch: 2, pageSize: 8 }],
] as const;

test.skipIf(!hasPtxas).each(cases)("no spills of attention, head dim %i, %s: %j", (headDim, tile, fields) => {
  const request = {
    op: "attention",
    queries: 8192,
    keys: 8192,
    heads: 16,
    headDim,
    dtype: "bf16",
    ...fields,
  };
  const from = attentionText(must(readAttention(request)));
  const { ptx, schedule } = must(compiler.compile({ from, target: targetOf("sm_90a"), verify: "none" }));
  expect(schedule).toContain(tile);
  expect(assemble(ptx, "sm_90a").faults).toEqual([]);
});
