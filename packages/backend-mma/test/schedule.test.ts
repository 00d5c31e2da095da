import { build, pick, problemOf, scheduleOf, targetOf } from "@tilewright/conformance";
import { createRandom, hasFeature, shippedTuned } from "@tilewright/core";
import { defaultSchedule, parseSchedule, printSchedule } from "@tilewright/ir";
import { describe, expect, test } from "vitest";
import { mma } from "../src/backend.ts";
import { readSchedule } from "../src/schedule.ts";
import { randomSchedule } from "./support/cases.ts";

const problem = problemOf({ m: 300, n: 200, k: 200, dtype: "f16" });
const reasons = (text: string, arch = "sm_80", of = problem): string[] =>
  mma.check(of, scheduleOf(mma, text), targetOf(arch)).map((d) => `${d.code} ${d.message}; ${d.hint}`);

describe("illegal schedules get every reason, each with the nearest legal value", () => {
  test("tiles that are no multiples of warps and instructions", () => {
    expect(reasons("tile=100x130x40 warp=40x36")).toEqual([
      "TW2201 warp m 40 is no multiple of the 16 of m16n8k16; nearest legal: warp m 48",
      "TW2202 warp n 36 is no multiple of the 8 of m16n8k16; nearest legal: warp n 40",
      "TW2203 tile m 100 is no multiple of warp m 40; nearest legal: tile m 120",
      "TW2204 tile n 130 is no multiple of warp n 36; nearest legal: tile n 144",
      "TW2205 tile k 40 is not an even number of steps of the 16 of m16n8k16; nearest legal: tile k 32",
    ]);
  });

  test("threads, shared memory and registers beyond what a block has", () => {
    expect(reasons("tile=512x512x64 warp=64x64 stages=4")).toEqual([
      "TW2206 2048 threads a block; sm_80 allows 1024; use larger warp tiles, or a tile of at most 256x512",
      "TW2207 4 stages of 512x512x64 f16 need 524288 B of shared memory; sm_80 has 166912 B a block; nearest legal: stages=1",
      expect.stringMatching(
        /^TW2208 a 64x64 warp tile needs about 2\d\d registers a thread; 2048 threads may have 32 each; nearest legal: warp=/,
      ),
    ]);
    expect(reasons("tile=256x256x256 warp=128x64 stages=1 frag=1")).toEqual([
      expect.stringMatching(/^TW2207 .*use a tile k of at most 192 with stages=1$/),
      expect.stringMatching(
        /^TW2208 a 128x64 warp tile needs about 3\d\d registers .*nearest legal: warp=64x64/,
      ),
    ]);
  });

  test("transports that the alignment forbids", () => {
    const odd = problemOf({ m: 300, n: 200, k: 77, dtype: "f16" });
    expect(reasons("", "sm_80", odd)).toEqual([
      "TW2210 cp.async moves 4 bytes at least, and A can be copied 2 at a time only: alignment, leading dimension and length of a row decide; nearest legal: copy=direct",
    ]);
  });

  test("fields that contradict each other", () => {
    expect(reasons("stages=1")).toEqual([
      "TW2211 frag=2 loads fragments of the next chunk early, which needs it in another stage; nearest legal: frag=1, or stages=2",
    ]);
    expect(reasons("frag=1 copySpread=2")).toEqual([
      "TW2212 spread places asynchronous copies between the K steps, which needs copy=cp.async and frag=2; nearest legal: copySpread=1",
    ]);
    expect(reasons("refill=barrier copySpread=2")).toEqual([
      "TW2227 refill=barrier puts the asynchronous copies of a chunk together behind the wait of the last K step, which needs copy=cp.async, frag=2 and copySpread=1; nearest legal: refill=step",
    ]);
    expect(reasons("copySpread=4")).toEqual([
      "TW2213 spread over 4 steps leaves none of 4 for the wait; nearest legal: copySpread=3",
    ]);
  });

  test("ways of D, cache hints and groups", () => {
    expect(reasons("epi=smem split=2 reduction=kernel")).toEqual([
      "TW2222 the second kernel stores D from registers, and epi=smem passes it through shared memory; nearest legal: epi=direct, or reduction=last",
    ]);
    const full = "tile=128x128x64 stages=7 copy=tma frag=1 sched=persistent";
    const along = problemOf({ m: 304, n: 200, k: 208, dtype: "f16" });
    expect(reasons(full, "sm_90", along)).toEqual([]);
    expect(reasons(`${full} epi=smem`, "sm_90", along)).toEqual([
      expect.stringMatching(
        /^TW2207 7 stages of 128x128x64 f16 and D's part need .*nearest legal: stages=6$/,
      ),
    ]);
    expect(reasons("tile=64x64x32 warp=32x32 stages=2 copy=direct cache=a:evict_first", "sm_75")).toEqual([
      "TW2223 sm_75 has no policies of L2 and fetches no 256 bytes at once; nearest legal: cache=none l2PrefetchBytes=128 (more needs sm_80 or later)",
    ]);
    expect(reasons("cache=a:evict_first,d:evict_last", "sm_80")).toEqual([
      expect.stringMatching(/^TW2225 A cannot have a policy .*nearest legal: cache=d:evict_last, or copy=/),
    ]);
    const groups = problemOf({ m: 256, n: 256, k: 256, dtype: "f16", batch: { kind: "grouped", count: 3 } });
    expect(reasons("split=2 copy=direct", "sm_90", groups)).toEqual([]);
    expect(reasons("copy=tma frag=1 walk=snake-cols", "sm_90", groups)).toEqual([
      expect.stringMatching(/^TW2214 .*each group has its own; nearest legal: copy=cp.async$/),
    ]);
  });

  test("bulk copies, and what goes with them only", () => {
    const bulk = "copy=tma frag=1 walk=snake-cols";
    expect(reasons(bulk)).toEqual([
      "TW2214 sm_80 has no bulk tensor copies; nearest legal: copy=cp.async (bulk copies need sm_90 or later)",
    ]);
    expect(reasons(bulk, "sm_90")).toEqual([]);
    const odd = problemOf({ m: 300, n: 200, k: 100, dtype: "f16", b: { layout: "col" } });
    expect(reasons(`${bulk} drain=1`, "sm_90", odd)).toEqual([
      expect.stringMatching(
        /^TW2214 rows of A are 200 bytes apart; .*copy=cp.async \(or a leading dimension of 104\)/,
      ),
      expect.stringMatching(/^TW2214 rows of B are 200 bytes apart; /),
      expect.stringMatching(/^TW2216 .*; nearest legal: drain=0$/),
    ]);
    expect(reasons("sched=persistent", "sm_90")).toEqual([
      expect.stringMatching(/^TW2215 .* copy=cp.async has none; nearest legal: sched=tiles, or copy=tma$/),
    ]);
    expect(reasons(`${bulk} sched=persistent split=2`, "sm_90")).toEqual([
      expect.stringMatching(/^TW2215 .*; nearest legal: sched=tiles, or split=1$/),
    ]);
    // Nine warps: three on one sub-partition of the SM.
    expect(reasons("copy=tma", "sm_90")).toEqual([
      expect.stringMatching(/^TW2208 .* 288 threads may have 168 each; nearest legal: warp=/),
    ]);
  });

  test("chunks that wait in registers", () => {
    expect(reasons("registerPrefetch=on")).toEqual([
      "TW2220 copy=cp.async already runs ahead; prefetch splits copies that go through registers; nearest legal: registerPrefetch=off, or copy=direct",
    ]);
    expect(reasons("tile=128x128x32 warp=32x64 copy=direct registerPrefetch=on frag=1 stages=1")).toEqual([
      expect.stringMatching(/^TW2220 .*; nearest legal: registerPrefetch=off, or stages=2$/),
    ]);
    expect(reasons("tile=128x128x32 copy=direct registerPrefetch=on stages=2", "sm_75")).toEqual([]);
    expect(reasons("tile=128x128x32 stages=2", "sm_75")).toEqual([expect.stringMatching(/^TW2209 /)]);
  });

  test("what a hint proposes is legal, taken one after the other", () => {
    const random = createRandom(11);
    for (let i = 0; i < 100; i++) {
      let text = `tile=${random.integer(8, 300)}x${random.integer(8, 300)}x${random.integer(8, 150)} warp=${random.integer(8, 100)}x${random.integer(4, 100)}`;
      text += ` stages=${random.integer(1, 9)} frag=${random.integer(1, 2)} copySpread=${random.integer(1, 5)} copy=${pick(random, ["cp.async", "direct"])}`;
      const given = text;
      const seen: string[] = [];
      for (let step = 0; step < 40; step++) {
        const [first] = mma.check(problem, scheduleOf(mma, text), targetOf("sm_80"));
        if (!first) break;
        seen.push(`${first.code} ${first.hint}`);
        text = applied(text, first.hint ?? "");
      }
      expect(reasons(text), `${given}\n${seen.join("\n")}`).toEqual([]);
    }
  });
});

/** The text with the first proposal of a hint put in: `stages=2`, `tile m 96`, `warp=32x64`. */
function applied(text: string, hint: string): string {
  const set = (name: string, change: (value: string) => string): string =>
    text.replace(new RegExp(`\\b${name}=(\\S+)`), (_all, value: string) => `${name}=${change(value)}`);
  const axis = /(?:nearest legal: )?(tile|warp) ([mnk]) (?:of at most )?(\d+)/.exec(hint);
  if (axis) {
    const [, name = "", letter = "", value = ""] = axis;
    const index = "mnk".indexOf(letter);
    return set(name, (old) =>
      old
        .split("x")
        .map((x, i) => (i === index ? value : x))
        .join("x"),
    );
  }
  const most = /a tile of at most (\d+)x(\d+)/.exec(hint);
  if (most) return set("tile", (old) => `${most[1]}x${most[2]}x${old.split("x")[2]}`);
  const field = /(\w+)=([\w.]+)/.exec(hint);
  const [, name = "", value = ""] = field ?? [];
  return set(name, () => value);
}

describe("schedules()", () => {
  const dtypes = ["f16", "bf16", "tf32", "s8", "u8", "e4m3", "e5m2", "f64"] as const;

  test("are legal, and there is always one", () => {
    const random = createRandom(7);
    const size = () => pick(random, [1, 7, 31, 64, 100, 512, 1000, 4096]);
    for (const arch of ["sm_75", "sm_80", "sm_86", "sm_87", "sm_89", "sm_90", "sm_100a", "sm_120a"])
      for (const dtype of dtypes) {
        const layout = () => ({ layout: pick(random, ["row", "col"]) });
        const some = problemOf({ m: size(), n: size(), k: size(), dtype, a: layout(), b: layout() });
        const target = targetOf(arch);
        if (!mma.accepts(some, target).ok) continue;
        const list = [...mma.schedules(some, target)];
        expect(list.length).toBeGreaterThan(0);
        for (const schedule of list) expect(mma.check(some, schedule, target)).toEqual([]);
      }
  });

  test("columns of D are interleaved only where a store takes four of them", () => {
    const store = (n: number) => {
      const some = problemOf({ m: 2069, n, k: 28, dtype: "f16", b: { layout: "col" } });
      const [first] = mma.schedules(some, targetOf("sm_80"));
      if (first === undefined) throw new TypeError("a schedule");
      const { epi, interleave, staged } = readSchedule(first);
      return { epi, interleave, staged };
    };
    expect(store(15336)).toEqual({ epi: "direct", interleave: true, staged: false });
    expect(store(15337)).toEqual({ epi: "smem", interleave: false, staged: true });
  });

  test("what measurements found best comes first", () => {
    const shipped = shippedTuned("mma");
    expect(shipped.length).toBeGreaterThan(20);
    for (const { entry, problem } of shipped) {
      const { m, n, k, a, b, precision } = problem;
      const parts = precision === "3xtf32";
      for (const dtype of a.dtype === "f16" ? ["f16", "bf16"] : [a.dtype]) {
        const some = problemOf({ m, n, k, dtype, ...(parts ? { precision } : {}), b: { layout: b.layout } });
        // f32 in parts: those of targets that clamp by two instructions come before the others there.
        const own = parts && b.layout === "col" ? [entry.arch] : ["sm_80", "sm_87"];
        for (const arch of entry.arch === "sm_90" ? ["sm_90"] : own) {
          const [first] = mma.schedules(some, targetOf(arch));
          expect(first).toEqual(scheduleOf(mma, entry.schedule));
        }
      }
    }
  });

  test("a warp of its own copies where the target and the matrices allow", () => {
    const first = (arch: string, request: object): string => {
      const some = problemOf({ m: 4224, n: 4096, k: 4096, b: { layout: "col" }, ...request });
      for (const schedule of mma.schedules(some, targetOf(arch)))
        return printSchedule(mma.schedule, schedule);
      return "";
    };
    for (const dtype of ["f16", "bf16", "tf32", "s8"])
      expect(first("sm_90", { dtype })).toMatch(
        /^tile=128x256x\d+ warp=64x64 stages=2 .*copy=tma .*frag=1 .*walk=snake-cols .*sched=persistent/,
      );
    expect(first("sm_120a", { dtype: "f16" })).toContain("copy=tma");
    expect(first("sm_89", { dtype: "f16" })).toContain("copy=cp.async");
    // Rows that bulk copies cannot take; fragments word by word, whose swizzle they do not have.
    expect(first("sm_90", { dtype: "f16", k: 4100 })).toContain("copy=cp.async");
    expect(first("sm_90", { dtype: "tf32", b: { layout: "row" } })).toContain("copy=cp.async");
    expect(first("sm_90", { dtype: "f64" })).toContain("copy=cp.async");
  });

  test("the model alone agrees with the measured tile at sizes near by", () => {
    const first = (m: number, n: number, k: number, dtype = "f16"): string => {
      const some = problemOf({ m, n, k, dtype, b: { layout: "col" } });
      for (const schedule of mma.schedules(some, targetOf("sm_80")))
        return printSchedule(mma.schedule, schedule);
      return "";
    };
    expect(first(4224, 4096, 4096)).toMatch(/^tile=(128x256|256x128)x64 warp=64x64 stages=3 /);
    expect(first(4096, 4096, 4096, "tf32")).toMatch(/^tile=128x256x32 warp=64x64 stages=3 /);
    expect(first(4096, 4096, 4096, "s8")).toMatch(/^tile=128x256x128 warp=64x64 stages=3 /);
    expect(first(16, 8192, 8192)).toMatch(/^tile=16x/);
    expect(first(128, 4096, 4096)).toMatch(/ split=[2-9]/);
  });
});

test("the text of a random schedule parses back", () => {
  const random = createRandom(3);
  const even = problemOf({ m: 256, n: 256, k: 256, dtype: "f16" });
  for (let i = 0; i < 100; i++) {
    const schedule = randomSchedule(random, even, targetOf("sm_80"));
    const text = printSchedule(mma.schedule, schedule);
    expect(parseSchedule(mma.schedule, text)).toEqual({ ok: true, value: schedule });
  }
});

describe("what the backend cannot serve is said with what would work", () => {
  const verdict = (request: object, arch = "sm_80"): string[] => {
    const answer = mma.accepts(problemOf({ m: 8, n: 8, k: 8, ...request }), targetOf(arch));
    return answer.ok ? [] : answer.error.map((d) => `${d.code} ${d.kind} ${d.at}: ${d.hint}`);
  };
  test("dtypes without an instruction, and those that a later target has", () => {
    expect(verdict({ dtype: "f16" })).toEqual([]);
    expect(verdict({ dtype: "f32" })).toEqual([
      expect.stringMatching(/^TW1812 unsupported problem.a.dtype: use --precision 3xtf32, .* --dtype tf32, /),
    ]);
    expect(verdict({ dtype: "e4m3" })).toEqual([
      "TW1813 unsupported problem.a.dtype: use --arch sm_89 or later, or f16",
    ]);
    expect(verdict({ dtype: "e4m3" }, "sm_89")).toEqual([]);
  });

  test("batch and epilogue, all at once", () => {
    expect(
      verdict({
        dtype: "f16",
        batch: { kind: "strided", count: 70_000 },
        epilogue: [{ kind: "reduce", op: "sum", over: "n", dtype: "f64" }],
      }),
    ).toEqual([
      "TW1816 unsupported problem.batch: launch batches of at most 65535",
      "TW1817 unsupported problem.epilogue[0]: use f32, f16, bf16, s32, s8, u8, e4m3, e5m2",
    ]);
    expect(verdict({ dtype: "f16", batch: { kind: "grouped", count: 2 } })).toEqual([]);
  });
});

describe("plan's remarks", () => {
  const remarks = (request: object): readonly string[] => {
    const some = problemOf({ m: 512, n: 512, k: 512, dtype: "f16", ...request });
    const target = targetOf("sm_80");
    const schedule = [...mma.schedules(some, target)][0] ?? defaultSchedule(mma.schedule);
    return (mma.explain?.(some, schedule, target) ?? []).map(({ topic, text }) => `${topic}: ${text}`);
  };
  test("the instruction, and nothing where nothing is in the way", () => {
    expect(remarks({ b: { layout: "col" } })).toEqual(["instruction: m16n8k16.f32.f16.f16"]);
  });

  test("bank conflicts are told, with what is in the way", () => {
    const conflicts = (dtype: string, text: string, arch: string): readonly string[] => {
      const some = problemOf({ m: 512, n: 512, k: 512, dtype, a: { layout: "col" }, b: { layout: "col" } });
      return (mma.explain?.(some, scheduleOf(mma, text), targetOf(arch)) ?? [])
        .filter(({ topic }) => topic === "bank conflicts")
        .map((remark) => remark.text);
    };
    expect(conflicts("f16", "", "sm_80")).toEqual([]);
    expect(conflicts("f16", "sharedLayout=plain", "sm_80").join()).toMatch(
      / wavefronts, not \d+: sharedLayout=plain /,
    );
    const bulk = "tile=128x128x32 warp=64x32 copy=tma frag=1";
    expect(conflicts("tf32", bulk, "sm_90").join()).toMatch(/%fA <- %sA .*: bulk copies have swizzles/);
    expect(conflicts("tf32", "tile=128x128x32 warp=64x32", "sm_90")).toEqual([]);
  });

  test("narrow copies say which length is in the way", () => {
    const found = remarks({ k: 100, b: { layout: "col", align: 4 } });
    expect(found).toContain(
      "copies of A: 8 B at a time, not 16: its leading dimension is 200 B, k is 200 B long",
    );
    expect(found).toContain("copies of B: 4 B at a time, not 16: its base is aligned to 4 B");
    expect(remarks({ m: 4096, n: 4092 })).toContain(
      "stores of D: 8 B at a time, not 16: its leading dimension is 8184 B, n is 8184 B long",
    );
  });
});

test.each(["row", "col"] as const)(
  "passes of D through shared memory that cut matrices which go together are stored word by word (%s-major)",
  (layout) => {
    const of = problemOf({ m: 100, n: 90, k: 40, dtype: "f16", d: { layout } });
    const target = targetOf("sm_90");
    const text = (tile: string): string =>
      build(mma, of, target, scheduleOf(mma, `tile=${tile} warp=48x16 frag=1 stages=1 epi=smem`)).kernel.ptx;
    expect(text("48x32x16")).not.toContain("stmatrix");
    expect(text("48x16x16")).toContain("stmatrix");
  },
);

test("all targets of the backend have what its text uses", () => {
  for (const arch of ["sm_75", "sm_80", "sm_86", "sm_89", "sm_90", "sm_90a", "sm_120a"])
    expect(hasFeature(targetOf(arch), "ldmatrix")).toBe(true);
});

test("few rows are claimed where the target has wgmma, and nothing else", () => {
  const claimed = (arch: string, over: object = {}) =>
    mma.claims?.(problemOf({ m: 8, n: 4096, k: 4096, dtype: "f16", ...over }), targetOf(arch)) ?? null;
  expect(claimed("sm_90a")).toBe("8 rows, and B lies along n: tiles of 16 rows beat wgmma's");
  expect(claimed("sm_90a", { m: 1, dtype: "bf16" })).toBe(
    "1 row, and B lies along n: tiles of 16 rows beat wgmma's",
  );
  expect([
    claimed("sm_90a", { b: { layout: "col" } }),
    claimed("sm_90a", { m: 17 }),
    claimed("sm_90a", { dtype: "s8" }),
    claimed("sm_80"),
    claimed("sm_100a"),
  ]).toEqual([null, null, null, null, null]);
});
