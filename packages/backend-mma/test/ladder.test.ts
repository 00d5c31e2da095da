/** The ladders: each rung changes what the one before lacks, and shows in the text. And every field by itself does something. */
import {
  assemble,
  build,
  fileCheck,
  hasPtxas,
  must,
  problemOf,
  scheduleOf,
  targetOf,
} from "@tilewright/conformance";
import { defineProblem, type Problem, type Schedule } from "@tilewright/core";
import {
  attentionText,
  createCompiler,
  defaultSchedule,
  ladderSchedules,
  readAttention,
} from "@tilewright/ir";
import { describe, expect, test } from "vitest";
import { mma } from "../src/backend.ts";
import { ladders } from "../src/ladders.ts";

const target = targetOf("sm_80");

/** Chosen lines of the rungs of `hgemm`. */
const lines: Readonly<Record<string, string>> = {
  direct: `
    NOT: ldmatrix
    CHECK: loop_kt:
    CHECK: ld.global.v4.b32
    CHECK: st.shared.v4.b32
    CHECK: bar.sync 0;
    CHECK: ld.shared.b32
    CHECK: ld.shared.u16
    CHECK: mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32
    CHECK: bra loop_kt;
    CHECK: st.global.u16`,
  ldmatrix: `
    CHECK: loop_kt:
    CHECK: ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%fA_0
    CHECK: ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%fB_0
    NOT: ld.shared
    CHECK: bra loop_kt;`,
  swizzle: `
    CHECK: xor.b32
    CHECK: loop_kt:
    CHECK: ldmatrix.sync.aligned.m8n8.x4.shared.b16`,
  multistage: `
    CHECK: cp.async.commit_group;
    CHECK: cp.async.commit_group;
    CHECK: loop_kt:
    CHECK: cp.async.wait_group 1;
    NEXT: bar.sync 0;
    NOT: st.shared
    CHECK: bra loop_kt;`,
  pipelined: `
    CHECK: cp.async.wait_group 1;
    CHECK: ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%fA_0
    CHECK: loop_kt:
    CHECK: ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%fA_16
    CHECK: mma.sync.aligned
    CHECK: cp.async.wait_group 1;
    CHECK: ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%fA_0
    CHECK: mma.sync.aligned
    CHECK: bra loop_kt;`,
  spread: `
    CHECK: loop_kt:
    CHECK: cp.async.cg.shared.global
    CHECK: mma.sync.aligned
    CHECK: cp.async.cg.shared.global
    CHECK: cp.async.commit_group;
    CHECK: mma.sync.aligned
    CHECK: bra loop_kt;`,
  snake: `
    CHECK: mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%acc_28
    NEXT: mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%acc_60`,
  stores: `
    CHECK: bra loop_kt;
    CHECK: cvt.rn.f16x2.f32
    NOT: st.global.u16
    COUNT-64: st.global.b32`,
  raster: `
    CHECK: %ctaid.x
    CHECK: loop_kt:`,
};

const problemFor = (request: object, [m, n, k]: readonly [number, number, number]): Problem => {
  const made = defineProblem({ ...request, m, n, k });
  if (!made.ok) throw new Error("no problem");
  return made.value;
};

describe.each(ladders.map((ladder) => [ladder.name, ladder] as const))("%s", (name, ladder) => {
  const target = targetOf(ladder.needs === undefined ? "sm_80" : "sm_90");
  const schedules = ladderSchedules(mma.schedule, ladder);
  const rungs = schedules.ok
    ? ladder.steps.map((step, i) => ({ ...step, schedule: schedules.value[i] ?? {} }))
    : [];
  test.each(rungs)("$name", ({ name: rung, schedule }) => {
    const large = problemFor(ladder.request, ladder.sizes.gpu);
    expect(mma.check(large, schedule, target)).toEqual([]);
    const problem = problemFor(ladder.request, ladder.sizes.emulator);
    expect(mma.check(problem, schedule, target)).toEqual([]);
    const { kernel } = build(mma, problem, target, schedule);
    if (name === "hgemm")
      fileCheck(
        build(mma, large, target, schedule).kernel.ptx,
        lines[rung] ?? "CHECK: no lines for this rung",
      );
    if (hasPtxas) expect(assemble(kernel.ptx, target.arch).faults).toEqual([]);
  });

  test("each rung changes the kernel", () => {
    const problem = problemFor(ladder.request, ladder.sizes.gpu);
    const texts = rungs.map(({ schedule }) => build(mma, problem, target, schedule).kernel.ptx);
    expect(new Set(texts).size).toBe(texts.length);
  });
});

describe("every optimisation is switchable by itself", () => {
  const problem = problemOf({ m: 4096, n: 4096, k: 4096, dtype: "f16", b: { layout: "col" } });
  const base = defaultSchedule(mma.schedule);
  const text = (schedule: Schedule, on = target): string => build(mma, problem, on, schedule).kernel.ptx;
  /** A setting other than the default, for fields whose default is off. */
  const on: Readonly<Record<string, string>> = {
    copySpread: "copySpread=2",
    registerPrefetch: "copy=direct registerPrefetch=on stages=2 tile=128x128x32 warp=64x32",
    drain: "drain=1",
    refill: "refill=barrier",
    firstOperand: "firstOperand=b",
    epi: "epi=smem",
    cache: "cache=d:evict_last",
    l2PrefetchBytes: "l2PrefetchBytes=128",
    l1: "l1=skip",
    split: "split=2",
    streamk: "streamk=108 frag=1",
    reduction: "split=2 reduction=kernel",
  };
  const off: Readonly<Record<string, string>> = Object.fromEntries(
    mma.schedule.fields.flatMap((field) =>
      field.off === null ? [] : [[field.name, `${field.name}=${field.print(field.off)}`]],
    ),
  );
  // A single stage has nothing to load fragments ahead from.
  const with_: Readonly<Record<string, string>> = { stages: "stages=1 frag=1" };
  test("sched", () => {
    const [tiles, persistent] = ["tiles", "persistent"].map((sched) =>
      text(scheduleOf(mma, `copy=tma frag=1 sched=${sched}`), targetOf("sm_90")),
    );
    expect(tiles).not.toContain("%nctaid.x");
    expect(persistent).toContain("%nctaid.x");
  });
  test("parts of a staged tile that end inside a matrix store take words", () => {
    const along = problemOf({ m: 96, n: 96, k: 32, dtype: "f16", d: { layout: "col" } });
    const made = (warp: string): string => {
      const schedule = scheduleOf(
        mma,
        `tile=96x32x16 warp=${warp} stages=1 copy=direct frag=1 epi=smem storeElements=2`,
      );
      expect(mma.check(along, schedule, targetOf("sm_90"))).toEqual([]);
      return build(mma, along, targetOf("sm_90"), schedule).kernel.ptx;
    };
    expect(made("48x32")).toContain("stmatrix");
    expect(made("48x16")).not.toContain("stmatrix");
  });
  test("firstLevelK", () => {
    const parts = problemOf({
      m: 4096,
      n: 4096,
      k: 4096,
      dtype: "f32",
      precision: "3xtf32",
      b: { layout: "col" },
    });
    const [once, twice] = [8, 16].map((sum) => {
      const schedule = scheduleOf(mma, `tile=128x64x32 warp=64x32 frag=1 firstLevelK=${sum}`);
      return build(mma, parts, target, schedule).kernel.ptx.match(/add\.(?:rn\.)?f32/g)?.length ?? 0;
    });
    expect(once).toBeGreaterThan(1.5 * (twice ?? 0));
    expect(twice).toBeGreaterThan(0);
  });
  test("l2Promotion", () => {
    const promoted = scheduleOf(mma, "copy=tma frag=1 l2Promotion=64");
    const { params } = build(mma, problem, targetOf("sm_90"), promoted).kernel.kernel;
    expect(params.flatMap((p) => (p.kind === "tensorMap" ? [p.tensorMap.l2] : []))).toEqual(["64B", "64B"]);
  });
  test("conditionalRescale", () => {
    const from = attentionText(
      must(readAttention({ op: "attention", queries: 128, keys: 384, headDim: 64, dtype: "bf16" })),
    );
    const [never, voted] = ["off", "on"].map((value) => {
      const schedule = `tile=64x64x64 warp=16x64 conditionalRescale=${value}`;
      return must(createCompiler({ backends: [mma] }).compile({ from, schedule, target })).ptx;
    });
    expect(never).not.toContain("vote.sync");
    expect(voted).toContain("vote.sync.any.pred");
  });
  test.each([
    ["chainTile", "none", "64x64"],
    ["spreadMaps", "off", "on"],
  ])("%s", (name, off, on) => {
    const from = attentionText(
      must(readAttention({ op: "attention", queries: 128, keys: 384, headDim: 128, dtype: "bf16" })),
    );
    const [without, other] = [off, on].map((value) => {
      const schedule = `tile=64x128x128 warp=16x128 stages=2 frag=1 ${name}=${value}`;
      return must(createCompiler({ backends: [mma] }).compile({ from, schedule, target })).ptx;
    });
    expect(without).not.toEqual(other);
  });

  const ownTest = ["sched", "l2Promotion", "firstLevelK", "conditionalRescale", "chainTile", "spreadMaps"];
  test.each(Object.keys(off).filter((name) => !ownTest.includes(name)))("%s", (name) => {
    const setting = on[name] ?? with_[name] ?? off[name] ?? "";
    const other = scheduleOf(mma, setting);
    expect(other[name]).not.toEqual(base[name]);
    expect(mma.check(problem, other, target)).toEqual([]);
    // Predicates that can be elided need a tile that may leave its matrix.
    if (name !== "guards") expect(text(other)).not.toBe(text(base));
    else expect(text(other)).toContain("setp");
  });
});

test("bytes across come by ldmatrix and are taken apart, in all layouts", () => {
  for (const a of ["row", "col"])
    for (const b of ["row", "col"]) {
      const problem = problemOf({
        m: 2048,
        n: 2048,
        k: 2048,
        dtype: "s8",
        a: { layout: a },
        b: { layout: b },
      });
      const { ptx } = build(mma, problem, target).kernel;
      expect(ptx).not.toContain("ld.shared");
      expect(ptx.includes(".trans")).toBe(a === "col" || b === "row");
      expect(ptx.includes("prmt.b32")).toBe(a === "col" || b === "row");
    }
});

test("the text does not depend on what was compiled before", () => {
  const problem = problemOf({ m: 256, n: 256, k: 128, dtype: "f16" });
  const first = build(mma, problem, target).kernel.ptx;
  build(mma, problem, target, scheduleOf(mma, "ldmatrix=off"));
  expect(build(mma, problem, target).kernel.ptx).toBe(first);
});
