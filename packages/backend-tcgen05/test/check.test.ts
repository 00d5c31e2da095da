/** Illegal schedules get every reason with the nearest legal value; what the backend does not serve is refused with what would work. */
import { createRandom, type Diagnostic, findTarget, type Problem } from "@tilewright/core";
import {
  parseProgram,
  printProgram,
  proveProtocol,
  runPasses,
  type TileProgram,
  verifyProgram,
} from "@tilewright/ir";
import { openDevice } from "@tilewright/runtime";
import { describe, expect, test } from "vitest";
import { tcgen05 } from "../src/index.ts";
import { problem, schedule, target } from "./support/cases.ts";

const sm100 = target("sm_100a");
const square = problem({ m: 4096, n: 4096, k: 4096 });
const found = (text: string, of = square): readonly string[] =>
  tcgen05.check(of, schedule(text), sm100).map(({ code, hint }) => `${code} ${hint}`);

const runs = (text: string, of: Problem): TileProgram => {
  const bound = runPasses(tcgen05.tile(of, schedule(text), sm100), sm100, tcgen05.passes);
  if (!bound.ok) throw new Error(JSON.stringify(bound.error));
  return bound.value;
};

describe("illegal schedules", () => {
  test.each([
    ["tile=64x256x64 ctaGroup=2", "TW2401 nearest legal: tile m 128, or ctaGroup=1"],
    ["tile=512x256x64 ctaGroup=1 accumulators=1 stages=2", "TW2401 nearest legal: tile m 256, or ctaGroup=2"],
    ["tile=32x100x64 ctaGroup=1 swapAB=on loadColumns=4", "TW2401 nearest legal: tile n 128"],
    ["tile=40x256x64 ctaGroup=2 swapAB=on loadColumns=8", "TW2402 nearest legal: tile m 32"],
    ["tile=512x256x64 ctaGroup=2 stages=3", "TW2404 nearest legal: accumulators=1"],
    ["tile=128x64x64 ctaGroup=1 loadColumns=4", "TW2411 nearest legal: loadColumns=8, or epi=direct"],
    ["tile=128x48x64 ctaGroup=2 loadColumns=16", "TW2411 nearest legal: epi=direct, or tile n 64"],
    ["tile=256x264x64 accumulators=1", "TW2402 nearest legal: tile n 256"],
    ["tile=128x24x64 ctaGroup=1 loadColumns=8", "TW2402 nearest legal: tile n 16"],
    ["tile=256x256x72", "TW2403 nearest legal: tile k 80"],
    ["tile=256x256x64 accumulators=3", "TW2404 nearest legal: accumulators=2"],
    ["tile=256x192x64 accumulators=3", "TW2404 nearest legal: accumulators=2"],
    ["tile=256x256x64 stages=8 epi=direct", "TW2405 nearest legal: stages=7"],
    ["tile=256x256x64 stages=8", "TW2405 nearest legal: stages=6"],
    ["tile=256x48x64 loadColumns=32", "TW2408 nearest legal: loadColumns=16"],
    ["tile=256x128x64 split=2 epi=direct", "TW2413 nearest legal: sched=tiles, or split=1 with streamk"],
    [
      "tile=256x128x64 accumulators=1 overlappedColumns=32",
      "TW2428 nearest legal: accumulators=2, or overlappedColumns=0",
    ],
    [
      "tile=512x128x64 overlappedColumns=32",
      "TW2428 nearest legal: overlappedColumns=0, or a tile of one instruction with all lanes",
    ],
    ["tile=256x128x64 overlappedColumns=40", "TW2428 nearest legal: overlappedColumns=32"],
    ["tile=256x64x64 overlappedColumns=64", "TW2428 nearest legal: overlappedColumns=32"],
    ["tile=128x128x64 streamk=148", "TW2414 nearest legal: epi=direct, or streamk=0"],
    [
      "tile=256x128x64 streamk=148 epi=direct sched=clc",
      "TW2005 nearest legal: sched=persistent, or streamk=0",
    ],
    ["tile=256x128x64 streamk=74 epi=direct cluster=2x1", "TW2005 nearest legal: cluster=1x1, or streamk=0"],
    ["tile=256x128x64 split=2 sched=tiles reduction=kernel", "TW2414 nearest legal: epi=direct, or split=1"],
    ["tile=512x64x64 split=2 sched=tiles", "TW2414 nearest legal: epi=direct, or split=1"],
    [
      "tile=256x128x64 split=2 sched=tiles epi=direct epilogueLoad=tma",
      "TW2415 nearest legal: epilogueLoad=direct, or split=1",
    ],
    ["tile=256x256x64 split=2 sched=tiles epi=direct", "TW2416 nearest legal: tile n 128, or split=1"],
    ["tile=256x256x64 cluster=4x2", "TW2409 nearest legal: cluster=2x2"],
    [
      "tile=128x32x64 ctaGroup=1 cluster=8x1 loadColumns=16",
      "TW2410 nearest legal: cluster=1x1, or a larger tile",
    ],
  ])("%s", (text, reason) => {
    expect(found(text)).toContain(reason);
  });

  test("all reasons at once", () => {
    const codes = found("tile=96x264x72 ctaGroup=2 accumulators=4 stages=60 loadColumns=5").map((line) =>
      line.slice(0, 6),
    );
    expect(codes).toEqual(["TW2401", "TW2402", "TW2403", "TW2404", "TW2405", "TW2408"]);
  });

  test("bytes with N contiguous need coarser N", () => {
    const bytes = problem({ dtype: "e4m3", b: { layout: "row" }, m: 512, n: 512, k: 512 });
    expect(found("tile=256x48x128 loadColumns=16", bytes)).toEqual(["TW2402 nearest legal: tile n 32"]);
  });

  test("few tiles and a long K are shared out, in ways whose bits do not depend on timing", () => {
    const all = [...tcgen05.schedules(problem({ m: 256, n: 256, k: 16384 }), sm100)];
    // Shares of stream-K, and blocks of split-K: all have work, and what the model sees in them decides.
    expect(all[0]?.streamk).toBe(148);
    expect(all.slice(0, 40).some(({ split }) => Number(split) > 1)).toBe(true);
    expect(new Set(all.map(({ reduction: combine }) => combine))).toEqual(new Set(["last", "kernel"]));
  });

  test.each([
    [{ m: 2560, n: 2560, k: 8192 }, 74],
    [{ m: 4096, n: 4096, k: 4096 }, 0],
    [{ m: 2560, n: 2560, k: 8192, symbolic: { m: {} } }, 0],
  ])("stream-K where the last wave is mostly empty and the model sees a gain: %j", (request, units) => {
    expect([...tcgen05.schedules(problem(request), sm100)][0]).toMatchObject({ streamk: units, split: 1 });
  });

  test.each([
    [
      { m: 4096, n: 4096, k: 4096 },
      { sched: "clc", ctaGroup: 2, cluster: [2, 1] },
    ],
    [
      { m: 8192, n: 8192, k: 8192 },
      { sched: "clc", ctaGroup: 2, cluster: [1, 1] },
    ],
    [
      { m: 2048, n: 2048, k: 2048 },
      { sched: "persistent", ctaGroup: 2 },
    ],
    [
      { m: 4096, n: 4096, k: 4096, symbolic: { m: {} } },
      { sched: "persistent", ctaGroup: 2 },
    ],
  ])(
    "launch control assigns tiles of more than a wave, to pairs that share copies where that is no slower: %j",
    (request, fields) => {
      expect([...tcgen05.schedules(problem(request), sm100)][0]).toMatchObject(fields);
    },
  );

  test("C is brought where it is certain to be added, and bulk copies can take it", () => {
    const text = "epilogueLoad=tma tile=256x128x64";
    const of = (more: Record<string, unknown>) =>
      problem({ m: 512, n: 512, k: 512, c: { dtype: "f16" }, beta: 0.5, ...more });
    expect(found(text, of({}))).toEqual([]);
    expect(found(text)).toEqual(["TW2412 nearest legal: epilogueLoad=direct"]);
    expect(found(text, of({ beta: "runtime" }))).toEqual(["TW2412 nearest legal: epilogueLoad=direct"]);
    expect(found(text, of({ n: 500, c: { dtype: "f16" } }))).toContain(
      "TW2412 nearest legal: epilogueLoad=direct (or a leading dimension of 504)",
    );
    expect([...tcgen05.schedules(of({}), sm100)][0]?.epilogueLoad).toBe("tma");
  });

  test("bulk stores begin at multiples of 128 bytes, a warp's part of a column-major D too", () => {
    const along = problem({ m: 512, n: 512, k: 512, d: { dtype: "bf16", layout: "col" } });
    expect(found("tile=256x128x64 loadColumns=1 epi=tma", along)).toEqual([
      "TW2411 nearest legal: loadColumns=2, or epi=direct",
    ]);
    expect(found("tile=256x128x64 loadColumns=2 epi=tma", along)).toEqual([]);
  });

  test("bulk stores want rows of D at multiples of 16 bytes", () => {
    const odd = problem({ m: 512, n: 500, k: 512 });
    expect(found("", odd)).toEqual(["TW2411 nearest legal: epi=direct (or a leading dimension of 504)"]);
    expect([...tcgen05.schedules(odd, sm100)].every((s) => s.epi === "direct")).toBe(true);
  });

  test("tf32 with M or N contiguous has rows of 128 bytes", () => {
    const across = problem({ dtype: "tf32", b: { layout: "row" }, m: 512, n: 512, k: 512 });
    expect(found("tile=256x96x32 swizzle=64B accumulators=1", across)).toEqual([
      "TW2426 nearest legal: swizzle=128B",
      "TW2427 nearest legal: tile n 128",
    ]);
    expect(found("tile=256x128x32 accumulators=1", across)).toEqual([]);
  });

  test("elements under 8 bits are spread into rows of 128 bytes", () => {
    const narrow = problem({ dtype: "e2m3", m: 512, n: 512, k: 512 });
    expect(found("tile=256x64x96 swizzle=64B", narrow)).toEqual([
      "TW2421 nearest legal: swizzle=128B",
      "TW2422 nearest legal: tile k 128",
    ]);
  });

  test("scale factors come in whole blocks, and take tensor memory", () => {
    const scaled = problem({ dtype: "nvf4", m: 512, n: 512, k: 512 });
    expect(found("tile=256x96x96 accumulators=1", scaled)).toEqual([
      "TW2403 nearest legal: tile k 128",
      "TW2423 nearest legal: tile n 128",
      "TW2424 nearest legal: tile k 128",
    ]);
    expect(found("tile=256x256x256 accumulators=2 stages=2", scaled)).toEqual([
      "TW2404 nearest legal: accumulators=1, or accumulators=2 overlappedColumns=64",
    ]);
    expect(found("tile=128x256x256 swapAB=on accumulators=1 stages=2", scaled)).toEqual([
      "TW2425 nearest legal: swapAB=off",
    ]);
    expect(found("tile=128x128x64 accumulators=1", scaled)).toEqual(["TW2401 nearest legal: tile m 256"]);
    const mixed = problem({
      a: { dtype: "mxf8" },
      b: { dtype: "mxf4", layout: "col" },
      m: 512,
      n: 512,
      k: 512,
    });
    expect(found("tile=256x128x64 swizzle=64B", mixed)).toEqual([
      "TW2421 nearest legal: swizzle=128B",
      "TW2422 nearest legal: tile k 128",
      "TW2424 nearest legal: tile k 128",
    ]);
  });
});

const codes = (reasons: readonly Diagnostic[]): readonly string[] => reasons.map(({ code }) => code);
const refused = (request: Record<string, unknown>): readonly string[] => {
  const verdict = tcgen05.accepts(problem(request), sm100);
  return verdict.ok ? [] : codes(verdict.error);
};

describe("what is not served", () => {
  test.each([
    [{ dtype: "f32" }, ["TW1832"]],
    [{ dtype: "e2m1", b: { layout: "row" }, k: 128, n: 128 }, ["TW1836"]],
    [{ dtype: "mxf8", k: 112 }, ["TW1841"]],
    [{ dtype: "nvf4", k: 104 }, ["TW1841", "TW1835", "TW1835"]],
    [{ dtype: "mxf4", k: 128, n: 128, b: { layout: "row" } }, ["TW1836"]],
    [{ a: { dtype: "mxf8" }, b: { dtype: "mxf4", layout: "col" }, k: 96 }, ["TW1835"]],
    [{ dtype: "e3m2", k: 64 }, ["TW1835", "TW1835"]],
    [{ dtype: "e3m2", k: 128, a: { align: 16 } }, ["TW1835"]],
    [{ k: 65 }, ["TW1835", "TW1835"]],
    [{ epilogue: [{ kind: "reduce", op: "amax", over: "all", dtype: "tf32" }] }, ["TW1837"]],
  ] as const)("%j", (request, reasons) => {
    expect(refused(request)).toEqual(reasons);
  });

  test("other targets", () => {
    const hopper = findTarget("sm_90a");
    if (!hopper.ok) throw new Error("sm_90a is a target");
    const verdict = tcgen05.supports(hopper.value);
    expect(verdict.ok ? [] : codes(verdict.error)).toEqual(["TW1831"]);
  });
});

describe("grids and clusters that only an edited program or launch can ask for", () => {
  const text = printProgram(
    runs(
      "tile=256x128x64 sched=tiles accumulators=1 stages=2 cluster=2x1",
      problem({ m: 1024, n: 512, k: 256 }),
    ),
  );
  const edited = (from: string, to: string): readonly string[] => {
    expect(text).toContain(from);
    const parsed = parseProgram(text.replace(from, to));
    const found = parsed.ok ? verifyProgram(parsed.value, sm100) : parsed.error;
    return found.map(({ code, message, hint }) => `${code} ${message}; ${hint ?? ""}`);
  };

  test("pairs in clusters of odd width, and clusters that no GPU schedules", () => {
    expect(edited("cluster=4x1 pair", "cluster=3x1 pair").join("\n")).toMatch(
      /TW\d{4} .*pairs in clusters of 3 x 1/,
    );
    expect(edited("cluster=4x1 pair", "cluster=32x1 pair").join("\n")).toMatch(/TW3110 .*cluster/);
  });

  test("an odd number of tiles along a cluster of two", () => {
    expect(edited("tiles %mt < 4,", "tiles %mt < 3,").join("\n")).toMatch(/TW3169 3 x 4 tiles .*write 4 x 4/);
  });

  test("a launch of an odd grid, whatever the text says", async () => {
    const bound = runs(
      "tile=256x128x64 sched=tiles accumulators=1 stages=2",
      problem({ m: 1024, n: 512, k: 256 }),
    );
    const lowered = tcgen05.lower(bound, sm100);
    if (!lowered.ok) throw new Error("it is lowered");
    const { entry, launch, params } = lowered.value.kernel;
    const device = await openDevice({ kind: "emulator", arch: "sm_100a" });
    const module = device.ok ? device.value.load(lowered.value.ptx) : device;
    const kernel = module.ok ? module.value.kernel(entry) : module;
    if (!device.ok || !kernel.ok) throw new Error("the emulator has the kernel");
    const launched = kernel.value.launch({
      grid: [7, 1, 1],
      block: [192, 1, 1],
      dynamicSmem: launch.dynamicSmem,
      args: params.map(({ size }) => new Uint8Array(size)),
    });
    device.value.close();
    expect(launched.ok ? [] : launched.error.map(({ code, message }) => `${code} ${message}`)).toContain(
      "TW5022 2 does not divide the grid's 7",
    );
  });
});

describe("the protocol is proven without running the kernel", () => {
  test.each([
    "tile=128x64x64 ctaGroup=1 stages=2 sched=tiles accumulators=1",
    "tile=128x64x64 ctaGroup=1 stages=2 sched=persistent accumulators=2",
    "tile=256x64x64 ctaGroup=2 stages=3 sched=clc accumulators=2",
  ])("%s", (text) => {
    const of = problem({ m: 700, n: 300, k: 320 });
    const bound = runPasses(tcgen05.tile(of, schedule(text), sm100), sm100, tcgen05.passes);
    if (!bound.ok) throw new Error(JSON.stringify(bound.error));
    expect(proveProtocol(bound.value, sm100)).toEqual([]);
    // A slot of the operands that is never given back often enough.
    const kept = {
      ...bound.value,
      rings: bound.value.rings.map((r) =>
        r.transport === "tma" ? { ...r, empty: { kind: "mbarrier", arrivals: 9 } as const } : r,
      ),
    };
    expect(proveProtocol(kept, sm100)).not.toEqual([]);
  });
});

describe("the backend's own schedules", () => {
  const random = createRandom(7);
  const size = (): number => 1 + Math.floor(random.uniform() * 600);
  const shapes = Array.from({ length: 12 }, () => [size(), size(), 8 * size()] as const);

  test.each(shapes)("%i x %i x %i: legal, and their programs read back", (m, n, k) => {
    const of = problem({ m, n, k });
    const own = [...tcgen05.schedules(of, sm100)];
    expect(own.length).toBeGreaterThan(3);
    for (const s of own.slice(0, 2)) {
      const bound = runPasses(tcgen05.tile(of, s, sm100), sm100, tcgen05.passes);
      if (!bound.ok) throw new Error(JSON.stringify(bound.error));
      expect(parseProgram(printProgram(bound.value))).toEqual({ ok: true, value: bound.value });
    }
  });
});
