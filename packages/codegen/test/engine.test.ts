/** The tables that an engine fills in: its own lowerings come first, the shared ones serve the rest, what neither knows is a diagnostic. */
import { findTarget } from "@tilewright/core";
import {
  allocate,
  declareLaunches,
  expandRings,
  type LaunchHints,
  type LineOrder,
  type LoweredKernel,
  parseProgram,
  scheduleTiles,
  type TileProgram,
  type Walk,
} from "@tilewright/ir";
import { expect, test } from "vitest";
import { type Engine, lowerWith, walkOrder } from "../src/index.ts";

/** One warp, one element of D a lane; A comes by cp.async through a ring of one slot and is never multiplied. */
const TEXT = `tile.ir 6
tile.kernel @small stage bound arch sm_80 {
  problem m=8 n=4 k=4 a=f32:row:4:16 b=f32:row:4:16 d=f32:row:4:16 acc=f32 alpha=1 beta=0 batch=none epilogue=none
  launch threads=32 cluster=1x1
  global %A f32[8, 4] layout (8,4):(4,1) align 16
  global %B f32[4, 4] layout (4,4):(4,1) align 16
  global %D f32[8, 4] layout (8,4):(4,1) align 16
  register %acc f32[8, 4] own rows(thread 8:4) cols(thread 4)
  shared %sA f32[8, 4] layout (8,4):(4,1) align 16
  register %fA f32[8, 1] own rows(thread 8:4) cols(register 1)
  ring %ring slots 1 buffers(%sA) transport cp.async full barrier:0 empty implied

  tiles %mt < 1, %nt < 1 raster row {
    fill %acc = 0
    acquire %ring @ 0
    copy %sA <- %A[0 : 8, 0 : 4] transport cp.async dist(threads 32, along 1, vector 4, fastest cols) vector 4:4
    commit %ring @ 0
    wait %ring @ 0 pending 0
    copy %fA <- %sA[0 : 8, 0 : 1]
    release %ring @ 0
    epilogue %D[0 : 8, 0 : 4] <- %acc alpha 1 beta 0
  }
}
`;

const none: Engine = {
  oldestPtx: [7, 0],
  holding: () => ({ type: "f32", packed: 1 }),
  budget: { copyRegisters: 16, invariants: "kept" },
  statements: { mma() {} },
  copies: { "shared -> register direct"() {} },
};

const target = (() => {
  const found = findTarget("sm_80");
  if (!found.ok) throw new Error("sm_80 is a target");
  return found.value;
})();

function programOf(text: string, hints: LaunchHints = {}): TileProgram {
  const parsed = parseProgram(text);
  if (!parsed.ok) throw new Error(JSON.stringify(parsed.error));
  const { value } = parsed;
  const expanded = value.stage === "bound" ? expandRings.run(value, target) : value;
  const allocated = allocate.run(scheduleTiles("first").run(expanded, target), target);
  return declareLaunches(() => hints).run(allocated, target);
}

function kernelOf(engine: Engine, text = TEXT, hints: LaunchHints = {}): LoweredKernel {
  const lowered = lowerWith(engine, programOf(text, hints), target);
  if (!lowered.ok) throw new Error(JSON.stringify(lowered.error));
  return lowered.value;
}

test("the shared lowerings serve what the engine leaves out", () => {
  const { ptx } = kernelOf(none);
  expect(ptx).toContain("cp.async.cg.shared.global");
  expect(ptx).toContain("cp.async.wait_group 0");
  expect(ptx).toContain("st.global.f32");
});

test("the engine's own statements and copies come first", () => {
  const seen: string[] = [];
  const { ptx } = kernelOf({
    ...none,
    statements: {
      mma() {},
      fill: () => seen.push("fill"),
      "cp.async.commit": () => seen.push("commit"),
      "cp.async.wait": (_ctx, { pending }) => seen.push(`wait ${pending}`),
    },
    copies: { ...none.copies, "global -> shared cp.async": () => seen.push("copy") },
  });
  expect(seen).toEqual(["fill", "copy", "commit", "wait 0"]);
  expect(ptx).not.toContain("cp.async");
});

test("a copy, a transport or a role that nobody lowers is a diagnostic that says which", () => {
  const faultOf = (engine: Engine, text: string): string => {
    const lowered = lowerWith(engine, programOf(text), target);
    return lowered.ok ? "lowered" : lowered.error.map((d) => `${d.code} ${d.at}: ${d.message}`).join("\n");
  };
  expect(faultOf({ ...none, copies: {} }, TEXT)).toBe(
    "TW3901 %fA <- %sA: no way to copy shared -> register direct",
  );
  expect(faultOf(none, TEXT.replace("wait %ring @ 0 pending 0", "wgmma.wait pending 0"))).toBe(
    "TW3901 wgmma.wait: is no statement of this backend",
  );
});

test("a text without kernels has those that its statements ask for, and its backend's hints", () => {
  const { kernel, ptx } = kernelOf(none, TEXT, { ctas: 2, maxnreg: 64 });
  expect(kernel.launch.dynamicSmem).toBe(128);
  expect(kernel.launch.grid).toEqual([1, 1, 1]);
  expect(ptx).toContain(".minnctapersm 2");
  expect(ptx).toContain(".maxnreg 64");
});

test("walks visit every element once; a snake turns at the end of each run", () => {
  const tile = [0, 1, 2].flatMap((row) => [0, 1].map((col) => ({ row, col })));
  const up = { kind: "up", from: 0 } as const;
  const order = (walk: Walk, lines: LineOrder = up, along: LineOrder = up) =>
    walkOrder(tile, { walk, lines, along }).map(({ row, col }) => `${row}${col}`);
  expect(order("rows")).toEqual(["00", "01", "10", "11", "20", "21"]);
  expect(order("cols")).toEqual(["00", "10", "20", "01", "11", "21"]);
  expect(order("snake-rows")).toEqual(["00", "01", "11", "10", "20", "21"]);
  expect(order("snake-cols")).toEqual(["00", "10", "20", "21", "11", "01"]);
  expect(order("snake-rows", { kind: "down", from: 0 }, { kind: "down", from: 0 })).toEqual([
    "21",
    "20",
    "10",
    "11",
    "01",
    "00",
  ]);
  expect(order("rows", { kind: "up", from: 2 })).toEqual(["20", "21", "00", "01", "10", "11"]);
});
