/** Hand edits of sums that warps leave unscaled where their factors are 1, while products are under way. */
import { handEditsOf, must, targetOf } from "@tilewright/conformance";
import { attentionText, readAttention } from "@tilewright/ir";
import { wgmma } from "../src/backend.ts";

const from = attentionText(
  must(readAttention({ op: "attention", queries: 128, keys: 384, headDim: 64, dtype: "bf16" })),
);
const schedule =
  "tile=128x64x64 warpgroups=2x1 stages=4 regs=24/240 pipelineProducts=on conditionalRescale=on";

handEditsOf(
  wgmma,
  "a voted multiplication",
  { from, schedule, target: targetOf("sm_90a") },
  [
    {
      what: "warps that multiply do not wait",
      change: { kind: "drop", line: /^ {10}wgmma\.wait/, nth: 1 },
      code: "TW3157",
      line: /map %acc = %acc\*%z/,
      ptx: /^-.*wgmma\.wait_group/,
      emulator: /^H/,
    },
    {
      // Of so few parts in each some row of a warp has a new maximum.
      what: "warps that do not multiply go on without a wait",
      change: { kind: "drop", line: /^ {10}wgmma\.wait/, nth: 2 },
      code: "TW3157",
      line: /map %P/,
      ptx: /^-.*wgmma\.wait_group/,
      emulator: null,
    },
    {
      what: "something else is left out",
      change: { kind: "replace", line: /map %acc = %acc\*%z/, from: /\*%z/, to: "+%z", nth: -1 },
      code: "TW3166",
      line: /vote %z/,
      ptx: null,
      emulator: null,
    },
  ],
  { numSms: 1 },
);
