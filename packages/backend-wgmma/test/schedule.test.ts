/** Schedules: what is refused, with every reason and the nearest legal value; what comes first; that ptxas takes them as they are meant. */
import { assemble, hasPtxas, problemOf, targetOf } from "@tilewright/conformance";
import {
  createRandom,
  findGpu,
  type Problem,
  readProblemRequest,
  type Schedule,
  shippedTuned,
} from "@tilewright/core";
import {
  defaultSchedule,
  type Machine,
  machineOf,
  parseProgram,
  parseSchedule,
  predict,
  printProgram,
  printSchedule,
  runPasses,
  storedSchedule,
  usualMachine,
} from "@tilewright/ir";
import { describe, expect, test } from "vitest";
import { wgmma } from "../src/backend.ts";
import { modelKernel } from "../src/cost.ts";
import { scheduleModel } from "../src/schedule.ts";
import { randomSchedule } from "./support/cases.ts";

const target = targetOf("sm_90a");
const square = (size: number, more: object = {}): Problem =>
  problemOf({ m: size, n: size, k: size, dtype: "bf16", b: { layout: "col" }, ...more });
const large = square(4096);
const base = defaultSchedule(scheduleModel);

/** A problem's first schedules. */
function firstOf(problem: Problem, count: number, machine?: Machine): readonly Schedule[] {
  const found: Schedule[] = [];
  for (const schedule of wgmma.schedules(problem, target, machine)) if (found.push(schedule) === count) break;
  return found;
}

const faults = (schedule: Partial<Schedule>, problem = large): readonly string[] =>
  wgmma
    .check(problem, { ...base, ...schedule } as Schedule, target)
    .map((d) => `${d.code} ${d.message} / ${d.hint}`);

describe("what check refuses", () => {
  test("the default is legal", () => {
    expect(faults({})).toEqual([]);
  });

  test.each([
    [
      { tile: [96, 256, 64] },
      "TW2301 tile m 96 is no multiple of the 64 rows of each of 2 warpgroups / nearest legal: tile m 128",
    ],
    [
      { tile: [192, 208, 64], warpgroups: [3, 1], regs: [24, 160] },
      "TW2306 an instruction of 208 columns needs 130 registers, and threads of such a block are launched with 128 / nearest legal: tile n 192, or fewer warpgroups",
    ],
    [
      { tile: [128, 252, 64] },
      "TW2302 no instruction divides the 252 columns of each of 1 warpgroups / nearest legal: tile n 248",
    ],
    [
      { tile: [16, 96, 64], warpgroups: [1, 2], swapAB: "on" },
      "TW2301 tile n 96 is no multiple of the 64 rows of each of 2 warpgroups / nearest legal: tile n 128",
    ],
    [
      { tile: [20, 64, 64], warpgroups: [1, 1], swapAB: "on" },
      "TW2302 no instruction divides the 20 columns of each of 1 warpgroups / nearest legal: tile m 16",
    ],
    [
      { tile: [128, 256, 40] },
      "TW2303 tile k 40 is no multiple of the 16 of an instruction of bf16 / nearest legal: tile k 48",
    ],
    [
      { tile: [1024, 8, 64], warpgroups: [16, 1] },
      "TW2304 2080 threads a block; sm_90a allows 1024 / nearest legal: warpgroups=7x1",
    ],
    [{ stages: 6 }, "TW2305 6 stages of 49168 B and "],
    [
      { tile: [256, 192, 64], stages: 2 },
      "TW2306 192 accumulators a thread and the 40 registers that are needed beside them do not fit in 168 / nearest legal: regs=24/240",
    ],
    [
      { regs: [24, 250] },
      "TW2307 250 registers for math: setmaxnreg takes multiples of 8 from 24 to 256 / nearest legal: 248",
    ],
    [
      { regs: [40, 256] },
      "TW2307 budgets of 40/256 for 1 and 2 warpgroups add up to 70656 registers; a block begins with 64512 / nearest legal: regs=40/232",
    ],
    [
      { cluster: [4, 4] },
      "TW2310 a cluster of 16 blocks; sm_90a launches 8 without opt-in / nearest legal: cluster=4x2, or nonPortableCluster=on, which not every GPU launches",
    ],
    [
      { cluster: [8, 4], nonPortableCluster: "on" },
      "TW2310 a cluster of 32 blocks; sm_90a launches 16 at most / nearest legal: cluster=8x2",
    ],
    [
      { cluster: [1, 3], tile: [64, 64, 64], warpgroups: [1, 1] },
      "TW2311 3 blocks cannot share 64 rows of A's tile in groups of 8",
    ],
    [
      { tile: [128, 1024, 64], warpgroups: [1, 4], epi: "direct" },
      "TW2312 a tile of 128 x 1024; no side may exceed 512 / nearest legal: 128x512",
    ],
    [
      { copy: "direct", epi: "direct", multicast: "off" },
      "TW2313 blocks stay where a producer fetches the next tile, and copy=direct has none / nearest legal: sched=tiles",
    ],
    [
      { tile: [192, 64, 64], warpgroups: [3, 1], copy: "direct", epi: "direct", sched: "tiles" },
      "TW2315 the threads of 3 warpgroups do not share a copy: their number is no power of two / nearest legal: warpgroups=4x1, or copy=tma",
    ],
    [
      { pingPong: 2, sched: "tiles" },
      "TW2318 ping-pong warpgroups share the tiles of persistent CTAs / nearest legal: sched=persistent (or atomic), or pingPong=1",
    ],
    [
      { copy: "cp.async", cache: "a:evict_first,b:evict_last,d:evict_first" },
      "TW2332 A and B cannot have a policy of L2 with copy=cp.async: later GPUs that run the kernel too stop at a cp.async that has one / nearest legal: cache=d:evict_first, or copy=direct or tma",
    ],
    [
      { delayedRelease: "on", stages: 1 },
      "TW2319 a slot that is given back late needs another for the next chunk / nearest legal: stages=2, or delayedRelease=off",
    ],
    [
      { tail: 5 },
      "TW2333 5 chunks are kept until both halves are multiplied, and the ring has 4 / nearest legal: tail=4",
    ],
    [
      { tail: 1, tile: [64, 8, 64], warpgroups: [1, 1] },
      "TW2333 no instruction and no part of D's tile end inside the 8 columns of a warpgroup / nearest legal: tail=0, or epi=direct",
    ],
  ] as const)("%o", (schedule, message) => {
    const [first] = faults(schedule as Partial<Schedule>).filter((f) => f.startsWith(message));
    expect(first ?? faults(schedule as Partial<Schedule>)).toContain(message);
  });

  test("operands that a kernel before transposes: what needs it, what has it, and what it cannot be for", () => {
    const row = { m: 64, n: 64, k: 64, dtype: "tf32", b: { layout: "row" } } as const;
    const grouped = { ...row, batch: { kind: "grouped", count: 2 } } as const;
    const of = (request: object, transpose: string, copy = "tma"): readonly string[] =>
      faults({ tile: [64, 64, 32], warpgroups: [1, 1], transpose, copy }, problemOf(request as never)).filter(
        (f) => /^TW23(08|31|34)/.test(f),
      );
    expect(of(row, "b")).toEqual([]);
    expect(of(row, "off")).toEqual([
      "TW2308 tf32 is multiplied along k only, and bulk copies keep the order of memory: A has to be row-major and B column-major / nearest legal: transpose=b, or copy=direct, whose threads transpose",
    ]);
    expect(of(row, "ab")[0]).toBe(
      "TW2334 A is contiguous along k already, and serves without another copy / nearest legal: transpose=b",
    );
    expect(of({ ...row, dtype: "e4m3" }, "b")[0]).toBe(
      "TW2334 elements of 4 bytes are transposed on the way to the workspace, and B is e4m3 / nearest legal: transpose=off",
    );
    expect(of(grouped, "b")[0]).toMatch(/^TW2334 a transposed copy of B has a size that is known before/);
  });

  test("operands that bulk copies cannot take: pitch, alignment, layout", () => {
    const odd = problemOf({ m: 64, n: 64, k: 60, dtype: "bf16", b: { layout: "col" } });
    expect(faults({}, odd).filter((f) => f.startsWith("TW2308"))).toEqual([
      "TW2308 rows of A are 120 bytes apart; bulk tensor copies need multiples of 16 / nearest legal: copy=cp.async (or a leading dimension of 64)",
      "TW2308 rows of B are 120 bytes apart; bulk tensor copies need multiples of 16 / nearest legal: copy=cp.async (or a leading dimension of 64)",
    ]);
    const single = problemOf({ m: 64, n: 64, k: 61, dtype: "bf16", b: { layout: "col" } });
    expect(faults({}, single)[0]).toMatch(
      /^TW2308 rows of A are 122 bytes apart.*nearest legal: copy=direct/,
    );
    const short = problemOf({ m: 64, n: 60, k: 64, dtype: "bf16", b: { layout: "col" }, d: { ld: 64 } });
    expect(faults({}, short).filter((f) => f.startsWith("TW2309"))).toEqual([
      "TW2309 rows of D are 120 bytes long, and bulk stores write multiples of 16, whatever lies behind them / nearest legal: epi=direct (or n of 64)",
    ]);
    const bytes = problemOf({
      ...{ m: 64, n: 64, k: 64, dtype: "bf16", b: { layout: "col" }, d: { dtype: "s8", layout: "row" } },
      epilogue: "residual(e4m3)",
    });
    const narrow = { tile: [64, 24, 64], warpgroups: [1, 1], epilogueLoad: "tma" } as const;
    expect(faults(narrow, bytes)).toEqual([
      "TW2309 a tile has 24 bytes of a line of D, and boxes begin at whole 16 / nearest legal: epi=direct",
      "TW2321 a tile has 24 bytes of a line of step 0's matrix, and boxes begin at whole 16 / nearest legal: epilogueLoad=direct",
    ]);
    const across = problemOf({ m: 64, n: 64, k: 64, dtype: "e4m3" });
    expect(faults({}, across).filter((f) => f.startsWith("TW2308"))[0]).toMatch(
      /e4m3 is multiplied along k only/,
    );
  });

  test("sums that are promoted: whole ones in a chunk, accumulators beside sums", () => {
    const scaled = (a: string, b: string): Problem => square(4096, { dtype: "e4m3", blockScales: { a, b } });
    const regs = { regs: [24, 240] };
    expect(faults({ tile: [128, 128, 128], ...regs }, scaled("1x128", "128x128"))).toEqual([]);
    expect(faults({ tile: [128, 128, 64], ...regs }, scaled("1x128", "128x128"))).toEqual([
      "TW2303 tile k 64 is no multiple of the 128 of a sum that is promoted / nearest legal: tile k 128",
    ]);
    // Squares begin and end inside of tiles; wide ones are promoted in two parts.
    expect(faults({ tile: [128, 96, 128], ...regs }, scaled("1x128", "128x128"))).toEqual([]);
    expect(faults({ tile: [128, 192, 128], ...regs }, scaled("1x128", "128x128"))).toEqual([]);
    expect(faults({ tile: [192, 32, 128], warpgroups: [3, 1] }, scaled("128x128", "1x128"))).toEqual([]);
    expect(faults({ tile: [128, 256, 128], stages: 2, ...regs }, scaled("1x128", "128x128"))).toEqual([]);
    expect(faults({ tile: [128, 256, 128], stages: 2, ...regs }, scaled("1x128", "1x128"))).toEqual([
      "TW2306 258 accumulators a thread and the 40 registers that are needed beside them do not fit in 240 / nearest legal: tile n 192, or more warpgroups",
    ]);
    expect(faults({ tile: [128, 128, 128], ...regs, swapAB: "on" }, scaled("1x128", "128x128"))).toEqual([
      "TW2352 sums that are promoted, and their factors, go by rows of D as the 64 of an instruction / nearest legal: swapAB=off",
    ]);
    expect(faults({ tile: [128, 128, 128] }, square(4096, { dtype: "e4m3", precision: "promoted" }))).toEqual(
      [],
    );
  });

  test("sizes of the launch, and lists of groups", () => {
    const whole = { multiple: 8 };
    const free = square(512, { symbolic: { m: {}, n: whole, k: whole } });
    expect(faults({}, free)).toEqual([]);
    const odd = {
      tile: [64, 64, 64],
      warpgroups: [1, 1],
      raster: "hilbert",
      pingPong: 2,
      delayedRelease: "on",
      sched: "atomic",
    };
    const codes = (schedule: object, problem: Problem): readonly string[] =>
      faults(schedule as Partial<Schedule>, problem).map((f) => f.slice(0, 6));
    expect(codes(odd, free)).toEqual(["TW2340", "TW2343", "TW2343", "TW2344"]);
    expect(faults({ streamk: 132 }, free)[0]).toMatch(/^TW2341 shares of chunks are cut before the launch/);
    const groups = square(512, {
      symbolic: { m: {}, n: whole, k: whole },
      batch: { kind: "grouped", count: 9 },
    });
    expect(faults({}, groups)).toEqual([]);
    expect(codes({ sched: "tiles", split: 2 }, groups)).toEqual(["TW2309", "TW2342", "TW2345"]);
    expect(codes({ sched: "zigzag" }, groups)).toEqual(["TW2346"]);
    expect(codes({ batchGroup: 1 }, groups)).toEqual(["TW2347"]);
    const batch = square(512, { batch: { kind: "strided", count: 9 } });
    expect(codes({ batchGroup: 3 }, batch)).toEqual([]);
    expect(faults({ batchGroup: 4 }, batch)[0]).toMatch(/^TW2347 4 problems in turn do not divide 9.*=3/s);
    expect(codes({ batchGroup: 3, sched: "tiles" }, batch)).toEqual(["TW2347"]);
    expect(codes({ regs: [24, 240] }, groups)).toEqual(["TW2322"]);
    // ptxas 13.0 spills 32 bytes of a producer with 56 registers.
    const experts = square(512, {
      gated: "halves",
      batch: { kind: "grouped", count: 4, rows: "offsets" },
      epilogue: "silu(acc) * up",
    });
    const boxes = {
      tile: [128, 64, 64],
      warpgroups: [1, 1],
      swizzle: "none",
      epi: "direct",
      stages: 2,
      regs: [56, 224],
    } as Partial<Schedule>;
    expect(faults(boxes, experts)).toEqual([
      "TW2322 56 registers for a producer that goes through a list of groups and copies 16 boxes a chunk; it needs 72 / nearest legal: regs=72/216",
    ]);
    expect(faults({ ...boxes, regs: [72, 216] }, experts)).toEqual([]);
    expect(faults({ ...boxes, swizzle: "128B", regs: [40, 224] }, experts)).toEqual([]);
    // Rows of any length: bulk copies cannot take them, threads can.
    const any = square(512, { batch: { kind: "grouped", count: 9 } });
    expect(faults({ epi: "direct" }, any)[0]).toMatch(/^TW2308 rows of A are 2 bytes apart/);
    const [first] = wgmma.schedules(any, target);
    expect(first?.copy).toBe("direct");
  });

  test("C and what steps read by bulk copies: who brings what, and what they cannot bring", () => {
    const more = { epilogueLoad: "tma", stages: 2 } as Partial<Schedule>;
    const read = (steps: readonly object[], request: object = {}): Problem =>
      square(1024, { ...request, epilogue: steps });
    const [bias, residual] = [
      { kind: "bias", along: "n", dtype: "f32" },
      { kind: "residual", operand: { dtype: "bf16" } },
    ];
    expect(faults(more, read([bias, residual], { beta: 1 }))).toEqual(
      expect.arrayContaining([expect.stringMatching(/^TW2305 .* beside them/)]),
    );
    expect(faults({ ...more, tile: [128, 64, 64] }, read([bias, residual], { beta: 1 }))).toEqual([]);
    expect(faults(more, square(1024))).toEqual([
      "TW2321 epilogueLoad=tma, and the problem has no C and no steps that read matrices or vectors / nearest legal: epilogueLoad=direct",
    ]);
    const shared = { ...more, split: 2, sched: "tiles", copy: "cp.async" } as Partial<Schedule>;
    const why = faults(shared, read([bias], { beta: "runtime" })).filter((f) => f.startsWith("TW2321"));
    expect(why).toHaveLength(3);
    const busy = { ...more, tile: [128, 64, 64], regs: [24, 240], sched: "atomic", cluster: [2, 1] };
    expect(faults(busy as Partial<Schedule>, read([residual]))).toEqual([
      "TW2322 24 registers for a producer that hands out tiles to a cluster and brings what its epilogues read; it needs 32 / nearest legal: regs=40/232",
    ]);
    // The same without, of a cluster of two with no policies of A and B.
    const plain = { ...busy, epilogueLoad: "direct" } as Partial<Schedule>;
    expect(faults(plain)).toEqual([]);
    expect(faults({ ...plain, cache: "a:evict_last" })[0]).toMatch(/^TW2322 .* and has cache policies/);
    expect(faults({ ...plain, cluster: [2, 2] })[0]).toMatch(/^TW2322 .* of 4 blocks/);
    const odd = read([{ kind: "residual", operand: { dtype: "bf16", ld: 1028 } }]);
    expect(faults({ ...more, tile: [128, 64, 64] }, odd)).toEqual([
      "TW2321 rows of the matrix of step 0 are 2056 bytes apart; bulk tensor copies need multiples of 16 / nearest legal: epilogueLoad=direct (or a leading dimension of 1032)",
    ]);
  });

  test("an A that is widened: its fragments, one chunk at a time", () => {
    const mixed = square(4096, { a: { dtype: "s8" } });
    expect(faults({ regs: [24, 240] }, mixed)).toEqual([]);
    expect(faults({}, mixed)).toEqual([
      "TW2306 144 accumulators a thread and the 40 registers that are needed beside them do not fit in 168 / nearest legal: regs=24/240",
    ]);
    expect(faults({ tile: [128, 128, 64], delayedRelease: "on" }, mixed)).toEqual([
      "TW2319 fragments of s8 are widened into registers that products of the chunk before still read / nearest legal: delayedRelease=off",
    ]);
    const reasons = (request: object): readonly string[] => {
      const verdict = wgmma.accepts(problemOf({ m: 64, n: 64, k: 64, ...request }), target);
      return verdict.ok ? [] : verdict.error.map((d) => `${d.code} ${d.hint}`);
    };
    expect(reasons({ a: { dtype: "s8" }, b: { dtype: "bf16" } })).toEqual([]);
    expect(reasons({ a: { dtype: "s8", layout: "col" }, b: { dtype: "bf16" } })).toEqual([
      "TW1828 use --a-layout row",
    ]);
    expect(reasons({ a: { dtype: "bf16" }, b: { dtype: "s8" } })).toEqual([
      "TW1828 exchange the operands: D^T = B^T * A^T, the narrow one as A, row-major",
    ]);
  });

  test("what cannot be stored while the rest is multiplied", () => {
    const why = (schedule: Partial<Schedule>, problem = large): readonly string[] =>
      faults({ tail: 1, tile: [64, 64, 64], warpgroups: [1, 1], ...schedule }, problem)
        .filter((f) => f.startsWith("TW2333"))
        .map((f) => f.split(" / ")[1] ?? "");
    expect(why({})).toEqual([]);
    expect(why({ pingPong: 2, delayedRelease: "on" })).toEqual([]);
    expect(why({ tail: 4, delayedRelease: "on" })).toEqual(["nearest legal: tail=3"]);
    expect(why({ swapAB: "on" })).toEqual(["nearest legal: tail=0, or swapAB=off"]);
    expect(why({ split: 2, sched: "tiles" })).toEqual(["nearest legal: tail=0"]);
    expect(why({ copy: "direct", sched: "tiles", epi: "direct" })).toEqual(["nearest legal: tail=0"]);
    expect(why({}, square(4096, { symbolic: { k: { multiple: 8 } } }))).toEqual(["nearest legal: tail=0"]);
    // A B along n is cut where its panels are.
    const along = square(4096, { b: { layout: "row" } });
    expect(why({}, along)).toHaveLength(1);
    expect(why({ tile: [64, 192, 64] }, along)).toEqual([]);
  });

  test("all reasons come at once", () => {
    const codes = wgmma
      .check(
        large,
        { ...base, tile: [96, 256, 40], stages: 9, regs: [20, 300], cluster: [4, 4] } as Schedule,
        target,
      )
      .map((d) => d.code);
    expect(new Set(codes)).toEqual(new Set(["TW2301", "TW2303", "TW2305", "TW2307", "TW2310"]));
  });

  test("the text of a schedule gives the schedule", () => {
    for (const schedule of firstOf(large, 200)) {
      const parsed = parseSchedule(scheduleModel, printSchedule(scheduleModel, schedule));
      expect(parsed).toEqual({ ok: true, value: schedule });
    }
  });
});

describe("gated products", () => {
  const gated = (m: number, n: number, k: number): Problem =>
    problemOf({ m, n, k, dtype: "bf16", b: { layout: "col" }, gated: "halves", epilogue: "silu(acc) * up" });

  test("the tile that D passes through has half the columns, and fits beside the ring", () => {
    const problem = gated(4096, 14336, 4096);
    expect(faults({ tile: [128, 208, 64], stages: 5 }, problem)).toEqual([
      "TW1907 a gated product: all of its tile's 104 columns of D pass through shared memory at once, 241744 B of 232448 / nearest legal: stages=4",
    ]);
    expect(faults({ tile: [128, 208, 64], stages: 4 }, problem)).toEqual([]);
    expect(faults({ tile: [128, 224, 64], stages: 5 }, problem)).toEqual([]);
  });

  test("long products get more sums a thread in ping-pong than an epilogue leaves others", () => {
    const [first] = wgmma.schedules(gated(4096, 14336, 4096), target);
    expect(first).toMatchObject({ tile: [128, 192, 64], pingPong: 2, regs: [24, 240] });
  });
});

describe("what comes first", () => {
  const first = (problem: Problem): Schedule => {
    const [schedule] = wgmma.schedules(problem, target);
    if (!schedule) throw new Error("no schedule");
    return schedule;
  };

  test.each([
    [512, [64, 32, 256]],
    [1024, [64, 128, 64]],
    [2048, [128, 256, 64]],
    [4096, [128, 256, 64]],
    [8192, [128, 256, 64]],
  ] as const)("%i: the tile that measured best of those that are generated", (size, tile) => {
    expect(first(square(size)).tile).toEqual(tile);
  });

  test("what won on hardware is legal, and first where it was measured", () => {
    const shipped = shippedTuned("wgmma");
    expect(new Set(shipped.map(({ problem }) => problem.a.dtype))).toEqual(
      new Set(["bf16", "e4m3", "s8", "tf32"]),
    );
    for (const { entry, problem } of shipped) {
      const stored = storedSchedule(wgmma.schedule, entry.schedule);
      expect(first(problem)).toEqual(stored);
      // Instructions of f16 take as long.
      if (problem.a.dtype !== "bf16") continue;
      const inHalf = readProblemRequest(JSON.parse(JSON.stringify(entry.problem).replaceAll("bf16", "f16")));
      expect(inHalf.ok && first(inHalf.value)).toEqual(stored);
    }
  });

  test("what won on one GPU does not count on another", () => {
    const machineFor = (name: string) => {
      const gpu = findGpu(name);
      if (!gpu.ok) throw new Error(name);
      return machineOf(gpu.value);
    };
    const problem = problemOf({ m: 1536, n: 1536, k: 1536, dtype: "bf16", b: { layout: "col" } });
    const firstOn = (name: string) => firstOf(problem, 1, machineFor(name))[0];
    expect(firstOn("H100 SXM")).toEqual(first(problem));
    // 114 SMs for 132.
    expect(firstOn("H100 PCIe")).not.toEqual(first(problem));
  });

  test("an operand that few tiles read makes room for the other in L2; rows that begin inside lines bring one line", () => {
    const cacheOf = (more: { readonly m: number; readonly n: number; readonly k: number }) =>
      first(problemOf({ dtype: "bf16", b: { layout: "col" }, ...more }));
    expect(cacheOf({ m: 48, n: 16384, k: 4096 })).toMatchObject({ cache: "a:evict_last,b:evict_first" });
    expect(cacheOf({ m: 16384, n: 48, k: 4096 })).toMatchObject({ cache: "a:evict_first,b:evict_last" });
    expect(cacheOf({ m: 3072, n: 3072, k: 3072 })).toMatchObject({ cache: "none", l2Promotion: "256" });
    expect(cacheOf({ m: 48, n: 16384, k: 4100 })).toMatchObject({ copy: "cp.async", cache: "none" });
    expect(cacheOf({ m: 904, n: 904, k: 1000 })).toMatchObject({ l2Promotion: "128" });
  });

  test("every problem has a schedule: bulk copies where they can be, threads where not", () => {
    expect(first(square(512)).copy).toBe("tma");
    expect(first(square(511)).copy).toBe("direct");
    expect(first(square(512, { dtype: "s8", b: { layout: "row" } })).copy).toBe("direct");
    expect(first(square(4096, { dtype: "tf32", b: { layout: "row" } }))).toMatchObject({
      copy: "tma",
      transpose: "b",
    });
    expect(first(square(64, { dtype: "tf32", b: { layout: "row" }, k: 32 })).transpose).toBe("off");
    expect(first(square(512, { d: { layout: "col" } })).epi).toBe("tma");
    expect(first(square(512, { n: 500, d: { ld: 512 } })).epi).toBe("direct");
  });

  test("the estimate grows with the work", () => {
    const times = [512, 1024, 2048, 4096].map(
      (size) =>
        predict(square(size), modelKernel(square(size), first(square(size)), target), usualMachine(target))
          .timeUs,
    );
    expect(times).toEqual([...times].sort((a, b) => a - b));
  });
});

test("a producer that begins early goes by the block's barrier, and its code comes first", () => {
  const early = textOf(large, base);
  expect(early).toMatch(/bar\.arrive 0, 288;\s+@%p\d+ bar\.sync 0, 288;/);
  expect(early.indexOf("cp.async.bulk.tensor")).toBeLessThan(early.indexOf("wgmma.mma_async"));
  const late = textOf(large, { ...base, earlyProducerStart: "off" });
  expect(late).toMatch(/bar\.sync 0;/);
  expect(late).not.toContain("bar.arrive");
  expect(late.indexOf("cp.async.bulk.tensor")).toBeGreaterThan(late.indexOf("wgmma.mma_async"));
  // Blocks of a cluster are met before anything goes to another.
  expect(textOf(large, { ...base, cluster: [2, 1] })).not.toContain("bar.arrive");
});

test("a grid that overlaps the one before it waits for it before it touches memory, and its launch says so", () => {
  const schedule = { ...base, pdl: "on" } as Schedule;
  const bound = runPasses(wgmma.tile(large, schedule, target), target, wgmma.passes, { verify: "ends" });
  if (!bound.ok) throw new Error(JSON.stringify(bound.error));
  expect(parseProgram(printProgram(bound.value))).toMatchObject({
    ok: true,
    value: { launch: { pdl: true } },
  });
  const lowered = wgmma.lower(bound.value, target);
  if (!lowered.ok) throw new Error(JSON.stringify(lowered.error));
  const { ptx, kernel } = lowered.value;
  expect(kernel.launch.programmatic).toBe(true);
  const [before = "", after = ""] = ptx.split("griddepcontrol.wait;");
  expect(before).not.toMatch(/cp\.async|ld\.global|st\.global|red\.|atom\./);
  expect(after).toMatch(/cp\.async/);
  expect(textOf(large, base)).not.toMatch(/griddepcontrol/);
});

/** The text of a problem with a schedule. */
function textOf(problem: Problem, schedule: Schedule): string {
  const bound = runPasses(wgmma.tile(problem, schedule, target), target, wgmma.passes, { verify: "ends" });
  if (!bound.ok) throw new Error(JSON.stringify(bound.error));
  const lowered = wgmma.lower(bound.value, target);
  if (!lowered.ok) throw new Error(JSON.stringify(lowered.error));
  return lowered.value.ptx;
}

const SLOW = process.env.TILEWRIGHT_SLOW === "1";

describe.skipIf(!hasPtxas)("ptxas", () => {
  test.each([
    [square(4096, { dtype: "f16" }), "m", "silu"],
    [problemOf({ m: 4352, n: 4096, k: 4096, dtype: "bf16", b: { layout: "row" } }), "n", "gelu"],
    [problemOf({ m: 4352, n: 4096, k: 4096, dtype: "tf32" }), "m", "silu"],
  ] as const)("takes what comes first before an epilogue without spills", (plain, along, fn) => {
    const problem: Problem = {
      ...plain,
      epilogue: [
        { kind: "bias", along, dtype: "f32" },
        { kind: "activation", fn },
      ],
    };
    const [first = {}] = wgmma.schedules(problem, target);
    expect(assemble(textOf(problem, first), "sm_90a").faults).toEqual([]);
  });

  const atLaunch = { symbolic: { m: {}, n: {}, k: {} } } as const;
  const groups = { batch: { kind: "grouped", count: 4 } } as const;
  test.each([
    { m: 512, n: 512, k: 512, dtype: "s8", a: { layout: "col" }, b: { layout: "row" }, ...atLaunch },
    { m: 1, n: 4096, k: 4096, dtype: "e4m3", b: { layout: "row" }, ...groups },
    { m: 4095, n: 4093, k: 1021, dtype: "e4m3", a: { layout: "col" }, b: { layout: "col" }, ...groups },
  ] as const)("takes what comes first where the threads copy elements without spills: %j", (request) => {
    const problem = problemOf(request);
    const [first = {}] = wgmma.schedules(problem, target);
    expect(first.copy).toBe("direct");
    expect(assemble(textOf(problem, first), "sm_90a").faults).toEqual([]);
  });

  test.each(["bf16", "tf32", "e4m3", "s8"] as const)(
    "takes the first schedules of large %s problems without spills or C75xx",
    (dtype) => {
      const list = [4096, 1024].flatMap((size) => {
        const problem = square(size, { dtype });
        return firstOf(problem, SLOW ? 14 : 2).map((schedule) => ({ problem, schedule }));
      });
      for (const { problem, schedule } of list) {
        const { faults: found } = assemble(textOf(problem, schedule), "sm_90a");
        expect([printSchedule(scheduleModel, schedule), ...found]).toEqual([
          printSchedule(scheduleModel, schedule),
        ]);
      }
    },
  );

  test("takes legal schedules drawn at random: 200 when slow", () => {
    const random = createRandom(17);
    const plain = square(1000, { k: 1024 });
    const blockScales = { a: "1x128", b: "128x128" };
    const scaled = square(1000, { k: 1024, dtype: "e4m3", blockScales });
    const mixed = square(1000, { k: 1024, a: { dtype: "s8" } });
    for (let i = 0; i < (SLOW ? 200 : 9); i++) {
      const problem = [plain, mixed, scaled][i % 3] ?? plain;
      const schedule = randomSchedule(random, problem, target);
      const { faults: found } = assemble(textOf(problem, schedule), "sm_90a");
      expect([printSchedule(scheduleModel, schedule), ...found]).toEqual([
        printSchedule(scheduleModel, schedule),
      ]);
    }
  });
});

describe("sm_90a alone", () => {
  test("other targets are refused with what would work", () => {
    const verdict = wgmma.supports(targetOf("sm_100a"));
    expect(verdict.ok ? [] : verdict.error.map((d) => d.code)).toEqual(["TW1821"]);
    const f64 = wgmma.accepts(problemOf({ m: 8, n: 8, k: 8, dtype: "f64" }), target);
    expect(f64.ok ? [] : f64.error.map((d) => d.code)).toEqual(["TW1822", "TW1823"]);
  });
});
