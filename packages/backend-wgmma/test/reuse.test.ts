/** A factor that two products of a loop's turn read, in one stage: copied once, read by rows and by columns. */
import { handEditsOf, must, targetOf } from "@tilewright/conformance";
import { attentionText, createCompiler, readAttention } from "@tilewright/ir";
import { expect, test } from "vitest";
import { wgmma } from "../src/backend.ts";

const target = targetOf("sm_90a");
const schedule =
  "tile=64x128x64 warpgroups=1x2 stages=2 chainTile=64x64 regs=24/240 epi=direct reuseStages=on";
const fields = { queries: 1, keys: 384, headDim: 160, valueDim: 96, heads: 4, kvHeads: 1, dtype: "bf16" };
const textOf = (more: object = {}): string =>
  attentionText(must(readAttention({ op: "attention", ...fields, latent: true, ...more })));
const compiler = createCompiler({ backends: [wgmma] });

test.each([
  ["on", 1, 1],
  ["off", 0, 2],
] as const)("reuseStages=%s", (reuse, exchanged, copies) => {
  const given = schedule.replace("reuseStages=on", `reuseStages=${reuse}`);
  const made = must(compiler.compile({ from: textOf(), schedule: given, target }));
  const text = made.textAt("machine") ?? "";
  expect(text.match(/mma .* exchanged/g) ?? []).toHaveLength(exchanged);
  expect(text.match(/copy %s(B|E0)\[/g)).toHaveLength(copies);
  // Behind the weights alone: in front of them reductions through shared memory have met.
  expect(text.match(/barrier 13$/gm)).toHaveLength(1);
});

test("a V of its own, and keys that are no parts, have nothing to read again", () => {
  for (const more of [{ latent: false }, { keys: 40 }]) {
    const made = compiler.compile({ from: textOf(more), schedule, target });
    expect(made.ok ? "made" : made.error[0]?.message).toMatch(/no schedule for products/);
  }
});

test("CTAs that have parts of the keys compare their number where the last part is shorter: the proof tries the first and the last", () => {
  const given = `${schedule} sched=tiles split=2`;
  const made = must(compiler.compile({ from: textOf({ keys: 270 }), schedule: given, target }));
  const text = made.textAt("machine") ?? "";
  expect(text).toMatch(/if .*%cut/);
  expect(must(compiler.compile({ from: text, target })).ptx).toBe(made.ptx);
});

test("V lies in the rows of K", () => {
  const wrong = textOf().replace("of %K", "of %Q");
  const made = compiler.compile({ from: wrong, target });
  expect(made.ok ? "made" : made.error[0]?.message).toBe("%V does not lie in the rows of %Q");
});

handEditsOf(
  wgmma,
  "a stage that two products read",
  { from: textOf(), schedule, target },
  [
    {
      what: "the stage is given back before the later product has read it",
      change: { kind: "move", line: /mbar\.arrive %ring_empty/, by: -1 },
      code: "TW3144",
      line: /copy %sB/,
      ptx: /./,
      emulator: /^H035/,
    },
    {
      what: "the later product reads its factor by rows",
      change: { kind: "replace", line: /exchanged/, from: / exchanged/, to: "" },
      code: "TW3102",
      line: /mma %acc/,
      ptx: null,
      emulator: null,
    },
  ],
  { numSms: 1 },
);
