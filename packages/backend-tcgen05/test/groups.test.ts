/** Persistent CTAs that go through a list of tiles of several problems. */
import { checkCase, problemOf, scheduleOf, targetOf } from "@tilewright/conformance";
import { createCompiler, printProgram } from "@tilewright/ir";
import { openDevice } from "@tilewright/runtime";
import { describe, expect, test } from "vitest";
import { tcgen05 } from "../src/index.ts";

test("accumulators that share columns change places from tile to tile of a list", async () => {
  const problem = problemOf({ m: 700, n: 72, k: 72, dtype: "f16", experts: 3 });
  // Two SMs: each CTA has several tiles, of more than one expert.
  const emulator = await openDevice({ kind: "emulator", arch: "sm_100a", numSms: 2 });
  if (!emulator.ok) throw new Error("the emulator is always there");
  const schedule = scheduleOf(
    tcgen05,
    "tile=128x64x64 ctaGroup=1 stages=2 sched=persistent accumulators=2 overlappedColumns=32 loadColumns=16 epi=direct",
  );
  const subject = { problem, schedule, target: targetOf("sm_100a"), seed: 5 };
  expect(checkCase(tcgen05, subject, { emulator: emulator.value })).toEqual([]);
  emulator.value.close();
});

test.each([
  ["tile=256x128x128 stages=2 sched=persistent accumulators=2", { dtype: "mxf8" }],
  [
    "tile=128x128x128 ctaGroup=1 stages=2 accumulators=1 cluster=2x1",
    { dtype: "mxf8", expertRows: "counts" },
  ],
  ["tile=256x256x128 ctaGroup=2 stages=2 accumulators=1", { dtype: "mxf4" }],
  ["tile=512x128x64 stages=2 accumulators=1", { dtype: "nvf4" }],
  ["tile=128x128x64 ctaGroup=1 stages=2 cluster=1x2 accumulators=1", { dtype: "nvf4" }],
  [
    "tile=128x128x64 ctaGroup=1 stages=3 accumulators=2",
    { dtype: "nvf4", m: 384, symbolic: { m: { multiple: 128 } } },
  ],
] as const)("scales at blocks of each expert's own: %s, %j", async (text, more) => {
  // Few SMs: CTAs go from expert to expert.
  const emulator = await openDevice({ kind: "emulator", arch: "sm_100a", numSms: 4 });
  if (!emulator.ok) throw new Error("the emulator is always there");
  const subject = {
    problem: problemOf({
      m: 420,
      n: 200,
      k: 160,
      b: { layout: "col" },
      d: { dtype: "bf16" },
      experts: 4,
      ...more,
    }),
    schedule: scheduleOf(tcgen05, text),
    target: targetOf("sm_100a"),
    seed: 3,
  };
  expect(checkCase(tcgen05, subject, { emulator: emulator.value, seeds: 1 })).toEqual([]);
  emulator.value.close();
});

describe("rows of A that an index names", () => {
  const request = { m: 300, n: 96, k: 200, dtype: "bf16", experts: 3, gather: 150 } as const;

  const compileWith = (text: string, fields: Parameters<typeof problemOf>[0] = request) =>
    createCompiler({ backends: [tcgen05] }).compile({
      problem: problemOf(fields),
      schedule: scheduleOf(tcgen05, text),
      target: targetOf("sm_100a"),
    });

  test.each([
    "tile=128x64x64 ctaGroup=1 stages=2",
    "tile=256x64x64 stages=2",
    "tile=512x32x64 stages=2 accumulators=1",
    "tile=128x96x128 ctaGroup=1 stages=2",
    "tile=128x64x16 ctaGroup=1 stages=3 swizzle=32B",
    "tile=256x64x64 stages=2 cluster=1x2",
    "tile=16x128x64 ctaGroup=1 stages=2 swapAB=on loadColumns=16",
    "tile=32x256x64 stages=2 swapAB=on",
    "tile=64x128x64 ctaGroup=1 stages=2 swapAB=on epi=direct",
  ])("%s", async (text) => {
    const emulator = await openDevice({ kind: "emulator", arch: "sm_100a", numSms: 4 });
    if (!emulator.ok) throw new Error("the emulator is always there");
    const subject = {
      problem: problemOf(request),
      schedule: scheduleOf(tcgen05, text),
      target: targetOf("sm_100a"),
      seed: 3,
    };
    expect(checkCase(tcgen05, subject, { emulator: emulator.value, seeds: 1 })).toEqual([]);
    emulator.value.close();
  });

  test("one map for all experts, whose box is a row; each lane copies four rows, and one thread does all else", () => {
    const made = compileWith("tile=512x32x64 stages=2 accumulators=1");
    if (!made.ok) throw new Error("a kernel");
    const { manifest, ptx, program } = made.value;
    const maps = (manifest.kernels[0]?.params ?? []).flatMap((p) =>
      p.kind === "tensorMap" && p.tensorMap.operand === "a" ? [[p.tensorMap.dims, p.tensorMap.box]] : [],
    );
    expect(maps).toEqual([
      [
        [200, 150],
        [64, 1],
      ],
    ]);
    // Where one lane runs the role, 124 rows of 128 would not come.
    const alone = printProgram(program).replace("elected gathers", "elected");
    const edited = createCompiler({ backends: [tcgen05] }).compile({
      from: alone,
      target: targetOf("sm_100a"),
    });
    expect(edited.ok ? [] : edited.error.map(({ code }) => code)).toEqual(["TW3169"]);
    expect(printProgram(program).match(/tensormap\.make .*/g)).toEqual([expect.stringContaining("%D ")]);
    // Of a CTA's 256 rows 128 are those of one instruction of a warp; B's box and the barrier's bytes are the elected thread's.
    expect(ptx.match(/^.*tile::gather4.*$/gm)).toHaveLength(2);
    const others = ptx.match(/^.*(?:tile\.mbarrier|expect_tx).*$/gm) ?? [];
    expect(others).toHaveLength(2);
    for (const line of others) expect(line).toMatch(/^\s*@%p\d+ /);
  });

  test("what is refused: rows of 16 bytes", () => {
    const made = compileWith("tile=128x64x64 ctaGroup=1 stages=2 swizzle=none");
    expect(made.ok ? [] : made.error.map(({ code }) => code)).toEqual(["TW2438", "TW1906"]);
    const odd = compileWith("tile=128x64x64 ctaGroup=1 stages=2", {
      ...request,
      m: 1,
      k: 203,
      b: { layout: "row" },
    });
    expect(odd.ok ? [] : odd.error.map(({ code, message }) => [code, message])).toEqual([
      ["TW1835", expect.stringContaining("rows of A are 406 bytes apart")],
    ]);
  });
});
