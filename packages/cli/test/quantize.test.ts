/** Outputs that are quantised as they are stored, on all backends: numbers, scales where the next product looks for them, and what is refused. */
import { blockFactors, defineProblem, findTarget, operandStrides, quantizeOf } from "@tilewright/core";
import { parseSchedule, servingGated } from "@tilewright/ir";
import { describe, expect, test } from "vitest";
import { compiler } from "../src/compiler.ts";
import { cli } from "./harness.ts";

const usual = ["--dtype", "bf16", "--b-layout", "col", "--device", "emulator", "--json"];
const problems = [
  [
    "rows of a product",
    [
      "-m",
      "100",
      "-n",
      "256",
      "-k",
      "64",
      "--d-dtype",
      "e4m3",
      "--epilogue",
      "silu(acc * s[n]) | quantize(128,f32)",
    ],
  ],
  [
    "a batch in s8, scales row by row",
    [
      "-m",
      "33",
      "-n",
      "64",
      "-k",
      "64",
      "--batch",
      "2",
      "--d-dtype",
      "s8",
      "--epilogue",
      "quantize(64,f32:row)",
    ],
  ],
  [
    "gated experts",
    [
      "--op",
      "ffn",
      "--experts",
      "3",
      "-m",
      "70",
      "-n",
      "64",
      "-k",
      "64",
      "--d-dtype",
      "e4m3",
      "--epilogue",
      "silu(acc) * up | quantize(64,f32)",
    ],
  ],
] as const;

describe.each(["sm_70", "sm_80", "sm_90a", "sm_100a"])("%s", (arch) => {
  test.each(problems)("%s", async (_, flags) => {
    const { code, stdout } = await cli(["run", ...flags, ...usual, "--arch", arch]);
    expect(JSON.parse(stdout)).toMatchObject({ ok: true, hazards: [] });
    expect(code).toBe(0);
  });
});

test("scales lie as the factors of a block-scaled A", () => {
  const [m, n] = [96, 512];
  const made = defineProblem({
    m,
    n,
    k: 64,
    dtype: "bf16",
    d: { dtype: "e4m3" },
    epilogue: "quantize(128,f32)",
  });
  const next = defineProblem({
    m,
    n: 128,
    k: n,
    dtype: "e4m3",
    b: { layout: "col" },
    blockScales: { a: "1x128", b: "128x128" },
  });
  if (!made.ok || !next.ok) throw new TypeError("two problems");
  const found = quantizeOf(made.value);
  const factors = blockFactors(next.value, "a");
  expect(found && operandStrides(found.step.operand)).toEqual(factors?.strides);
  expect(found?.step.operand.dtype).toBe("f32");
});

test("what cannot be quantised is refused, every reason at once", async () => {
  const bad = [
    "-m",
    "64",
    "-n",
    "96",
    "-k",
    "64",
    "--d-dtype",
    "bf16",
    "--epilogue",
    "quantize(128,f16)|relu",
  ];
  const { code, stdout } = await cli(["run", ...bad, ...usual]);
  expect(code).toBe(2);
  const places = JSON.parse(stdout).diagnostics.map(({ at }: { at: string }) => at);
  expect(places).toEqual(["epilogue[0]", "d.dtype", "epilogue[0].group", "epilogue[0].operand.dtype"]);
});

test("a schedule whose warps have parts of groups is refused with the nearest way out", async () => {
  const problem = [
    "-m",
    "64",
    "-n",
    "128",
    "-k",
    "64",
    "--d-dtype",
    "e4m3",
    "--epilogue",
    "quantize(128,f32)",
  ];
  const { code, stdout } = await cli([
    "run",
    ...problem,
    ...usual,
    "--arch",
    "sm_90a",
    "--backend",
    "wgmma",
    "--schedule",
    "tile=128x64x64",
  ]);
  expect([code, JSON.parse(stdout).diagnostics[0].code]).toEqual([3, "TW1909"]);
});

test("a backend without a schedule for it says what keeps the nearest one from it", () => {
  const mma = compiler.backends.find(({ id }) => id === "mma");
  const target = findTarget("sm_80");
  const problem = defineProblem({
    ...{ m: 128, n: 128, k: 64, dtype: "bf16", d: { dtype: "e4m3" }, epilogue: "quantize(128,f32)" },
    b: { layout: "col" },
  });
  if (mma === undefined || !target.ok || !problem.ok) throw new TypeError("the test's problem is none");
  const schedule = parseSchedule(mma.schedule, "tile=128x64x32");
  if (!schedule.ok) throw new TypeError("the test's schedule is none");
  const some = servingGated({ ...mma, schedules: () => [schedule.value] });
  expect(some.accepts(problem.value, target.value)).toMatchObject({
    error: [
      {
        code: "TW1909",
        message:
          "a quantised output: no schedule of this backend makes it: its tiles have 64 columns of D, no whole groups of 128",
      },
    ],
  });
  const none = servingGated({ ...mma, schedules: () => [] });
  expect(none.accepts(problem.value, target.value)).toMatchObject({
    error: [{ message: "a quantised output: no schedule of this backend makes it: there is none" }],
  });
});
