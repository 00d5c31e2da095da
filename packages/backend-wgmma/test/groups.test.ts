/** Tensor maps of groups are made on the device: what the emulator says of kernels that leave out what makes the change seen. */
import { problemOf, scheduleOf, targetOf } from "@tilewright/conformance";
import { evaluateLaunchExpr } from "@tilewright/core";
import { createCompiler, printProgram } from "@tilewright/ir";
import { openDevice, runGroups } from "@tilewright/runtime";
import { expect, test } from "vitest";
import { wgmma } from "../src/backend.ts";

const whole = { multiple: 8, max: 128 };
const problem = problemOf({
  m: 64,
  n: 16,
  k: 64,
  dtype: "bf16",
  b: { layout: "col" },
  symbolic: { m: whole, n: whole, k: whole },
  batch: { kind: "grouped", count: 3 },
});

test.each([
  ["of A and B", "epi=direct", 2],
  ["of A, B and D", "epi=tma", 3],
])("maps %s are released and acquired before they are used", async (_name, epi, maps) => {
  const schedule = scheduleOf(wgmma, `tile=64x16x64 warpgroups=1x1 stages=2 ${epi}`);
  const made = createCompiler({ backends: [wgmma] }).compile({
    problem,
    target: targetOf("sm_90a"),
    schedule,
  });
  const device = await openDevice({ kind: "emulator", arch: "sm_90a" });
  if (!made.ok || !device.ok) throw new TypeError("a kernel and a device");
  const groups = [
    [64, 16, 64],
    [0, 8, 8],
    [72, 24, 128],
  ].map(([m = 0, n = 0, k = 0]) => ({
    sizes: { m, n, k },
    a: new Uint8Array(2 * m * k),
    b: new Uint8Array(2 * k * n),
  }));
  const rules = (ptx: string): readonly string[] => {
    const ran = runGroups(device.value, { ...made.value, ptx }, groups);
    if (!ran.ok) throw new TypeError("the kernel runs");
    return [...new Set(ran.value.findings.map(({ rule }) => rule))];
  };
  const { ptx } = made.value;
  const lines = ptx.split("\n");
  const fences = (what: string): readonly number[] =>
    lines.flatMap((line, i) => (line.includes(`fence.proxy.tensormap::generic.${what}`) ? [i] : []));
  expect(rules(ptx)).toEqual([]);
  // One release of the producer's maps, one of those of each warpgroup that stores.
  expect([fences("release").length, fences("acquire").length]).toEqual([maps - 1, maps]);
  for (const fence of [...fences("release"), ...fences("acquire")])
    expect([lines[fence], rules(lines.toSpliced(fence, 1).join("\n"))]).toEqual([
      lines[fence],
      expect.arrayContaining(["H052"]),
    ]);
  device.value.close();
});

test.each([
  ["no maps of A and B", /.*tensormap\.make %A.*\n/, ""],
  ["one place for maps of A and B", /(tensormap\.make %A.*)slots 3/, "$1slots 1"],
  ["maps of D over those of A and B", /(tensormap\.make %D.*)at 768/, "$1at 0"],
  ["CTAs write over each other's maps", /(tensormap.*)every 1024/g, "$1every 128"],
])(
  "a hand edit of the machine text, %s: TW3167, and its own PTX with --unproven",
  async (_name, from, to) => {
    const compiler = createCompiler({ backends: [wgmma] });
    const target = targetOf("sm_90a");
    const schedule = scheduleOf(wgmma, "tile=64x16x64 warpgroups=1x1 stages=2 epi=tma");
    const made = compiler.compile({ problem, target, schedule });
    if (!made.ok) throw new TypeError("a kernel");
    const text = printProgram(made.value.program);
    const edited = text.replace(from, to);
    expect(edited).not.toBe(text);
    const proven = compiler.compile({ from: edited, target });
    const unproven = compiler.compile({ from: edited, target, unproven: true });
    if (proven.ok || !unproven.ok) throw new TypeError("refused, unless unproven");
    expect(proven.error.map(({ code }) => code)).toEqual(proven.error.map(() => "TW3167"));
    const line = (proven.error[0]?.location?.line ?? 0) - 1;
    expect(edited.split("\n")[line]).toMatch(/^ +tiles/);
    expect(unproven.value.ptx).not.toBe(made.value.ptx);
  },
);

test.each([
  // 64 tiles of rows by 16 of columns: eight rounds of 132 CTAs, or of 128.
  ["offsets", 128, 128],
  // Experts of 4 rows may have a tile each, and counts are the launch's.
  ["offsets", 4, 132],
  ["counts", 128, 132],
] as const)("CTAs for experts by %s of whole %i rows: %i", (expertRows, multiple, blocks) => {
  const made = createCompiler({ backends: [wgmma] }).compile({
    problem: problemOf({
      ...{ m: 8192, n: 4096, k: 512, dtype: "bf16", b: { layout: "col" }, experts: 32, expertRows },
      symbolic: { m: { multiple } },
    }),
    target: targetOf("sm_90a"),
    schedule: scheduleOf(wgmma, "tile=128x256x64 warpgroups=2x1 stages=3"),
  });
  const [kernel] = made.ok ? made.value.manifest.kernels : [];
  const grid = kernel && evaluateLaunchExpr(kernel.launch.grid[0], { m: 8192, numSms: 132, batch: 32 });
  expect(grid).toEqual({ ok: true, value: blocks });
});

test("persistent CTAs of a batch: no more than there are SMs, each problem its share of them", () => {
  const sizes = { m: 1024, n: 512, k: 512, dtype: "bf16", batch: { kind: "strided", count: 50 } } as const;
  const made = createCompiler({ backends: [wgmma] }).compile({
    problem: problemOf({ ...sizes, b: { layout: "col" } }),
    target: targetOf("sm_90a"),
    schedule: scheduleOf(wgmma, "tile=128x256x64 warpgroups=2x1 sched=persistent batchGroup=0"),
  });
  const [kernel] = made.ok ? made.value.manifest.kernels : [];
  const along = kernel?.launch.grid.map((extent) => evaluateLaunchExpr(extent, { numSms: 132, batch: 50 }));
  // 16 tiles of each: 3 CTAs would take the 7 rounds that one list of 800 does, and be 150.
  expect(along).toEqual([2, 50, 1].map((value) => ({ ok: true, value })));
});

test("CTAs for experts along k, which have equally many tiles: as few as take the same rounds", () => {
  const sizes = { m: 2048, n: 7168, k: 512, experts: 8, expertAxis: "k", dtype: "bf16" } as const;
  const made = createCompiler({ backends: [wgmma] }).compile({
    problem: problemOf({ ...sizes, a: { layout: "col" } }),
    target: targetOf("sm_90a"),
    schedule: scheduleOf(wgmma, "tile=128x256x64"),
  });
  const [kernel] = made.ok ? made.value.manifest.kernels : [];
  // 8 x 448 tiles: 28 rounds.
  expect(kernel && evaluateLaunchExpr(kernel.launch.grid[0], { numSms: 132 })).toEqual({
    ok: true,
    value: 128,
  });
});

test.each([
  ["m", "tile=128x64x64", { a: 2, b: 3, d: 2 }, ["%A", "%D"]],
  ["k", "tile=128x64x64 stages=3 epilogueLoad=tma", { a: 2, b: 2, c: 3, d: 3 }, ["%A", "%B"]],
] as const)(
  "experts along %s: one map for what each has all of, maps of each for the rest",
  (axis, text, dims, made) => {
    const operands = { a: { layout: axis === "m" ? "row" : "col" }, d: { dtype: "f32" } } as const;
    const sizes = { m: 256, n: 64, k: 128, experts: 4, expertAxis: axis, dtype: "bf16" } as const;
    const problem = problemOf({ ...sizes, ...operands, beta: axis === "m" ? 0 : 1 });
    const target = targetOf("sm_90a");
    const kernel = createCompiler({ backends: [wgmma] }).compile({
      problem,
      target,
      schedule: scheduleOf(wgmma, text),
    });
    if (!kernel.ok) throw new TypeError("a kernel");
    const params = kernel.value.manifest.kernels[0]?.params ?? [];
    const maps = params.flatMap((p) =>
      p.kind === "tensorMap" ? [[p.tensorMap.operand, p.tensorMap.dims.length]] : [],
    );
    expect(Object.fromEntries(maps)).toEqual(dims);
    const lines = printProgram(kernel.value.program).match(/tensormap\.make .*/g) ?? [];
    expect(lines.flatMap((line) => line.match(/%\w+/g) ?? [])).toEqual(made);
  },
);

test.each([
  ["tile=128x64x64 copy=cp.async sched=tiles", ["TW2309"]],
  ["tile=256x64x64 copy=cp.async sched=tiles epi=direct regs=40/232", ["TW2331"]],
  ["tile=128x64x64 copy=cp.async epi=direct", ["TW2331"]],
  ["tile=128x64x64 epi=direct", ["TW2308"]],
  ["tile=128x64x64 copy=cp.async sched=tiles epi=direct", []],
])("experts whose rows an index names, by %s: %j", (text, codes) => {
  const experts = {
    m: 256,
    n: 64,
    k: 128,
    dtype: "bf16",
    b: { layout: "col" },
    experts: 4,
    gather: 90,
  } as const;
  const made = createCompiler({ backends: [wgmma] }).compile({
    problem: problemOf(experts),
    target: targetOf("sm_90a"),
    schedule: scheduleOf(wgmma, text),
  });
  expect(made.ok ? [] : made.error.map(({ code }) => code).filter((code) => code !== "TW1906")).toEqual(
    codes,
  );
});
