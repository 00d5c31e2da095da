/** `tune` without a GPU: what the measuring process answers is made up; what is searched, kept and said is not. */
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { defineProblem, sha256, tunedSchema } from "@tilewright/core";
import type { BenchCandidate, BenchJob } from "@tilewright/runtime";
import { describe, expect, test } from "vitest";
import { tuneCommand } from "../src/commands/tune.ts";
import { compiler } from "../src/compiler.ts";
import { compileHere, compilePool } from "../src/tune/compile.ts";
import { cli, type Outcome } from "./harness.ts";
import { lost, type Machine, machine, startCommand } from "./machine.ts";
import { scratch } from "./scratch.ts";

const one =
  "-m 128 -n 128 -k 256 --dtype f16 --b-layout col --arch sm_80 --backend mma --tuned s.jsonl --seconds 0.5";
/** A problem whose candidates are predicted near each other, so that a search in two parts times what one search does. */
const flat = one.replace("-m 128 -n 128 -k 256", "-m 48 -n 48 -k 1024");
/** On this thread, without ptxas: texts are what is timed. */
const here = { compiler, env: { TILEWRIGHT_PTXAS: "/none" } };
const tune = (line: string, cwd: string, ports: Machine = gpu()): Promise<Outcome> =>
  startCommand(tuneCommand(ports), line, cwd, here);

const hashOf = ({ artifact: { ptx } }: BenchCandidate): string => sha256(String(ptx));
/** A speed for each kernel, the same in every batch: 0.5 to 1.5. */
const speedOf = (candidate: BenchCandidate): number =>
  0.5 + Number.parseInt(hashOf(candidate).slice(0, 6), 16) / 2 ** 24;
const gpu = (more: Parameters<typeof machine>[0] = {}): Machine => machine({ speed: speedOf, ...more });
const storeIn = (folder: string, name = "s.jsonl") =>
  readFileSync(join(folder, name), "utf8")
    .trim()
    .split("\n")
    .map((line) => tunedSchema.parse(JSON.parse(line)));
/** Kernels of a run, each once. */
const kernelsOf = (jobs: readonly BenchJob[]) =>
  new Set(jobs.flatMap(({ candidates }) => candidates.map(hashOf)));

describe("a search", () => {
  test("keeps the fastest of what it timed, measured beside cuBLAS, and compile takes it", async () => {
    using folder = scratch();
    const ports = gpu();
    const { code, stdout, stderr } = await tune(one, folder.path, ports);
    expect([code, stdout]).toEqual([0, expect.stringMatching(/128x128x256 +f16 .* mma: tile=/)]);
    const timed = kernelsOf(ports.jobs);
    expect(timed.size).toBeGreaterThan(15);
    const speeds = ports.jobs.flatMap(({ candidates }) => candidates.map(speedOf));
    const fastest = Math.max(...speeds);
    const [entry, ...more] = storeIn(folder.path);
    expect(more).toEqual([]);
    expect(entry).toMatchObject({
      gpu: "H200",
      arch: "sm_80",
      problem: { m: 128, n: 128, k: 256, dtype: "f16", b: { layout: "col" } },
      backend: "mma",
      compiler: expect.any(String),
      us: { runs: 20 },
      peer: { name: "cublas", ratio: Number(fastest.toFixed(4)) },
      date: "2026-11-21T12:00:00.000Z",
    });
    expect(entry?.note).toBeUndefined();
    // Text decides, as the driver compiles it for the user; cuBLAS with all that it proposes.
    const final = ports.jobs.at(-1);
    expect(final?.cublas).toEqual({ algorithms: 8 });
    expect(final?.measure?.budgetMs).toBe(500);
    expect(final?.candidates).toHaveLength(3);
    expect(ports.running).toBe(0);
    expect(stderr).toMatch(
      /128x128x256 f16: .* of cublas; \d+ candidates timed, (nothing more|no candidate)/,
    );
    const made = await cli(
      `compile -m 128 -n 128 -k 256 --dtype f16 --b-layout col --arch sm_80 --gpu H200 --tuned s.jsonl -o - --json`,
      {
        cwd: folder.path,
      },
    );
    const [kernel] = JSON.parse(made.stdout).kernels;
    expect(kernel.choice).toMatchObject({ from: "tuned", gpu: "H200" });
    expect(kernel.schedule).toBe(entry?.schedule);
    expect(made.stderr).toBe("");
  });

  test("each batch is at most eight, the first beside cuBLAS; those timed again are a quarter", async () => {
    using folder = scratch();
    const ports = gpu();
    await tune(one, folder.path, ports);
    const batches = ports.jobs.filter(({ measure }) => measure?.budgetMs === 100);
    expect(
      batches
        .map(({ candidates }) => candidates.length)
        .slice(0, -1)
        .every((count) => count === 8),
    ).toBe(true);
    expect(batches.map(({ cublas }) => cublas !== null)).toEqual(batches.map((_, index) => index === 0));
    const [again, ...others] = ports.jobs.filter(({ measure }) => measure?.budgetMs === 300);
    expect(others).toEqual([]);
    const first = kernelsOf(batches).size;
    expect(again?.candidates).toHaveLength(Math.min(8, Math.max(3, Math.ceil(first / 4))));
    // And the fastest ones.
    const slowest = Math.min(...(again?.candidates ?? []).map(speedOf));
    const faster = [
      ...new Map(
        batches.flatMap(({ candidates }) => candidates.map((each) => [hashOf(each), speedOf(each)])),
      ),
    ].filter(([, speed]) => speed > slowest);
    expect(faster.length).toBeLessThan(again?.candidates.length ?? 0);
  });

  test("ends when its share of the time is spent, and what is left goes to the next problem", async () => {
    using folder = scratch();
    // A batch takes three seconds of a clock that is ours.
    let clock = 0;
    // Behind cuBLAS only the time ends a search.
    const ports = gpu({ speed: (candidate) => speedOf(candidate) / 2 });
    const open = ports.open;
    ports.open = async (options) => {
      const opened = await open(options);
      if (!opened.ok) return opened;
      const { measure } = opened.value;
      const timedOf = (inner: typeof measure) => (job: BenchJob) => {
        clock += 3000;
        return inner(job);
      };
      return { ok: true, value: { ...opened.value, measure: timedOf(measure) } };
    };
    const { stderr } = await startCommand(tuneCommand(ports), `${one} --budget 15s`, folder.path, {
      ...here,
      now: () => clock,
    });
    expect(stderr).toContain("24 candidates timed, the time is spent");
    expect(ports.jobs.map(({ measure }) => measure?.budgetMs)).toEqual([100, 100, 100, 300, 500]);
  });

  test("a kernel that hangs costs one candidate", async () => {
    using folder = scratch();
    let bad: string | undefined;
    const ports = gpu({
      reply(job) {
        bad ??= job.candidates[5] && hashOf(job.candidates[5]);
        return job.candidates.some((each) => hashOf(each) === bad) ? lost(null) : undefined;
      },
    });
    const { code, stderr } = await tune(one, folder.path, ports);
    expect(code).toBe(0);
    expect(stderr).toContain("left out: TW6024 no end after 120 s");
    const all = ports.jobs.filter(({ candidates }) => candidates.every((each) => hashOf(each) !== bad));
    // The other seven of its batch were timed.
    const [batch] = ports.jobs;
    const timed = kernelsOf(all);
    expect(batch?.candidates.filter((each) => timed.has(hashOf(each)))).toHaveLength(7);
  });

  test("a machine that fails ends the run; what was found before stays", async () => {
    using folder = scratch();
    const ports = gpu({
      reply: ({ problem }) =>
        problem.n === 64
          ? {
              culprit: null,
              diagnostics: [{ code: "TW6026", kind: "toolchain", at: "worker", message: "gone" }],
            }
          : undefined,
    });
    const line = one.replace("-m 128 -n 128 -k 256", "--shapes 96x128x256,128x64x64,64x64x64");
    const { code, stderr } = await tune(line, folder.path, ports);
    expect(code).toBe(4);
    expect(stderr).toContain("error TW6026");
    expect(storeIn(folder.path).map(({ problem }) => problem.m)).toEqual([96]);
    expect(ports.jobs.some(({ problem }) => problem.m === 64)).toBe(false);
    expect(ports.running).toBe(0);
  });
});

test("attention has candidates of every backend, entries of its own, and the commands take them", async () => {
  using folder = scratch();
  const ports = gpu();
  const what = "--op attention --queries 80 --keys 600 --head-dim 64 --heads 2 --dtype bf16 --causal";
  const { code, stdout, stderr } = await tune(
    `${what} --arch sm_90a --tuned s.jsonl --seconds 0.5 --budget 10m`,
    folder.path,
    ports,
  );
  expect([code, stdout]).toEqual([0, expect.stringMatching(/attention queries=80 keys=600 .*: tile=/s)]);
  expect(stderr).toMatch(/\d+ candidates timed, nothing more is to be had/);
  const timed = kernelsOf(ports.jobs);
  expect(timed.size).toBeGreaterThan(24);
  // The first is what the compiler takes unasked; rows of O in float64 are what numbers are checked against.
  expect(ports.jobs.every(({ program, cublas }) => program !== undefined && cublas === null)).toBe(true);
  const [entry, ...more] = storeIn(folder.path);
  expect(more).toEqual([]);
  expect(entry).toMatchObject({
    gpu: "H200",
    arch: "sm_90a",
    program: { op: "attention", keys: 600, causal: "bottom-right" },
  });
  expect(entry?.peer).toBeUndefined();
  expect(new Set(storeIn(folder.path, "s.journal.jsonl").map(({ backend }) => backend))).toEqual(
    new Set(["wgmma", "mma"]),
  );
  const kernelOf = async (line: string) => {
    const made = await cli(line, { cwd: folder.path });
    expect(made.stderr).toBe("");
    return JSON.parse(made.stdout);
  };
  const common = `${what} --arch sm_90a --tuned s.jsonl --json`;
  const [compiled] = (await kernelOf(`compile ${common} -o -`)).kernels;
  expect(compiled.choice).toMatchObject({ from: "tuned", gpu: "H200" });
  expect(compiled.schedule).toBe(entry?.schedule);
  const [planned] = (await kernelOf(`plan ${common}`)).plans;
  expect([planned.choice.from, planned.schedule]).toEqual(["tuned", entry?.schedule]);
  // Other heads, a mask or a store: not its entry.
  for (const other of [common.replace(" --causal", ""), common.replace("s.jsonl", "none")])
    expect((await kernelOf(`compile ${other} -o -`)).kernels[0].choice.from).toBe("model");
  const listed = await cli("tuned list --tuned s.jsonl --gpu H200 --dtype bf16", { cwd: folder.path });
  expect(listed.stdout).toContain("attention queries=80 keys=600");
  expect((await cli("tuned prune --tuned s.jsonl", { cwd: folder.path })).stdout).toContain(
    "1 entry, 0 removed",
  );
  // What was timed is not timed again.
  const again = gpu();
  const resumed = await tune(`${what} --arch sm_90a --tuned s.jsonl --resume`, folder.path, again);
  expect([resumed.code, resumed.stderr, again.jobs]).toEqual([
    0,
    expect.stringContaining("tuned before"),
    [],
  ]);
}, 120_000);

test("behind cuBLAS it goes on through other tiles until the time is out", async () => {
  using folder = scratch();
  let clock = 0;
  const line = one.replace("-k 256", "-k 512");
  const run = (budget: string, speed: (candidate: BenchCandidate) => number) => {
    const ports = gpu({
      speed,
      reply() {
        clock += 1000;
        return undefined;
      },
    });
    return startCommand(tuneCommand(ports), `${line} --budget ${budget}`, folder.path, {
      ...here,
      now: () => clock,
    });
  };
  // Ahead, and no kernel faster than the first ones: nothing more is to be had.
  expect((await run("60s", () => 1.1)).stderr).toContain("nothing more is to be had");
  const { stderr } = await run("9s", (candidate) => 0.5 * speedOf(candidate));
  expect(stderr).toContain("the time is spent");
  const tiles = storeIn(folder.path, "s.journal.jsonl").map(({ schedule }) => schedule.split(" ")[0] ?? "");
  const first = new Set(tiles.slice(0, 8));
  const later = tiles.slice(8).filter((tile) => !first.has(tile));
  expect(new Set(later).size).toBeGreaterThan(2);
  for (const tile of later) expect(later.filter((each) => each === tile).length).toBeLessThanOrEqual(4);
});

test("schedules that make the same kernel are timed once", async () => {
  using folder = scratch();
  const ports = gpu();
  const { stderr } = await tune(`${one.replace("-k 256", "-k 96")}`, folder.path, ports);
  const batches = ports.jobs.filter(({ measure }) => measure?.budgetMs === 100);
  const timed = batches.flatMap(({ candidates }) => candidates.map(hashOf));
  expect(new Set(timed).size).toBe(timed.length);
  expect(stderr).toMatch(new RegExp(`; ${timed.length} candidates? timed`));
});

describe("what is kept", () => {
  /** A run that ends in the middle of its second batch, as by Ctrl-C. */
  async function interrupted(folder: string, line = one): Promise<Machine> {
    const ports = gpu({
      reply() {
        if (ports.jobs.length > 2) throw new Error("interrupted");
        return undefined;
      },
    });
    await expect(tune(line, folder, ports)).rejects.toThrow("interrupted");
    return ports;
  }

  test("after an interruption the best so far; --resume times only the others and decides", async () => {
    using folder = scratch();
    const before = await interrupted(folder.path, flat);
    const [so_far] = storeIn(folder.path);
    expect(so_far?.note).toBe("best so far: the search was not ended");
    const timed = kernelsOf(before.jobs.slice(0, 2));
    expect(storeIn(folder.path, "s.journal.jsonl")).toHaveLength(timed.size);
    const after = gpu();
    expect((await tune(`${flat} --resume`, folder.path, after)).code).toBe(0);
    const batches = after.jobs.filter(({ measure }) => measure?.budgetMs === 100);
    for (const hash of kernelsOf(batches)) expect(timed.has(hash)).toBe(false);
    const [entry, ...more] = storeIn(folder.path);
    expect([entry?.note, more]).toEqual([undefined, []]);
    const whole = gpu();
    await tune(flat.replace("s.jsonl", "t.jsonl"), folder.path, whole);
    expect(entry?.schedule).toBe(storeIn(folder.path, "t.jsonl")[0]?.schedule);
  });

  test("--resume leaves out a problem that is done; without it, it runs again beside what won", async () => {
    using folder = scratch();
    await tune(one, folder.path);
    const resumed = gpu();
    const { stderr } = await tune(`${one} --resume`, folder.path, resumed);
    expect([resumed.jobs, stderr]).toEqual([[], expect.stringContaining("128x128x256 f16: tuned before")]);
    const [winner] = storeIn(folder.path);
    const again = gpu();
    await tune(one, folder.path, again);
    expect(hashOf(again.jobs[0]?.candidates[0] as BenchCandidate)).toBe(winner?.ptxSha256);
    expect(storeIn(folder.path)).toHaveLength(1);
  });

  test("entries of others stay", async () => {
    using folder = scratch();
    const foreign = {
      ...{
        kind: "tilewright-tuned",
        version: 1,
        gpu: "L4",
        arch: "sm_80",
        backend: "mma",
        schedule: "stages=3",
      },
      ...{ problem: { m: 128, n: 128, k: 256, dtype: "f16", b: { layout: "col" } }, date: "2026-11-20" },
    };
    writeFileSync(join(folder.path, "s.jsonl"), `${JSON.stringify(foreign)}\n`);
    await tune(one, folder.path);
    expect(storeIn(folder.path).map(({ gpu: name }) => name)).toEqual(["L4", "H200"]);
  });
});

describe("what is tuned", () => {
  test("the problems of a log, the most frequent first", async () => {
    using folder = scratch();
    const lines = [
      "warming up",
      "64x64x64",
      JSON.stringify({ m: 96, n: 64, k: 64, dtype: "f16" }),
      JSON.stringify({ problem: { m: 96, n: 64, k: 64, dtype: "f16" }, took: 3 }),
      JSON.stringify({ loss: 0.1 }),
    ];
    writeFileSync(join(folder.path, "gemms.log"), lines.join("\n"));
    const ports = gpu();
    const { stderr, code } = await tune(
      "--from-log gemms.log --arch sm_80 --budget 1s --tuned s.jsonl",
      folder.path,
      ports,
    );
    expect(code).toBe(0);
    expect(storeIn(folder.path).map(({ problem: { m, dtype } }) => [m, dtype])).toEqual([
      [96, "f16"],
      [64, undefined],
    ]);
    expect(stderr).toContain("2 lines of gemms.log are no problems");
    expect(stderr).toContain("96x64x64 f16 (asked for 2 times): ");
  });

  test("for the GPU's own target unless one is named; a target that it does not run is refused", async () => {
    using folder = scratch();
    const line = "-m 64 -n 64 -k 64 --dtype f16 --b-layout col --budget 1s --tuned s.jsonl";
    await tune(line, folder.path);
    expect(storeIn(folder.path)[0]?.arch).toBe("sm_90a");
    const refused = await tune(`${line} --arch sm_100a`, folder.path);
    expect([refused.code, refused.stderr]).toEqual([
      2,
      expect.stringContaining("H200 is sm_90a and does not run"),
    ]);
  });

  test("a GPU that the table lacks needs a target, and its entries bear the driver's name", async () => {
    using folder = scratch();
    const line = "-m 64 -n 64 -k 64 --dtype f16 --budget 1s --tuned s.jsonl";
    const unknown = await tune(line, folder.path, gpu({ gpu: "NVIDIA X9000" }));
    expect([unknown.code, unknown.stderr]).toEqual([
      2,
      expect.stringContaining("the table of GPUs has no NVIDIA X9000"),
    ]);
    expect((await tune(`${line} --arch sm_80`, folder.path, gpu({ gpu: "NVIDIA X9000" }))).code).toBe(0);
    expect(storeIn(folder.path)[0]?.gpu).toBe("NVIDIA X9000");
  });

  test("without a GPU it says what there is without one", async () => {
    using folder = scratch();
    const none = gpu({
      open: async () => ({
        ok: false,
        error: [
          {
            code: "TW6001",
            kind: "toolchain",
            at: "device",
            message: "no driver",
            hint: "--device emulator",
          },
        ],
      }),
    });
    const { code, stderr } = await tune(one, folder.path, none);
    expect([code, stderr]).toEqual([4, expect.stringContaining("tilewright plan estimates without a GPU")]);
    expect(folder.list()).toEqual([]);
  });
});

test("threads make the same kernels, and refuse the same", async () => {
  const pool = compilePool();
  if (pool === null) throw new Error("the thread's file is missing");
  const problem = defineProblem({ m: 64, n: 64, k: 64, dtype: "f16", b: { layout: "col" } });
  if (!problem.ok) throw new Error("no problem");
  const ask = { problem: problem.value, arch: "sm_80", backend: "mma" };
  try {
    const schedules = ["stages=2", "tile=64x64x32 warp=32x32", "stages=99"];
    const made = await Promise.all(schedules.map((schedule) => pool.compile({ ...ask, schedule })));
    expect(made).toEqual(schedules.map((schedule) => compileHere(compiler, { ...ask, schedule })));
    expect(made.map(({ ok }) => ok)).toEqual([true, true, false]);
  } finally {
    pool.close();
  }
});
