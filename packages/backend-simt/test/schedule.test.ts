import { createRandom, printProblem, shippedTuned } from "@tilewright/core";
import { defaultSchedule, parseSchedule, printSchedule } from "@tilewright/ir";
import { describe, expect, test } from "vitest";
import { simt } from "../src/backend.ts";
import { scheduleModel } from "../src/schedule.ts";
import { scheduleOf } from "./support/build.ts";
import { problemOf, randomF32, randomSchedule, targetOf } from "./support/cases.ts";

const problem = problemOf({ m: 300, n: 200, k: 77, dtype: "f32" });
const sm70 = targetOf("sm_70");
const reasons = (text: string, arch = "sm_70"): string[] =>
  simt.check(problem, scheduleOf(text), targetOf(arch)).map((d) => `${d.code} ${d.message}; ${d.hint}`);

describe("illegal schedules get every reason, each with the nearest legal value", () => {
  test("several faults at once", () => {
    expect(reasons("tile=100x128x7 lanes=4x4 strip=3x4 stages=2 copy=cp.async")).toEqual([
      "TW2101 4x4 is 16 lanes; a warp has 32; nearest legal: lanes=4x8",
      "TW2102 tile m 100 is no multiple of lanes x thread = 64; nearest legal: tile m 128",
      "TW2104 thread m 16 is no multiple of strip 3; nearest legal: strip m 2",
      "TW2109 sm_70 has no cp.async; nearest legal: copy=direct (sm_80 and later have cp.async)",
      "TW2112 frag=2 alternates two fragments, so tile k must be even, not 7; nearest legal: tile k 8, or frag=1",
      "TW2113 cp.async already runs ahead; prefetch splits copies that go through registers; nearest legal: registerPrefetch=off, or copy=direct",
    ]);
  });

  test("too much shared memory names how many stages fit", () => {
    expect(reasons("tile=128x128x16 stages=7")).toEqual([
      "TW2107 7 stages of 128x128x16 f32 need 114688 B of shared memory; sm_70 has 98304 B a block; nearest legal: stages=6",
    ]);
    expect(reasons("tile=128x128x16 stages=7", "sm_80")).toEqual([]);
  });

  test("too many threads", () => {
    expect(reasons("tile=256x256x8 thread=4x4 frag=1")).toEqual([
      "TW2106 4096 threads a block; sm_70 allows 1024; use a larger thread tile, or a tile of at most 64x256",
      expect.stringContaining("TW2108"),
    ]);
  });

  test("a register tile beyond the register file", () => {
    expect(reasons("tile=128x256x8 thread=32x8 lanes=4x8")).toEqual([
      "TW2108 a 32x8 register tile needs about 400 registers a thread; 128 threads may have 255 each; nearest legal: thread=16x8 (with a tile that divides by it)",
    ]);
  });

  test("fields that contradict each other", () => {
    expect(reasons("tile=128x128x1 stagedOperands=off stages=2 frag=1")).toEqual([
      "TW2110 2 stages, but stagedOperands=off stages nothing; nearest legal: stages=1, or stagedOperands=ab",
    ]);
    expect(reasons("stages=1")).toEqual([
      "TW2111 frag=2 loads fragments of the next chunk early, which needs it in another stage; nearest legal: frag=1, or stages=2",
    ]);
  });
});

describe("schedules()", () => {
  test("are legal, and there is always one", () => {
    const random = createRandom(7);
    for (const arch of ["sm_70", "sm_75", "sm_80", "sm_86", "sm_90a", "sm_100a", "sm_120a"]) {
      const target = targetOf(arch);
      for (let i = 0; i < 6; i++) {
        const some = randomF32(random, 5000);
        const list = [...simt.schedules(some, target)];
        expect(list.length).toBeGreaterThan(0);
        for (const schedule of list) expect(simt.check(some, schedule, target)).toEqual([]);
      }
    }
  });

  test.each(["sm_80", "sm_90"])(
    "of the stored winners of a size the first one that %s can have comes first",
    (arch) => {
      const target = targetOf(arch);
      const seen = new Set<string>();
      const shipped = shippedTuned("simt");
      for (const {
        problem: some,
        entry: { schedule },
      } of shipped) {
        const size = printProblem(some);
        const legal = simt.check(some, scheduleOf(schedule), target).length === 0;
        expect(legal || schedule.includes("reduction=cluster")).toBe(true);
        if (!legal || seen.has(size)) continue;
        seen.add(size);
        const [first] = simt.schedules(some, target);
        expect(first).toEqual(scheduleOf(schedule));
        const [older] = simt.schedules(some, sm70);
        expect(older?.copy).toBe("direct");
      }
      expect(seen.size).toBe(new Set(shipped.map(({ problem }) => printProblem(problem))).size);
    },
  );

  test("large squares get the measured tile, single rows a flat one", () => {
    const first = (m: number, n: number, k: number): string => {
      const [schedule] = simt.schedules(problemOf({ m, n, k, dtype: "f32" }), sm70);
      return schedule ? printSchedule(simt.schedule, schedule) : "";
    };
    expect(first(4096, 4096, 4096)).toMatch(/^tile=128x128x8 thread=16x8 lanes=4x8/);
    expect(first(1, 4096, 4096)).toMatch(/^tile=1x\d+x/);
    expect(first(4096, 1, 4096)).toMatch(/^tile=\d+x1x/);
  });
});

test("the text of a random schedule parses back", () => {
  const random = createRandom(3);
  for (let i = 0; i < 200; i++) {
    const schedule = randomSchedule(random, problem, sm70);
    const text = printSchedule(simt.schedule, schedule);
    expect(parseSchedule(simt.schedule, text)).toEqual({ ok: true, value: schedule });
  }
});

describe("what the backend cannot serve is said with what would work", () => {
  const verdict = (request: object): string[] => {
    const answer = simt.accepts(problemOf({ m: 8, n: 8, k: 8, ...request }), sm70);
    return answer.ok ? [] : answer.error.map((d) => `${d.code} ${d.kind} ${d.at}: ${d.hint}`);
  };
  test("dtype, accumulator, batch and epilogue, all at once", () => {
    expect(verdict({ dtype: "f32" })).toEqual([]);
    expect(verdict({ dtype: "f32", batch: { kind: "grouped", count: 2 } })).toEqual([]);
    const groups = problemOf({ m: 8, n: 8, k: 8, batch: { kind: "grouped", count: 2 } });
    const shares = { ...defaultSchedule(scheduleModel), streamk: 5 };
    expect(simt.check(groups, shares, sm70)).toEqual([]);
    // Not unless asked, whatever won at the size that the groups are bounded by.
    const large = problemOf({
      m: 4096,
      n: 4096,
      k: 4096,
      dtype: "f32",
      batch: { kind: "grouped", count: 2 },
    });
    for (const schedule of simt.schedules(large, targetOf("sm_80")))
      expect([schedule.streamk, schedule.split]).toEqual([0, 1]);
    expect(verdict({ dtype: "f32", batch: { kind: "grouped", count: 70_000 } })).toEqual([
      "TW1806 unsupported problem.batch: launch batches of at most 65535",
    ]);
    expect(
      verdict({
        dtype: "e4m3",
        batch: { kind: "strided", count: 70_000 },
        epilogue: [
          { kind: "activation", fn: "relu" },
          { kind: "reduce", op: "sum", over: "n", dtype: "f64" },
          { kind: "cast", dtype: "tf32", saturate: false },
        ],
      }),
    ).toEqual([
      "TW1802 unsupported problem.a.dtype: use --dtype f32",
      "TW1802 unsupported problem.b.dtype: use --dtype f32",
      "TW1806 unsupported problem.batch: launch batches of at most 65535",
      "TW1805 unsupported problem.epilogue[1]: use f32, f16, bf16, s32, s8, u8, e4m3, e5m2",
      "TW1805 unsupported problem.epilogue[2]: use f32, f16, bf16, s32, s8, u8, e4m3, e5m2",
    ]);
  });
});
