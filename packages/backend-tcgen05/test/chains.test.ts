/** Hand edits of a chain of two products: what the multiplying role and the threads of the epilogue hand each other. */
import { readFileSync } from "node:fs";
import { type HandEdit, handEditsOf } from "@tilewright/conformance";
import { findTarget } from "@tilewright/core";
import { attentionText, createCompiler, printProgram, readAttention } from "@tilewright/ir";
import { assert, expect, test } from "vitest";
import { tcgen05 } from "../src/index.ts";

const stuck = /^H0(20|30)/;

/** Of a factor in either memory. */
const inEither: readonly HandEdit[] = [
  {
    what: "lanes of a warp write a factor when one of them has arrived for all",
    change: { kind: "drop", line: /warp\.sync/, nth: 1 },
    code: "TW3153",
    line: /mbar\.arrive %factors_full/,
    ptx: /^-.*bar\.warp\.sync/,
    emulator: null,
  },
  {
    what: "a factor is multiplied before it is there",
    change: { kind: "drop", line: /mbar\.wait %factors_full/ },
    code: "TW3157",
    line: /mma %tacc/,
    ptx: /./,
    emulator: /^[HD]/,
  },
];

const edits: readonly HandEdit[] = [
  ...inEither,
  {
    what: "a factor is handed over behind no fence",
    change: { kind: "drop", line: /fence async/ },
    code: "TW3146",
    line: /mma %tacc/,
    ptx: /^-.*fence\.proxy\.async/,
    emulator: /^H03/,
  },
  {
    what: "nobody is told of a factor",
    change: { kind: "drop", line: /mbar\.arrive %factors_full/ },
    code: "TW3145",
    line: /mbar\.wait %(factors|products1)_full/,
    ptx: /mbarrier\.arrive|mad\.lo|elect|^[+-]$/,
    emulator: stuck,
  },
  {
    what: "a factor is kept by the products",
    change: { kind: "drop", line: /tcgen05\.commit %factors_empty/ },
    code: "TW3144",
    line: /ring %factors/,
    ptx: /tcgen05\.commit|mad\.lo/,
    // A work tile has one.
    emulator: null,
  },
  {
    what: "the second product adds to what stood there",
    change: { kind: "replace", line: /mma %tacc/, from: / keep .*$/, to: "" },
    code: "TW3158",
    line: /mma %tacc/,
    ptx: /./,
    emulator: /^[HD]/,
  },
];

const target = findTarget("sm_100a");
if (!target.ok) throw new Error("sm_100a is known");
const from = readFileSync(new URL("../../../examples/two-products.tile", import.meta.url), "utf8");
const schedule = (chainOperand: string): string =>
  `tile=64x128x64 ctaGroup=1 stages=2 chainOperand=${chainOperand} accumulators=1 sched=tiles storeStages=1`;
const request = { from, target: target.value };
handEditsOf(tcgen05, "a chain of two products", { ...request, schedule: schedule("shared") }, edits, {
  numSms: 1,
});

/** Of a factor in tensor memory. */
const inTensor: readonly HandEdit[] = [
  ...inEither,
  {
    what: "a factor is stored before products of the one before it are known to be done",
    change: { kind: "drop", line: /fence tensor-after/, nth: 2 },
    code: "TW3147",
    line: /copy %tQ/,
    ptx: /^-.*tcgen05\.fence::after/,
    emulator: null,
  },
  {
    what: "a factor is handed over behind no fence",
    change: { kind: "drop", line: /fence tensor-before/, nth: 2 },
    // Lanes whose stores are not fenced have not met.
    code: "TW3153",
    line: /mbar\.arrive %factors_full/,
    ptx: /^-.*tcgen05\.fence::before/,
    emulator: /^H085/,
  },
];
handEditsOf(
  tcgen05,
  "a chain of two products with its factor in tensor memory",
  { ...request, schedule: schedule("tensor") },
  inTensor,
  { numSms: 1 },
);

/** Of sums that products and correction warps write by turns. */
const inTurn: readonly HandEdit[] = [
  {
    what: "sums are scaled while products may still be added",
    change: { kind: "drop", line: /mbar\.wait %products1_full/ },
    code: "TW3157",
    line: /copy %columns <- %tacc|mbar\.arrive %products1_empty/,
    ptx: /./,
    emulator: /^[HD]/,
  },
  {
    what: "nobody is told that sums are scaled",
    change: { kind: "drop", line: /mbar\.arrive %products1_empty/ },
    code: "TW3145",
    line: /mbar\.wait %products1_(full|empty)/,
    ptx: /./,
    emulator: stuck,
  },
  {
    what: "products are added before sums are scaled",
    change: { kind: "drop", line: /mbar\.wait %products1_empty/ },
    code: "TW3157",
    line: /mma %tacc/,
    ptx: /./,
    emulator: /^[HD]/,
  },
  {
    what: "sums are handed back behind no fence",
    change: { kind: "drop", line: /fence tensor-before/, nth: 3 },
    code: "TW3153",
    line: /mbar\.arrive %products1_empty/,
    ptx: /^-.*tcgen05\.fence::before/,
    emulator: /^H085/,
  },
  {
    what: "sums are stored elsewhere than they were loaded from",
    change: { kind: "replace", line: /copy %tacc/, from: /0 : 128, 0/, to: "0 : 128, 16" },
    code: "TW3166",
    line: /vote/,
    ptx: null,
    emulator: null,
  },
  {
    what: "the first products add to what stood there",
    change: { kind: "replace", line: /mma %tacc/, from: / keep .*$/, to: "" },
    code: "TW3158",
    line: /mma %tacc/,
    ptx: /./,
    emulator: /^[HD]/,
  },
];
handEditsOf(
  tcgen05,
  "a chain of two products with its sums in tensor memory",
  {
    from: readFileSync(new URL("../../../examples/online-softmax.tile", import.meta.url), "utf8"),
    target: target.value,
    schedule:
      "tile=128x64x64 ctaGroup=1 stages=2 chainTile=64x64 chainOperand=tensor pipelineProducts=on correctionWarps=on accumulators=1 sched=tiles storeStages=1",
  },
  inTurn,
  { numSms: 1 },
);

/** Of two groups of rows, whose sums one role scales. */
const inBoth: readonly HandEdit[] = [
  {
    what: "sums of the second group are scaled while products may still be added",
    change: { kind: "drop", line: /mbar\.wait %products3_full/ },
    code: "TW3157",
    line: /copy %columns1 <- %tacc_1|mbar\.arrive %products3_empty/,
    ptx: /./,
    // Products of the first group, which it waits for, take longer.
    emulator: null,
  },
  {
    what: "nobody is told that sums of the second group are scaled",
    change: { kind: "drop", line: /mbar\.arrive %products3_empty/ },
    code: "TW3145",
    line: /mbar\.wait %products3_(full|empty)/,
    ptx: /./,
    emulator: stuck,
  },
  {
    what: "the second group's sums are scaled where the first one's factors say so",
    change: { kind: "replace", line: /vote %rz_1/, from: /%rz_1/, to: "%rz" },
    code: "TW3166",
    line: /vote/,
    ptx: null,
    emulator: null,
  },
];
handEditsOf(
  tcgen05,
  "two groups of rows with their sums in tensor memory",
  {
    from: readFileSync(new URL("../../../examples/online-softmax.tile", import.meta.url), "utf8"),
    target: target.value,
    schedule:
      "tile=256x64x64 ctaGroup=1 stages=2 chainTile=32x32 chainOperand=tensor pipelineProducts=on rowGroups=2 correctionWarps=on accumulators=1 sched=tiles storeStages=1 epi=direct",
  },
  inBoth,
  { numSms: 1 },
);

test("of bounds that depend on the tile, products of the first turn are those that overwrite, in the text too", () => {
  const attention = readAttention({
    op: "attention",
    queries: 140,
    keys: 390,
    headDim: 128,
    heads: 1,
    dtype: "bf16",
    causal: true,
  });
  assert(attention.ok && target.ok, JSON.stringify(attention));
  const compiler = createCompiler({ backends: [tcgen05] });
  const made = compiler.compile({
    from: attentionText(attention.value),
    target: target.value,
    schedule:
      "tile=128x128x64 ctaGroup=1 stages=2 chainTile=128x64 chainOperand=tensor pipelineProducts=on correctionWarps=on accumulators=1 sched=tiles storeStages=1 epi=direct",
  });
  assert(made.ok, JSON.stringify(made));
  const step = made.value.trace.findLast(({ program }) => program.stage === "specialised");
  assert(step !== undefined);
  const text = printProgram(step.program);
  const again = compiler.compile({ from: text, target: target.value });
  assert(again.ok, JSON.stringify(again));
  expect(again.value.ptx).toBe(made.value.ptx);
  // A turn later nothing has overwritten what stood there.
  const rest = / rest \{[\s\S]*?mma %tacc.* keep %st \+ %stt - 1 != 0/;
  const late = text.replace(rest, (found) => found.replace(/- 1 != 0$/, "- 2 != 0"));
  assert(late !== text);
  const refused = compiler.compile({ from: late, target: target.value });
  assert(!refused.ok);
  expect(refused.error.map(({ code }) => code)).toContain("TW3158");
});
