/** Blocks that add up slices: the bits of `last`, whether all blocks of a tile are there together or none is, through memory or in a cluster. */
import { caseData, problemOf, Session, scheduleOf, targetOf } from "@tilewright/conformance";
import { formatDiagnostic, type Problem } from "@tilewright/core";
import { createCompiler } from "@tilewright/ir";
import { openDevice } from "@tilewright/runtime";
import { expect, test } from "vitest";
import { mma } from "../src/backend.ts";

const compiler = createCompiler({ backends: [mma] });

async function stored(
  problem: Problem,
  fields: string,
  order: "eager" | "random",
  arch = "sm_80",
): Promise<ArrayLike<number>> {
  const made = compiler.compile({ problem, target: targetOf(arch), schedule: scheduleOf(mma, fields) });
  const device = await openDevice({ kind: "emulator", arch });
  if (!made.ok || !device.ok)
    throw new Error([made, device].flatMap((x) => (x.ok ? [] : x.error.map(formatDiagnostic))).join("\n"));
  const session = new Session(device.value, made.value);
  // The second launch finds the workspace as the first has left it.
  const { run, others } = session.repeat(caseData(problem, "normal", 3), 2, { order });
  session.close();
  device.value.close();
  expect(run.faults).toEqual([]);
  expect(others).toBe(0);
  return run.d;
}

test.each([
  ["five blocks of a tile", { m: 72, n: 40, k: 256 }, "tile=32x32x16 warp=16x16 stages=2 frag=1 split=5"],
  ["fewer slices than blocks", { m: 16, n: 8, k: 256 }, "tile=16x8x16 warp=16x8 stages=2 frag=1 split=7"],
  // The emulator has 512 blocks at once, here of as many tiles: none of them has company, and the second block of each tile does it all.
  [
    "more tiles than blocks that are there",
    { m: 400, n: 400, k: 32 },
    "tile=16x16x16 warp=16x16 stages=1 frag=1 split=2",
  ],
])("%s: bits of reduction=last", async (_, sizes, fields) => {
  const problem = problemOf({ ...sizes, dtype: "f16", b: { layout: "col" } });
  const last = await stored(problem, `${fields} reduction=last`, "eager");
  expect(await stored(problem, `${fields} reduction=slices`, "eager")).toEqual(last);
  expect(await stored(problem, `${fields} reduction=slices`, "random")).toEqual(last);
});

test.each([
  [
    "rows, four of eight blocks",
    { m: 64, n: 64, k: 512 },
    "tile=64x32x32 warp=16x32 stages=2 split=8 interleave=off",
  ],
  [
    "columns of two warps, three blocks",
    { m: 50, n: 96, k: 300 },
    "tile=32x48x32 warp=16x24 stages=2 split=3",
  ],
  ["one slice, interleaved columns", { m: 16, n: 64, k: 256 }, "tile=16x64x32 warp=16x32 stages=2 split=2"],
  [
    "two blocks, each of which keeps its own",
    { m: 64, n: 64, k: 256 },
    "tile=64x64x32 warp=32x32 stages=2 split=2",
  ],
  ["a warp that copies", { m: 64, n: 128, k: 512 }, "tile=64x64x32 warp=32x32 stages=2 split=4 copy=tma"],
])("in a cluster, %s: bits of reduction=last", async (_, sizes, fields) => {
  const problem = problemOf({ ...sizes, dtype: "f16", b: { layout: "col" } });
  const last = await stored(problem, `${fields} reduction=last`, "eager", "sm_90");
  expect(await stored(problem, `${fields} reduction=cluster`, "random", "sm_90")).toEqual(last);
});

test("an epilogue through shared memory, and more blocks than a word has bits, are refused", () => {
  const problem = problemOf({ m: 64, n: 64, k: 4096, dtype: "f16" });
  const reasons = mma.check(
    problem,
    scheduleOf(mma, "tile=64x64x32 warp=32x32 split=48 reduction=slices epi=smem"),
    targetOf("sm_80"),
  );
  expect(reasons.map(({ message }) => message).sort()).toEqual([
    "48 blocks of a tile, and the word in which they count themselves has 32 bits for them",
    "slices are stored from registers, and epi=smem passes D through shared memory",
  ]);
});

test.each([
  ["sm_80", "split=4", "TW2226 sm_80 has no clusters in which blocks could meet"],
  ["sm_90", "split=9", "TW2226 9 blocks share a tile, and a cluster in which they meet has 8"],
  [
    "sm_90",
    "split=4 epi=smem",
    "TW2226 blocks of a cluster store slices from registers, and epi=smem passes D through shared memory",
  ],
])("a cluster on %s with %s is refused", (arch, fields, reason) => {
  const problem = problemOf({ m: 64, n: 64, k: 4096, dtype: "f16" });
  const schedule = scheduleOf(mma, `tile=64x64x32 warp=32x32 reduction=cluster ${fields}`);
  const reasons = mma.check(problem, schedule, targetOf(arch));
  expect(reasons.map(({ code, message }) => `${code} ${message}`)).toEqual([reason]);
});
