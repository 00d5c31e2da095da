/** The ladder of optimisations: each rung changes what the one before lacks, and shows in the text. */

import { fileCheck } from "@tilewright/conformance";
import { type Schedule, sizeOf } from "@tilewright/core";
import { bankConflicts, byteOffset, ladderSchedules, type TileProgram, tileAccesses } from "@tilewright/ir";
import { describe, expect, test } from "vitest";
import { ladders } from "../src/ladders.ts";
import { scheduleModel } from "../src/schedule.ts";
import { assemble, build, hasPtxas, scheduleOf } from "./support/build.ts";
import { problemOf, targetOf } from "./support/cases.ts";

const problem = problemOf({ m: 256, n: 256, k: 64, dtype: "f32" });
const [ladder] = ladders;
const schedules = ladder ? ladderSchedules(scheduleModel, ladder) : null;
const rungs = new Map(
  ladder && schedules?.ok ? ladder.steps.map(({ name }, i) => [name, schedules.value[i] ?? {}]) : [],
);
const rungOf = (name: string): Schedule => {
  const schedule = rungs.get(name);
  if (!schedule) throw new Error(`no rung ${name}`);
  return schedule;
};

const checks: Readonly<Record<string, string>> = {
  naive: `
    NOT: .shared
    NOT: bar.sync
    CHECK: loop_kt:
    CHECK: ld.global.f32
    CHECK: ld.global.f32
    CHECK: fma.rn.f32 [[ACC:%acc_\\d+]], %fA_0, %fB_0, [[ACC]];
    CHECK: st.global.f32`,
  tiled: `
    CHECK: .extern .shared
    CHECK: loop_kt:
    CHECK: bar.sync 0;
    CHECK: st.shared.f32
    CHECK: bar.sync 0;
    CHECK: ld.shared.f32
    COUNT-8: fma.rn.f32
    CHECK: bra loop_kt;`,
  "register-tiled": `
    CHECK: loop_kt:
    COUNT-1024: fma.rn.f32
    COUNT-192: ld.shared.f32
    NOT: v4
    CHECK: bra loop_kt;`,
  vectorised: `
    CHECK: loop_kt:
    CHECK: ld.global.v4.f32
    COUNT-48: ld.shared.v4.f32
    COUNT-128: st.global.f32`,
  "conflict-free": `
    CHECK: loop_kt:
    CHECK: st.shared.f32 [[[ROW:%sb\\d+]]], [[X:%t\\d+]];
    NEXT: st.shared.f32 [[[ROW]]+528],
    NEXT: st.shared.f32 [[[ROW]]+1056],`,
  "double-buffered": `
    CHECK: loop_kt:
    CHECK: ld.global.v4.f32 {%rA_0
    CHECK: fma.rn.f32
    CHECK: st.shared.f32
    CHECK: fma.rn.f32
    CHECK: bar.sync 0;
    CHECK: ld.shared.v4.f32 {%fA_0
    CHECK: fma.rn.f32
    NOT: bar.sync
    CHECK: bra loop_kt;`,
  raster: `
    CHECK: mov.u32 [[BLOCK:%ctaid\\d*]], %ctaid.x;
    CHECK: loop_kt:
    CHECK: fma.rn.f32 %acc_7, %fA_0, %fB_7, %acc_7;
    NEXT: fma.rn.f32 %acc_8, %fA_1, %fB_0, %acc_8;`,
  snake: `
    CHECK: loop_kt:
    CHECK: fma.rn.f32 %acc_7, %fA_0, %fB_7, %acc_7;
    NEXT: fma.rn.f32 %acc_15, %fA_1, %fB_7, %acc_15;`,
  order: `
    CHECK: loop_kt:
    CHECK: setp.lt.s32
    CHECK: fma.rn.f32 %acc_28, %fB_4, %fA_3, %acc_28;`,
  drain: `
    CHECK: loop_kt:
    NOT: setp.lt.s32
    CHECK: bra loop_kt;
    CHECK: setp.lt.s32`,
  "stream-K": `
    CHECK: shares:
    CHECK: loop_kt:
    CHECK: atom.relaxed.gpu.global.add.u32
    CHECK: bra shares;`,
};

/** Wavefronts beyond the fewest possible, over the shared accesses of a program. */
function excess(program: TileProgram): number {
  return program.buffers
    .filter((b) => b.space === "shared")
    .flatMap((buffer) =>
      tileAccesses(program, buffer.name, sizeOf(buffer.dtype)).map(({ width, lanes }) => {
        const { layout } = buffer;
        if (!layout) throw new Error("bound buffers have layouts");
        const addresses = lanes.map((at) => at && byteOffset(layout, at, sizeOf(buffer.dtype)));
        return bankConflicts({ width, addresses }).excess;
      }),
    )
    .reduce((sum, x) => sum + x, 0);
}

describe("ladder", () => {
  const target = targetOf("sm_70");
  test("every rung has its lines", () => expect([...rungs.keys()]).toEqual(Object.keys(checks)));

  test.each(Object.keys(checks))("%s", (rung) => {
    const { kernel } = build(problem, rungOf(rung), target);
    fileCheck(kernel.ptx, checks[rung] ?? "");
    if (hasPtxas) expect(assemble(kernel.ptx, "sm_70").registers).toBeGreaterThan(0);
  });

  test("the conflict-free rung has no conflicts where the one below has", () => {
    expect(excess(build(problem, rungOf("vectorised"), target).program)).toBeGreaterThan(0);
    expect(excess(build(problem, rungOf("conflict-free"), target).program)).toBe(0);
  });

  test("cp.async replaces loads and stores where the target has it", () => {
    const schedule = scheduleOf("copy=cp.async registerPrefetch=off stages=4");
    const { kernel } = build(problem, schedule, targetOf("sm_80"));
    fileCheck(
      kernel.ptx,
      `
      CHECK: .target sm_80
      CHECK: cp.async.commit_group;
      CHECK: cp.async.commit_group;
      CHECK: cp.async.commit_group;
      CHECK: cp.async.wait_group 2;
      NEXT: bar.sync 0;
      CHECK: loop_kt:
      NOT: st.shared
      CHECK: cp.async.ca.shared.global [[[DST:%sa\\d+]]], [[[SRC:%run\\d+]]+96], 4;
      CHECK: cp.async.cg.shared.global
      CHECK: cp.async.wait_group 2;
      CHECK: bra loop_kt;`,
    );
  });

  test("the text does not depend on what was compiled before", () => {
    const first = build(problem, scheduleOf(""), target).kernel.ptx;
    build(problem, rungOf("naive"), target);
    expect(build(problem, scheduleOf(""), target).kernel.ptx).toBe(first);
  });
});
