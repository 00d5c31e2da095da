/** Outputs that are quantised as they are stored, on all backends: numbers, scales where the next product looks for them, and what is refused. */
import {
  blockFactors,
  bytesOfStorage,
  defineProblem,
  encodeArray,
  findTarget,
  operandStrides,
  type Problem,
  type ProblemRequest,
  quantizeOf,
  readElement,
  referenceGemm,
  storageFromBytes,
} from "@tilewright/core";
import { parseSchedule, servingGated } from "@tilewright/ir";
import { openDevice, runGemm } from "@tilewright/runtime";
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
    "mxf8",
    [
      ...["-m", "40", "-n", "128", "-k", "32", "--d-dtype", "mxf8"],
      ...["--epilogue", "silu(acc + b[n]) | quantize(32,u8)"],
    ],
  ],
  [
    "nvf4 with a factor of the tensor",
    [
      ...["-m", "33", "-n", "64", "-k", "64", "--batch", "2", "--d-dtype", "nvf4"],
      ...["--epilogue", "acc * g[scalar] | quantize(16,u8)"],
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
  [
    "gated experts in mxf8",
    [
      ...["--op", "ffn", "--experts", "3", "-m", "150", "-n", "128", "-k", "64", "--rows", "7,7,140"],
      ...["--d-dtype", "mxf8", "--epilogue", "acc | quantize(32,u8)"],
    ],
  ],
  [
    "experts by counts in nvf4",
    [
      ...[
        "--experts",
        "3",
        "--expert-rows",
        "counts",
        "-m",
        "40",
        "-n",
        "64",
        "-k",
        "64",
        "--rows",
        "33,0,40",
      ],
      ...["--d-dtype", "nvf4", "--epilogue", "acc * w[m] * g[scalar] | quantize(16,u8)"],
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

describe.each([
  ["sm_100a", "mxf8", 32, 128],
  ["sm_100a", "nvf4", 16, 64],
  ["sm_120a", "mxf8", 32, 128],
  ["sm_120a", "nvf4", 16, 128],
] as const)("%s: D in %s is A of the next product", (arch, dtype, block, n) => {
  test("with its scales as they lie", async () => {
    const problemOf = (request: ProblemRequest): Problem => {
      const made = defineProblem(request);
      if (!made.ok) throw new TypeError(JSON.stringify(made.error));
      return made.value;
    };
    const [m, k, g] = [dtype === "mxf8" ? 150 : 40, 32, 0.25];
    const epilogue = `acc * g[scalar] | quantize(${block},u8)`;
    const b = { layout: "col" } as const;
    const first = problemOf({ m, n, k, dtype: "bf16", b, d: { dtype }, epilogue });
    // What was multiplied by a factor before it was quantised is divided by it behind the product.
    const next = problemOf({ m, n: 32, k: n, dtype, b, d: { dtype: "f32" }, alpha: 1 / g });
    const device = await openDevice({ kind: "emulator", arch });
    const target = findTarget(arch);
    if (!device.ok || !target.ok) throw new TypeError("there is an emulator of each target");
    const run = (problem: Problem, inputs: Parameters<typeof runGemm>[2]) => {
      const compiled = compiler.compile({ problem, target: target.value });
      if (!compiled.ok) throw new TypeError(JSON.stringify(compiled.error));
      const ran = runGemm(device.value, compiled.value, inputs);
      if (!ran.ok) throw new TypeError(JSON.stringify(ran.error));
      expect(ran.value.findings).toEqual([]);
      return ran.value;
    };
    const wave = (count: number, step: number) =>
      Float64Array.from({ length: count }, (_, i) => Math.sin(step * i));
    const [a, w] = [encodeArray("bf16", wave(m * k, 0.7)), encodeArray("bf16", wave(n * k, 1.3))];
    const { d, steps } = run(first, { a: bytesOfStorage(a), b: bytesOfStorage(w), steps: [g] });
    const ones = encodeArray(dtype, new Float64Array(32 * n).fill(1));
    const factors = new Uint8Array(512 * Math.ceil(n / block / 4)).fill(dtype === "nvf4" ? 0x38 : 127);
    const sums = run(next, { a: d, sfa: steps.get(1) ?? null, b: bytesOfStorage(ones), sfb: factors });
    // Each column of the second product is the sum of a row of the first one.
    const { values } = referenceGemm(first, { a, b: w, steps: [1, null] }, {}).steps.get(1) ?? {};
    expect(values).toHaveLength((m * n) / block);
    const plain = referenceGemm(problemOf({ m, n, k, dtype: "bf16", b, d: { dtype: "f32" } }), { a, b: w }).d
      .values;
    const out = storageFromBytes("f32", sums.d, m * 32);
    for (let row = 0; row < m; row++) {
      const line = plain.subarray(row * n, (row + 1) * n);
      const [sum, size] = [line.reduce((x, y) => x + y, 0), line.reduce((x, y) => x + Math.abs(y), 0)];
      const error = Math.abs(readElement("f32", out, row * 32 + (row % 32)) - sum);
      expect(error).toBeLessThan((dtype === "nvf4" ? 0.12 : 0.04) * size);
    }
    device.value.close();
  });
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
