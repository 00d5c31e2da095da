/** Several products of a turn that are issued together, and hand edits of the waits for them. */
import { handEditsOf, must, targetOf } from "@tilewright/conformance";
import { attentionText, createCompiler, readAttention } from "@tilewright/ir";
import { expect, test } from "vitest";
import { wgmma } from "../src/backend.ts";

const target = targetOf("sm_90a");
const textOf = (backward: "q" | "kv", keys = 128): string =>
  attentionText(
    must(readAttention({ op: "attention", queries: 128, keys, headDim: 128, dtype: "bf16", backward })),
  );
const scheduleOf = (pipelineProducts: "on" | "off"): string =>
  `tile=64x128x128 chainTile=32x32 warpgroups=1x1 stages=2 regs=24/240 pipelineProducts=${pipelineProducts}`;

test.each([
  // P is computed while dP is multiplied, and dV and dK are one after the other.
  ["kv", "on", ["1", "0", "1", "0"]],
  ["kv", "off", ["0", "0", "0", "0"]],
  // S and dP of the next part run beside the product of this one.
  ["q", "on", ["1", "0", "2", "1", "0", "0"]],
  ["q", "off", ["0", "0", "0"]],
] as const)("waits of the launch of %s with pipelineProducts=%s", (backward, pipeline, waits) => {
  const compiler = createCompiler({ backends: [wgmma] });
  const made = must(compiler.compile({ from: textOf(backward), schedule: scheduleOf(pipeline), target }));
  const found = [...(made.textAt("machine") ?? "").matchAll(/wgmma\.wait pending (\d)/g)];
  expect(found.map(([, pending]) => pending)).toEqual(waits);
});

test.each([
  ["on", ["map %E2_ahead", "map %E3_ahead", "wgmma.fence", "map %S"]],
  ["off", ["wgmma.fence", "map %S"]],
] as const)("what a part reads of each query with loadVectorsAhead=%s", (prefetch, order) => {
  const compiler = createCompiler({ backends: [wgmma] });
  const schedule = `${scheduleOf("on")} loadVectorsAhead=${prefetch}`;
  const made = must(compiler.compile({ from: textOf("kv"), schedule, target }));
  const loop = (made.textAt("machine") ?? "").split("for %qt = ").at(-1) ?? "";
  const found = [...loop.matchAll(/map %(?:S|E\w+)|wgmma\.fence/g)].map(([text]) => text);
  expect(found.filter((text, i) => found.indexOf(text) === i).slice(0, order.length)).toEqual(order);
  // Neighbours come together, and no part leaves the axis: no load has a guard.
  expect(made.ptx.match(/ld\.global\.v2\.f32/g)).toHaveLength(8);
  expect(made.ptx).not.toMatch(/@%p\d+ ld\.global/);
});

test.each([
  // Both factors come once, and their stages are given back in their own turn.
  ["kv", 2, ["%sE0T[slot %c_ring2] exchanged", "%sB[slot %c_ring] exchanged"], 2],
  // The stage of this part is read behind the wait for that of the next one.
  ["q", 3, ["%sB[slot %g_ring] exchanged", "%sB[slot %g_ring] exchanged"], 2],
  // Of a single stage the product stays in its own turn.
  ["q", 1, ["%sB[slot %c_ring] exchanged"], 2],
] as const)("a factor that a later product of %s reads, in %i stages", (backward, stages, read, copies) => {
  const compiler = createCompiler({ backends: [wgmma] });
  const schedule = `${scheduleOf("on").replace("stages=2", `stages=${stages}`)} reuseStages=on`;
  const text = must(compiler.compile({ from: textOf(backward), schedule, target })).textAt("machine") ?? "";
  const found = [...text.matchAll(/\* (%\w+\[slot %\w+\] exchanged)/g)].map(([, view]) => view);
  expect(found).toEqual(read);
  expect(text.match(/copy %s\w+\[.*%[qs]t \* 32/g)).toHaveLength(copies);
});

test("of keys of one part, whose loop has no turn, the text reads back: a slot has a name in the loop of its wait alone", () => {
  const compiler = createCompiler({ backends: [wgmma] });
  const schedule = `${scheduleOf("on").replace("stages=2", "stages=3")} reuseStages=on`;
  const made = must(compiler.compile({ from: textOf("q", 32), schedule, target }));
  const text = made.textAt("machine") ?? "";
  expect(text).toContain("exchanged");
  expect(must(compiler.compile({ from: text, target })).ptx).toBe(made.ptx);
});

handEditsOf(
  wgmma,
  "a stage that is read behind the wait for the next one",
  {
    from: textOf("q"),
    schedule: `${scheduleOf("on").replace("stages=2", "stages=3")} reuseStages=on`,
    target,
  },
  [
    {
      what: "the stage is given back while the later product reads it",
      change: { kind: "move", line: /mbar\.arrive %ring_empty/, nth: 0, by: -1 },
      code: "TW3144",
      line: /copy %sB/,
      ptx: /./,
      emulator: /^H035/,
    },
    {
      what: "the later product reads the stage behind that of the next part",
      change: { kind: "replace", line: /mma %acc .*exchanged/, nth: 0, from: /%g_ring/, to: "%c_ring" },
      code: "TW3157",
      line: /mma %acc/,
      ptx: /./,
      emulator: /^H/,
    },
  ],
  { numSms: 1 },
);

handEditsOf(
  wgmma,
  "products that are issued together",
  { from: textOf("kv"), schedule: scheduleOf("on"), target },
  [
    {
      what: "the first sums are read while their product runs",
      change: { kind: "drop", line: /wgmma\.wait pending 1/, nth: 0 },
      code: "TW3157",
      line: /map %S/,
      ptx: /^-.*wgmma\.wait_group/,
      emulator: /^H/,
    },
  ],
  { numSms: 1 },
);
