/** Roles, rings with mbarriers, bulk copies, clusters and persistent CTAs, as text; that they run right is the backends' conformance. */
import { findTarget, type Target } from "@tilewright/core";
import {
  allocate,
  declareLaunches,
  expandRings,
  expandStores,
  type LoweredKernel,
  noHints,
  openKernel,
  parseProgram,
  scheduleTiles,
  type TileProgram,
} from "@tilewright/ir";
import { parseModule } from "@tilewright/ptx";
import { describe, expect, test } from "vitest";
import { type Engine, lowerWith } from "../src/index.ts";

/** One math warpgroup, one producer warp; a cluster of two along m shares B; D goes through shared memory. */
const TEXT = `tile.ir 6
tile.kernel @small stage bound arch sm_90a {
  problem m=200 n=64 k=256 a=bf16:row:256:16 b=bf16:col:256:16 d=bf16:row:64:16 acc=f32 alpha=1 beta=0 batch=none epilogue=none
  launch threads=160 cluster=2x1
  global %A bf16[200, 256] layout (200,256):(256,1) align 16
  global %B bf16[256, 64] layout (256,64):(1,256) align 16
  global %D bf16[200, 64] layout (200,64):(64,1) align 16
  register %acc f32[64, 64] own rows(warp 4, register 2:2, thread 8:4) cols(register 8:4, thread 4, register 2)
  shared %sA bf16[64, 64] slots 3 layout (64,64):(64,1) swizzle<3,4,3> align 128
  shared %sB bf16[64, 64] slots 3 layout (64,64):(1,64) swizzle<3,4,3> align 128
  shared %sD bf16[64, 64] layout (64,64):(64,1) swizzle<3,4,3> align 128
  ring %ring slots 3 buffers(%sA, %sB) transport tma full mbarrier:1 empty mbarrier:2

  role math first 0 warps 4 {
    tiles %mt < 4, %nt < 1 raster row persistent %vt by stride {
      fill %acc = 0
      for %kt = 0 .. 4 {
        wait %ring @ %vt * 4 + %kt pending 0
        mma %acc += %sA[slot (%vt * 4 + %kt) % 3] * %sB[slot (%vt * 4 + %kt) % 3] atom m64n64k16.f32.bf16.bf16 walk rows
        release %ring @ %vt * 4 + %kt
      }
      epilogue %D[%mt * 64 : 64, %nt * 64 : 64] <- %acc alpha 1 beta 0 guard(rows) vector 2 via %sD
    }
  }
  role producer first 4 warps 1 {
    tiles %mt < 4, %nt < 1 raster row persistent %vt by stride {
      for %kt = 0 .. 4 {
        acquire %ring @ %vt * 4 + %kt
        copy %sA[slot (%vt * 4 + %kt) % 3] <- %A[%mt * 64 : 64, %kt * 64 : 64] transport tma guard(rows)
        copy %sB[slot (%vt * 4 + %kt) % 3] <- %B[%kt * 64 : 64, %nt * 64 : 64] transport tma multicast m
        commit %ring @ %vt * 4 + %kt
      }
    }
  }
}
`;

const engine: Engine = {
  oldestPtx: [8, 0],
  holding: () => ({ type: "f32", packed: 1 }),
  budget: { copyRegisters: 16, invariants: "recomputed" },
  statements: { mma() {} },
  copies: {},
};

function lower(
  edits: readonly (readonly [string, string])[] = [],
  by: Engine = engine,
  place: "first" | "deferred" = "first",
): LoweredKernel | string {
  const target = findTarget("sm_90a");
  if (!target.ok) throw new Error("sm_90a is a target");
  let text = TEXT;
  for (const [from, to] of edits) {
    expect(text).toContain(from);
    text = text.replaceAll(from, to);
  }
  const program = parseProgram(text);
  if (!program.ok) throw new Error(JSON.stringify(program.error));
  const machine = machineOf(program.value, target.value, place);
  if (typeof machine === "string") return machine;
  const lowered = lowerWith(by, machine, target.value);
  return lowered.ok ? lowered.value : lowered.error.map((d) => `${d.code} ${d.at}: ${d.message}`).join("\n");
}

/** What the passes make of it, or why they cannot. */
function machineOf(program: TileProgram, target: Target, place: "first" | "deferred"): TileProgram | string {
  try {
    const scheduled = scheduleTiles(place).run(expandRings.run(program, target), target);
    const allocated = allocate.run(openKernel.run(expandStores.run(scheduled, target), target), target);
    return declareLaunches(noHints).run(allocated, target);
  } catch (error) {
    return String(error);
  }
}

function kernel(
  edits: readonly (readonly [string, string])[] = [],
  by: Engine = engine,
  place: "first" | "deferred" = "first",
): LoweredKernel {
  const made = lower(edits, by, place);
  if (typeof made === "string") throw new Error(made);
  return made;
}

const count = (text: string, what: RegExp): number => text.match(what)?.length ?? 0;

describe("roles and bulk copies", () => {
  const { ptx, kernel: spec } = kernel();

  test("the text is well-formed PTX", () => {
    expect(parseModule(ptx).ok).toBe(true);
  });

  test("a barrier for each slot and edge, with the arrivals that the edges count", () => {
    expect(count(ptx, /mbarrier\.init\.shared::cta\.b64 \[%sm\d+\+\d+\], 1;/g)).toBe(3);
    expect(count(ptx, /mbarrier\.init\.shared::cta\.b64 \[%sm\d+\+\d+\], 2;/g)).toBe(3);
    // Three slots of two tiles, D's tile, six barriers.
    expect(spec.launch.dynamicSmem).toBe(3 * 2 * 8192 + 8192 + 6 * 8);
    expect(ptx).toMatch(/mbarrier\.arrive\.expect_tx\.shared::cta\.b64 _, \[%st\d+\+\d+\], 16384;/);
  });

  test("every other round of tiles is handed out backwards", () => {
    const zigzag = kernel([["by stride", "by zigzag"]]).ptx;
    // Of r units: unit u goes on by 2r - 1 - 2u, then by 2u + 1, and so on.
    expect(zigzag).toMatch(
      /shl\.b32 (%\w+), (%\w+), 1;\s+mad\.lo\.s32 \2, %\w+, -2, \1;\s+sub\.u32 \2, \2, 1;/,
    );
    expect(zigzag).toMatch(/add\.u32 (%\w+), \1, (%\w+);\s+sub\.u32 \2, %\w+, \2;/);
  });

  test("one elected thread copies: A for itself, half of B for both blocks", () => {
    expect(ptx).toContain("elect.sync _|");
    expect(
      count(
        ptx,
        /cp\.async\.bulk\.tensor\.2d\.shared::cluster\.global\.tile\.mbarrier::complete_tx::bytes \[/g,
      ),
    ).toBe(1);
    expect(count(ptx, /complete_tx::bytes\.multicast::cluster/g)).toBe(1);
    const maps = spec.params.flatMap((p) =>
      p.kind === "tensorMap" ? [[p.name, p.offset, p.tensorMap.box]] : [],
    );
    expect(maps).toEqual([
      ["tma_d", 64, [64, 64]],
      ["tma_a", 192, [64, 64]],
      ["tma_b", 320, [64, 32]],
    ]);
  });

  test("a slot is given back to both blocks of the cluster, without a fence of the whole GPU", () => {
    expect(ptx).toContain("mapa.shared::cluster.u32");
    expect(ptx).toMatch(/mbarrier\.arrive\.shared::cluster\.b64 _, /);
    expect(ptx).not.toContain("release.cluster.shared::cluster");
    expect(count(ptx, /barrier\.cluster\.arrive/g)).toBe(1);
  });

  test("the producer ends when both blocks have given back all slots", () => {
    // Of three slots.
    expect(count(ptx, /mbarrier\.try_wait\.parity\.acquire\.cluster/g)).toBe(3);
  });

  test("clusters loop over pairs of tiles, as many as fill the SMs evenly", () => {
    expect(spec.launch.cluster).toEqual([2, 1, 1]);
    expect(spec.launch.grid[0]).toEqual([
      "mul",
      ["ceilDiv", 2, ["ceilDiv", 2, ["max", 1, ["div", "numSms", 2]]]],
      2,
    ]);
    expect(ptx).toContain("%nclusterid.x");
  });

  test("bulk stores wait for the threads, and the threads for the last stores", () => {
    const order = [
      "cp.async.bulk.wait_group.read 0",
      "stmatrix.sync.aligned.m8n8.x4.shared.b16",
      "fence.proxy.async.shared::cta",
      "cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group",
      "cp.async.bulk.commit_group",
    ].map((what) => ptx.indexOf(what));
    expect(order).toEqual([...order].sort((a, b) => a - b));
    expect(order[0]).toBeGreaterThan(0);
  });

  test("16-bit fragments go by stmatrix, four matrices each; others by the threads' own stores", () => {
    // 32 accumulators of a thread are 16 words.
    expect(count(ptx, /stmatrix/g)).toBe(4);
    expect(ptx).not.toContain("st.shared");
    const wide = kernel([
      ["d=bf16:row:64:16", "d=f32:row:64:16"],
      ["global %D bf16", "global %D f32"],
      ["shared %sD bf16[64, 64] layout (64,64):(64,1)", "shared %sD f32[64, 32] layout (64,32):(32,1)"],
    ]).ptx;
    expect(wide).not.toContain("stmatrix");
    expect(count(wide, /st\.shared\.v2\.f32/g)).toBe(16);
    expect(count(wide, /bulk_group \[/g)).toBe(2);
  });

  test("the tile's divisions stand where the engine puts them, or before the epilogue", () => {
    const raster: readonly (readonly [string, string])[] = [
      ["%nt < 1", "%nt < 3"],
      ["n=64", "n=192"],
      ["col:256:16 d=bf16:row:64", "col:256:16 d=bf16:row:192"],
      ["%B bf16[256, 64] layout (256,64)", "%B bf16[256, 192] layout (256,192)"],
      ["%D bf16[200, 64] layout (200,64):(64,1)", "%D bf16[200, 192] layout (200,192):(192,1)"],
    ];
    const math = (text: string): string => text.slice(0, text.indexOf("elect.sync"));
    const at = (text: string): boolean =>
      math(text).indexOf("div.u32") < math(text).indexOf("mbarrier.try_wait");
    expect(at(kernel(raster).ptx)).toBe(true);
    expect(at(kernel(raster, engine, "deferred").ptx)).toBe(false);
  });

  test("register budgets become setmaxnreg, for whole warpgroups and with the launch that ptxas needs to follow them", () => {
    const budgeted = kernel([
      ["threads=160", "threads=256"],
      ["role math first 0 warps 4 {", "role math first 0 warps 4 registers 240 {"],
      ["role producer first 4 warps 1 {", "role producer first 4 warps 4 registers 264 {"],
      ["registers 264", "registers 40"],
    ]).ptx;
    expect(budgeted).toContain("setmaxnreg.dec.sync.aligned.u32 240");
    expect(budgeted).toContain("setmaxnreg.dec.sync.aligned.u32 40");
    expect(budgeted).toContain(".minnctapersm 1");
    expect(ptx).not.toContain("setmaxnreg");
  });

  test("one tile a block: roles inside the tiles, no loop over them", () => {
    const once = kernel([
      [
        "  role math first 0 warps 4 {\n    tiles %mt < 4, %nt < 1 raster row persistent %vt by stride {",
        "  tiles %mt < 4, %nt < 1 raster row {\n    role math first 0 warps 4 {",
      ],
      [
        "  }\n  role producer first 4 warps 1 {\n    tiles %mt < 4, %nt < 1 raster row persistent %vt by stride {",
        "    role producer first 4 warps 1 {",
      ],
      ["%vt * 4 + ", ""],
    ]);
    expect(once.kernel.launch.grid).toEqual([4, 1, 1]);
    expect(once.ptx).not.toContain("%nclusterid.x");
  });
});

describe("what cannot be lowered says why", () => {
  test.each([
    [
      "arrivals that no group of threads makes",
      [["empty mbarrier:2", "empty mbarrier:3"]],
      /the empty edge of %ring counts 3 arrivals/,
    ],
    [
      "a slot of another chunk",
      [["copy %sA[slot (%vt * 4 + %kt) % 3]", "copy %sA[slot (%vt * 4 + %kt + 1) % 3]"]],
      /the slot of %sA is not that of the chunk/,
    ],
  ] as const)("%s", (_what, edits, message) => {
    expect(lower(edits)).toMatch(message);
  });
});
