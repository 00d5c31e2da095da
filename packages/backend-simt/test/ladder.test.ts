/** The ladder of optimisations: each rung is one schedule field away from the one before, and shows in the text. */
import { bankConflicts, byteOffset, sizeOf, type TileProgram, tileAccesses } from "@tilewright/ir";
import { describe, expect, test } from "vitest";
import { assemble, build, hasPtxas, scheduleOf } from "./support/build.ts";
import { problemOf, targetOf } from "./support/cases.ts";
import { fileCheck } from "./support/fileCheck.ts";

const problem = problemOf({ m: 256, n: 256, k: 64, dtype: "f32" });
const off = "strip=1x1 stages=1 prefetch=off frag=1 vec=1 smem=plain walk=rows raster=row store=1";

const rungs = {
  naive: `tile=16x16x8 thread=1x1 lanes=4x8 stage=off ${off}`,
  tiled: `tile=16x16x8 thread=1x1 lanes=4x8 stage=ab ${off}`,
  "register-tiled": `tile=128x128x8 thread=16x8 lanes=4x8 stage=ab ${off.replace("strip=1x1", "strip=4x4")}`,
  vectorised: `tile=128x128x8 thread=16x8 lanes=4x8 stage=ab ${off.replace("strip=1x1", "strip=4x4").replace("vec=1", "vec=4")}`,
  "conflict-free": `tile=128x128x8 thread=16x8 lanes=4x8 stage=ab ${off.replace("strip=1x1", "strip=4x4").replace("vec=1", "vec=4").replace("smem=plain", "smem=pad")}`,
  "double-buffered":
    "tile=128x128x8 thread=16x8 lanes=4x8 strip=4x4 stage=ab stages=2 prefetch=on frag=2 vec=4 smem=pad walk=rows raster=row store=1",
} as const;

const checks: Readonly<Record<keyof typeof rungs, string>> = {
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
  test.each(Object.keys(rungs) as (keyof typeof rungs)[])("%s", (rung) => {
    const { kernel } = build(problem, scheduleOf(rungs[rung]), target);
    fileCheck(kernel.ptx, checks[rung]);
    if (hasPtxas) expect(assemble(kernel.ptx, "sm_70").registers).toBeGreaterThan(0);
  });

  test("the conflict-free rung has no conflicts where the one below has", () => {
    expect(excess(build(problem, scheduleOf(rungs.vectorised), target).program)).toBeGreaterThan(0);
    expect(excess(build(problem, scheduleOf(rungs["conflict-free"]), target).program)).toBe(0);
  });

  test("cp.async replaces loads and stores where the target has it", () => {
    const schedule = scheduleOf("copy=cp.async prefetch=off stages=4");
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
    build(problem, scheduleOf(rungs.naive), target);
    expect(build(problem, scheduleOf(""), target).kernel.ptx).toBe(first);
  });
});
