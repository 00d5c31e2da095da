/** Texts that the compiler takes back, and edits of earlier stages that were taken once, each for its class: it refuses them by name. */
import { problemOf, targetOf } from "@tilewright/conformance";
import { createCompiler } from "@tilewright/ir";
import { expect, test } from "vitest";
import { tcgen05 } from "../src/index.ts";

const target = targetOf("sm_100a");
const compiler = createCompiler({ backends: [tcgen05] });

test.each([
  [
    "an accumulator is handed over before its products",
    "specialised",
    { m: 128, n: 64, k: 64, a: { dtype: "bf16" }, b: { dtype: "bf16" } },
    "tile=128x64x64 ctaGroup=1 stages=2 sched=persistent accumulators=2",
    /( +for %kt = 0 \.\. 1 \{\n)([\s\S]*?\n {6}\}\n)( +commit %sums @ %vt\n)/,
    "$1$3$2",
    "TW3117",
  ],
  [
    "a box begins inside 16 bytes",
    "pipelined",
    { m: 64, n: 64, k: 64, a: { dtype: "bf16" }, b: { dtype: "bf16" } },
    "tile=128x32x64 ctaGroup=1 stages=2 sched=tiles accumulators=1",
    /%nt \* 32 : 32\] transport tma/,
    "%nt * 33 : 32] transport tma",
    "TW3164",
  ],
  [
    "elements of 6 bits in half of a box",
    "pipelined",
    { m: 128, n: 128, k: 128, a: { dtype: "e2m3" }, b: { dtype: "e2m3", layout: "col" } },
    "tile=128x64x128 ctaGroup=1 stages=2 sched=tiles accumulators=1",
    /swizzle=128B/,
    "swizzle=64B",
    "TW3164",
  ],
  [
    "gaps between words of factors",
    "bound",
    { m: 256, n: 128, k: 512, a: { dtype: "nvf4" }, b: { dtype: "nvf4", layout: "col" } },
    "tile=256x128x256 ctaGroup=2 stages=2 sched=tiles accumulators=1",
    /panels<1,128,128>/,
    "panels<1,64,128>",
    "TW3164",
  ],
  [
    "more arrivals than an mbarrier counts",
    "bound",
    { m: 128, n: 64, k: 64, a: { dtype: "bf16" }, b: { dtype: "bf16" } },
    "tile=128x64x64 ctaGroup=1 stages=2 sched=tiles accumulators=1",
    /(ring %ring .* empty mbarrier):1\b/,
    "$1:1048576",
    "TW3135",
  ],
])("%s", (_what, stage, input, schedule, from, to, code) => {
  const made = compiler.compile({ problem: problemOf(input), target, schedule });
  if (!made.ok) throw new Error(JSON.stringify(made.error));
  const text = made.value.textAt(stage as "pipelined") ?? "";
  const edited = text.replace(from, to);
  expect(edited).not.toBe(text);
  const again = compiler.compile({ from: edited, target });
  expect(again.ok ? [] : again.error.map((found) => found.code)).toContain(code);
});

test("products of a split tile overwrite sums at the start of each part, however many chunks the launch gives it", () => {
  const b = { dtype: "bf16", layout: "col" };
  const problem = problemOf({
    ...{ m: 512, n: 256, k: 1024, a: { dtype: "bf16" }, b },
    symbolic: { k: { multiple: 8 } },
  });
  const schedule = "ctaGroup=2 tile=256x128x64 accumulators=1 sched=tiles stages=2 epi=direct split=4";
  const made = compiler.compile({ problem, target, schedule });
  if (!made.ok) throw new Error(JSON.stringify(made.error));
  const again = compiler.compile({ from: made.value.textAt("machine") ?? "", target });
  expect(again.ok ? again.value.ptx : again.error).toBe(made.value.ptx);
});
