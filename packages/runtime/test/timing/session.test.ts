/** A whole measurement on the fake driver: what is told, what is refused, and that everything is given back. */
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import {
  bytesOfStorage,
  ok,
  type ParamSpec,
  type Problem,
  readProblemRequest,
  referenceGemm,
} from "@tilewright/core";
import { describe, expect, test } from "vitest";
import type { GemmArtifact } from "../../src/gemm.ts";
import { keepReplay } from "../../src/isolation/replay.ts";
import { deviceOperands, expertOperands, type OperandName } from "../../src/operands.ts";
import { CudaTimingStream } from "../../src/timing/cuda-stream.ts";
import type { BenchJob, BenchOutcome, BenchStage } from "../../src/timing/outcome.ts";
import { benchReplays } from "../../src/timing/replay.ts";
import { type BenchMachine, BenchSession } from "../../src/timing/session.ts";
import { gemmProblem, gemmSpec } from "../artifact.ts";
import type { FakeKernel } from "../fake/cuda/index.ts";
import { FakeNvml } from "../fake/nvml.ts";
import { gemm, u64 } from "../kernels.ts";
import { type BenchDriver, benchCublas, benchDriver, benchJob, onPoison, size } from "./bench-driver.ts";

function outcome(
  job: BenchJob,
  machine: Omit<BenchMachine, "nvml"> & Partial<BenchMachine>,
  tell?: (stage: BenchStage) => void,
) {
  const session = BenchSession.open({ nvml: null, ...machine });
  if (!session.ok) throw new Error(JSON.stringify(session.error));
  const result = session.value.run(job, tell);
  session.value.close();
  return result;
}

function measured(
  job: BenchJob,
  machine: Omit<BenchMachine, "nvml"> & Partial<BenchMachine>,
  tell?: (stage: BenchStage) => void,
): BenchOutcome {
  const result = outcome(job, machine, tell);
  if (!result.ok) throw new Error(JSON.stringify(result.error));
  return result.value;
}

/** An artefact whose one kernel takes these buffers. */
function artifactOf(problem: Problem, names: readonly (OperandName | "groups")[]): GemmArtifact {
  const params = names.map((name, i): ParamSpec => {
    const access = name === "d" ? "write" : "read";
    return { kind: "pointer", name, offset: 8 * i, size: 8, align: 16, access };
  });
  const text = names.map((name) => `.param .u64 gemm_${name}`).join(", ");
  return {
    ptx: `.version 8.8\n.target sm_90\n.address_size 64\n.visible .entry gemm(${text})\n{\n  ret;\n}\n`,
    manifest: { request: problem, kernels: [{ ...gemmSpec, params }] },
  };
}

const clean = (driver: BenchDriver): void => {
  expect(driver.alive()).toEqual([]);
  expect(driver.misuse).toEqual([]);
};

describe("a measurement", () => {
  test("candidate, cuBLAS's first choice and its best, with times, ratios, checks and hashes", () => {
    const driver = benchDriver({ launchUs: 100 });
    const cublas = benchCublas(driver, [110, 130, 90]);
    const nvml = new FakeNvml({ smMHz: () => 1755, reasons: () => 4n });
    const found = measured(benchJob(), { driver, cublas, nvml, busId: "0000:17:00.0" });
    expect(found.contenders.map(({ name, role }) => [name, role])).toEqual([
      ["ours", "candidate"],
      ["cublas", "peer"],
      ["cublas-best", "peer"],
    ]);
    const [regime] = found.regimes;
    expect(regime?.times.map(({ us }) => us.median)).toEqual([
      expect.closeTo(100, 6),
      expect.closeTo(110, 6),
      expect.closeTo(90, 6),
    ]);
    expect(regime?.ratios.map(({ candidate, peer, ratio }) => [candidate, peer, ratio.value])).toEqual([
      ["ours", "cublas", expect.closeTo(1.1, 6)],
      ["ours", "cublas-best", expect.closeTo(0.9, 6)],
    ]);
    for (const { check } of found.contenders) {
      expect(check.sampled).toBe(64);
      expect(check.boundRatio).toBeLessThanOrEqual(1);
      expect(check.unwritten).toBe(0);
    }
    expect(found.contenders[0]?.ptxSha256).toMatch(/^[0-9a-f]{64}$/);
    expect(found.contenders[0]?.cubinSha256).toMatch(/^[0-9a-f]{64}$/);
    expect(found.contenders[0]?.cubinSha256).not.toBe(found.contenders[0]?.ptxSha256);
    expect(found.gpu).toMatchObject({ name: "NVIDIA H200", driver: "580.159.04", powerLimitWatts: 700 });
    expect(regime?.state?.smMHz).toEqual({ min: 1755, median: 1755, max: 1755 });
    expect(regime?.state?.reasons).toEqual(["powerCap"]);
    // 2048 FLOP in 100 us, of 132 * 256 FLOP at 1755 MHz.
    const share = (2048 / 100e-6 / (132 * 256 * 1755e6)) * 100;
    expect(regime?.times[0]?.percentAtClock).toBeCloseTo(share, 10);
    expect(nvml.open).toBe(0);
    expect(cublas.alive()).toEqual([]);
    clean(driver);
  });

  test("buffer sets are at least twice the L2", () => {
    const driver = benchDriver();
    const found = measured(benchJob({ cublas: null }), { driver, cublas: null });
    expect(found.rotatedBytes).toBeGreaterThanOrEqual(2 * 4096);
    expect(found.sets).toBe(Math.ceil(8192 / (4 * (8 * 16 + 16 * 8 + 8 * 8))));
  });

  test("all three regimes, each by its name", () => {
    const driver = benchDriver();
    const found = measured(benchJob({ regimes: ["idle", "strict", "sustained"] }), {
      driver,
      cublas: benchCublas(driver, [100]),
    });
    expect(found.regimes.map(({ regime }) => regime)).toEqual(["idle", "strict", "sustained"]);
    for (const { times } of found.regimes) expect(times[0]?.us.median).toBeCloseTo(100, 6);
    clean(driver);
  });

  test("kernels under 20 us are timed in a graph, too", () => {
    const driver = benchDriver({ launchUs: 5 });
    const found = measured(benchJob(), { driver, cublas: benchCublas(driver, [6]) });
    expect(found.graph.map(({ name }) => name)).toEqual(["ours", "cublas"]);
    expect(found.graph[0]?.us.median).toBeCloseTo(5, 6);
    expect(found.graphRatios[0]?.ratio.value).toBeCloseTo(1.2, 6);
    expect(measured(benchJob({ cublas: null }), { driver: benchDriver(), cublas: null }).graph).toEqual([]);
    clean(driver);
  });

  const squares = { a: "1x128", b: "128x128" };
  test.each([
    ["nvf4", "nvf4", {}],
    ["mxf6e3m2", "mxf4", {}],
    ["e4m3", "e5m2", { k: 300, op: "ffn", blockScales: squares }],
    ["e4m3", "e4m3", { k: 300, op: "ffn", gated: "matrices", blockScales: squares }],
  ])("elements of %s by %s: bits side by side, factors beside them, %o", (dtype, other, more) => {
    const made = readProblemRequest({
      m: 40,
      n: 136,
      k: 96,
      a: { dtype },
      b: { dtype: other, layout: "col" },
      d: { dtype: "f32" },
      ...more,
    });
    if (!made.ok) throw new Error(JSON.stringify(made.error));
    const problem = made.value;
    const names = deviceOperands(problem).map(({ name, bytes }) => ({ name, bytes }));
    const kernel: FakeKernel = (launch) => {
      const memory = new Map(
        names.map(({ name, bytes }, i) => [name, launch.memory(u64(launch.params[i]), bytes)] as const),
      );
      const of = (name: OperandName): Uint8Array => memory.get(name) ?? new Uint8Array();
      const d = of("d");
      const { values } = referenceGemm(problem, {
        a: of("a"),
        b: of("b"),
        sfa: memory.get("sfa") ?? null,
        sfb: memory.get("sfb") ?? null,
        steps: problem.epilogue.map((_, i) => memory.get(`epilogue${i}`) ?? null),
      }).d;
      d.set(bytesOfStorage(Float32Array.from(values)));
      return undefined;
    };
    const driver = benchDriver({
      kernel: onPoison(
        kernel,
        names.findIndex(({ name }) => name === "d"),
      ),
    });
    const artifact = artifactOf(
      problem,
      names.map(({ name }) => name),
    );
    const candidates = [{ name: "ours", artifact }];
    const found = measured(benchJob({ problem, candidates, cublas: null }), { driver, cublas: null });
    expect(found.contenders[0]?.check).toMatchObject({ unwritten: 0 });
    expect(found.contenders[0]?.check.sampled).toBeGreaterThan(900);
    expect(found.contenders[0]?.check.boundRatio).toBeLessThanOrEqual(1);
    clean(driver);
  });

  const expertProducts = {
    gated: { op: "ffn", gated: "matrices", m: 40, n: 32, k: 24, b: { layout: "col" }, dtype: "f32" },
    deep: { m: 24, n: 32, k: 40, a: { layout: "col" }, expertAxis: "k", dtype: "f32" },
    weights: {
      m: 40,
      n: 32,
      k: 128,
      dtype: "bf16",
      d: { dtype: "f32" },
      weights: { dtype: "s4", group: 64 },
    },
  } as const;
  type ExpertProduct = keyof typeof expertProducts;

  /** Experts with two matrices of a gated product, with weights in few bits, or that differ in k: a job, and a kernel that makes all of D but the last `left` experts'. */
  function experts(of: ExpertProduct, rows: "offsets" | "counts", counts: readonly number[], left: number) {
    const count = counts.length;
    const axis = of === "deep" ? "k" : "m";
    const made = readProblemRequest({ ...expertProducts[of], experts: count, expertRows: rows });
    if (!made.ok) throw new Error(JSON.stringify(made.error));
    const problem = made.value;
    const operands = expertOperands(problem, counts);
    const names = [...operands.map(({ name }) => name), "groups"] as const;
    const told: number[][] = [];
    const kernel: FakeKernel = (launch) => {
      const memory = operands.map(({ bytes }, i) => launch.memory(u64(launch.params[i]), bytes));
      const groups = launch.memory(u64(launch.params[operands.length]), 4 * count);
      told.push([...new Int32Array(groups.buffer, groups.byteOffset, count)]);
      for (const [g, own] of counts.slice(0, count - left).entries()) {
        if (own === 0 && axis === "m") continue;
        const part = (name: OperandName): Uint8Array => {
          const i = operands.findIndex((operand) => operand.name === name);
          const { at, bytes } = operands[i]?.parts[g] ?? { at: 0, bytes: 0 };
          return memory[i]?.subarray(at, at + bytes) ?? new Uint8Array();
        };
        const floats = (name: OperandName) => new Float32Array(Uint8Array.from(part(name)).buffer);
        const one = { ...problem, [axis]: own, batch: { kind: "none" } } as const;
        const inputs =
          of === "weights"
            ? { a: new Uint16Array(part("a").slice().buffer), b: part("b"), sfb: part("sfb") }
            : { a: floats("a"), b: floats("b"), steps: [null, floats("epilogue1")] };
        part("d").set(bytesOfStorage(Float32Array.from(referenceGemm(one, inputs).d.values)));
      }
      return undefined;
    };
    const driver = benchDriver({ kernel: onPoison(kernel, names.indexOf("d")) });
    const candidates = [{ name: "ours", artifact: artifactOf(problem, names) }];
    return { driver, told, job: benchJob({ problem, candidates, rows: counts }) };
  }

  test.each([
    ["gated", "offsets", [17, 0, 1, 22], [17, 17, 18, 40], 64 * 24],
    ["gated", "counts", [0, 40, 3, 1], [0, 40, 3, 1], 64 * 24],
    ["weights", "offsets", [17, 0, 1, 22], [17, 17, 18, 40], 32 * 128],
    ["weights", "counts", [0, 40, 3, 1], [0, 40, 3, 1], 32 * 128],
    ["deep", "offsets", [0, 17, 1, 22], [0, 17, 18, 40], 24 * 32],
  ] as const)(
    "experts, %s, by %s: int32 beside the operands, numbers of several experts, and their work",
    (of, rows, counts, data, others) => {
      const { driver, told, job } = experts(of, rows, counts, 0);
      const found = measured(job, { driver, cublas: benchCublas(driver, [100]) });
      expect(found.contenders.map(({ name }) => name)).toEqual(["ours"]);
      expect(told[0]).toEqual(data);
      const sum = counts.reduce<number>((a, b) => a + b, 0);
      expect(found.floor.flops).toBe(2 * sum * others);
      expect(found.contenders[0]?.check.unwritten).toBe(0);
      expect(found.contenders[0]?.check.boundRatio).toBeLessThanOrEqual(1);
      clean(driver);
      const lacking = experts(of, rows, counts, 1);
      const refused = outcome(lacking.job, { driver: lacking.driver, cublas: null });
      expect(!refused.ok && refused.error[0]).toMatchObject({ code: "TW6048" });
    },
  );

  test("the host waits once a batch: far fewer synchronisations than samples", () => {
    const driver = benchDriver({ launchUs: 20 });
    const found = measured(
      benchJob({ measure: { warmupMs: 2, budgetMs: 20, minRounds: 100 }, regimes: ["strict"] }),
      { driver, cublas: benchCublas(driver, [20]) },
    );
    const samples = 2 * (found.regimes[0]?.times[0]?.us.samples ?? 0);
    expect(samples).toBeGreaterThanOrEqual(200);
    expect(driver.callsOf("streamSynchronize").length).toBeLessThan(samples / 5);
    expect(driver.callsOf("eventSynchronize")).toEqual([]);
  });

  test("inputs of a seed are the same in every session, and differ between A and B", () => {
    const inputs: Uint8Array[][] = [];
    for (let i = 0; i < 2; i++) {
      const seen: Uint8Array[] = [];
      const driver = benchDriver({
        kernel: (launch) => {
          if (seen.length === 0)
            seen.push(
              launch
                .memory(
                  new DataView(launch.params[0]?.buffer ?? new ArrayBuffer(8)).getBigUint64(0, true),
                  512,
                )
                .slice(),
              launch
                .memory(
                  new DataView(launch.params[1]?.buffer ?? new ArrayBuffer(8)).getBigUint64(0, true),
                  512,
                )
                .slice(),
            );
          return gemm(launch);
        },
      });
      measured(benchJob({ cublas: null }), { driver, cublas: null });
      inputs.push(seen);
    }
    expect(inputs[0]).toEqual(inputs[1]);
    expect(inputs[0]?.[0]).not.toEqual(inputs[0]?.[1]);
    const values = new Float32Array(inputs[0]?.[0]?.buffer ?? new ArrayBuffer(0));
    const mean = values.reduce((sum, x) => sum + x, 0) / values.length;
    expect(Math.abs(mean)).toBeLessThan(0.4);
    expect(Math.max(...values)).toBeGreaterThan(1);
  });
});

describe("for whoever watches the process", () => {
  test("every stage is told before it begins, with whose work it is", () => {
    const driver = benchDriver({ kernel: () => 700 });
    const stages: string[] = [];
    const found = outcome(
      benchJob(),
      { driver, cublas: benchCublas(driver, [100, 90]) },
      ({ doing, name, numSms }) => stages.push(`${doing} ${name} ${numSms}`),
    );
    expect(found.ok).toBe(false);
    expect(stages).toEqual(["loading ours 132", "trying out cublas 132", "checking ours 132"]);
    const good: (string | null)[] = [];
    const other = benchDriver();
    measured(benchJob(), { driver: other, cublas: benchCublas(other, [100]) }, ({ doing, name }) =>
      good.push(`${doing} ${name}`),
    );
    expect(good.slice(-3)).toEqual(["checking ours", "checking cublas", "measuring null"]);
  });

  test("a candidate becomes files for the emulator; a peer does not", () => {
    const root = mkdtempSync(join(tmpdir(), "tilewright-bench-replay-"));
    try {
      const numSms = 132;
      const [replay] = benchReplays(benchJob(), { doing: "checking", name: "ours", numSms }, { numSms });
      if (replay === undefined) throw new Error("no replay");
      const kept = keepReplay(replay, root);
      expect(kept.identity).toMatch(/^gemm \(PTX sha256 [0-9a-f]{64}, grid 8 x 8 x 1, block 1 x 1 x 1/);
      const path = /--launch (\S+launch\.json)$/.exec(kept.again ?? "")?.[1] ?? "";
      expect(JSON.parse(readFileSync(path, "utf8"))).toEqual({
        entry: "gemm",
        grid: [8, 8, 1],
        block: [1, 1, 1],
        buffers: {
          a: { dtype: "f32", shape: [128], fill: { normal: { seed: 1 } } },
          b: { dtype: "f32", shape: [128], fill: { normal: { seed: 2 } } },
          d: { bytes: 256, fill: "none" },
        },
        params: [{ buffer: "a" }, { buffer: "b" }, { buffer: "d" }, 1, 8, 16],
      });
      const suspects = (name: string | null) =>
        benchReplays(benchJob(), { doing: "measuring", name, numSms }, { numSms }).length;
      expect([suspects("cublas"), suspects(null)]).toEqual([0, 1]);
      expect(benchReplays(benchJob(), null, { numSms })).toEqual([]);
    } finally {
      rmSync(root, { recursive: true, force: true });
    }
  });
});

describe("what is refused", () => {
  const wrong = (job: BenchJob, driver: BenchDriver, cublas = benchCublas(driver, [100])) => {
    const result = outcome(job, { driver, cublas });
    clean(driver);
    expect(cublas.alive()).toEqual([]);
    return result.ok ? [] : result.error.map(({ code, message }) => `${code} ${message}`);
  };

  test("a kernel that is off by little more than the bound", () => {
    const driver = benchDriver({
      kernel: (launch) => {
        const status = gemm(launch);
        const view = new DataView(launch.params[2]?.buffer ?? new ArrayBuffer(8));
        const d = launch.memory(view.getBigUint64(0, true), 4);
        const first = new DataView(d.buffer, d.byteOffset, 4);
        first.setFloat32(0, first.getFloat32(0, true) + 1e-3, true);
        return status;
      },
    });
    expect(wrong(benchJob(), driver)).toEqual([
      expect.stringMatching(/^TW6048 ours computes wrong numbers: errors of up to/),
    ]);
  });

  test("a kernel that leaves elements out", () => {
    const driver = benchDriver({ kernel: () => undefined });
    expect(wrong(benchJob(), driver)[0]).toMatch(/^TW6048 ours computes wrong numbers/);
  });

  test("a time below the floor", () => {
    const driver = benchDriver({ launchUs: 0.00001 });
    expect(wrong(benchJob({ cublas: null }), driver)).toEqual([
      expect.stringMatching(/^TW6046 ours measured .* below the floor/),
    ]);
  });

  test("reductions and grouped batches, both at once", () => {
    const problem = {
      ...gemmProblem({ ...size, alpha: 1 }),
      batch: { kind: "grouped", count: 2 } as const,
      epilogue: [{ kind: "reduce", op: "amax", over: "all", dtype: "f32" } as const],
    };
    const driver = benchDriver();
    expect(wrong(benchJob({ problem }), driver).map((text) => text.slice(0, 6))).toEqual([
      "TW6047",
      "TW6047",
    ]);
  });

  test("a kernel that faults is told as a fault, and all is given back", () => {
    const driver = benchDriver({ kernel: () => 700 });
    expect(wrong(benchJob({ cublas: null }), driver)[0]).toMatch(/^TW6017/);
  });

  test("no GPU of that index", () => {
    const session = BenchSession.open({ driver: benchDriver(), index: 3, nvml: null, cublas: null });
    expect(session.ok ? [] : session.error.map(({ code }) => code)).toEqual(["TW6006"]);
  });

  test("too little memory says so and frees what was made", () => {
    const driver = benchDriver();
    driver.failCall("memAlloc", 2, { skip: 4 });
    expect(wrong(benchJob(), driver)[0]).toMatch(/^TW6013/);
  });
});

describe("what is only noted", () => {
  test.each([
    ["heuristic", 15, "TW6043"],
    ["heuristic", 14, "TW6042"],
    ["create", 1, "TW6042"],
    ["descSet", 7, "TW6042"],
    ["layoutCreate", 3, "TW6042"],
    ["preferenceSet", 7, "TW6042"],
  ] as const)("cuBLASLt's %s fails with %i", (call, status, code) => {
    const driver = benchDriver();
    const cublas = benchCublas(driver, [100], { failing: { [call]: status } });
    const found = measured(benchJob(), { driver, cublas });
    expect(found.contenders.map(({ name }) => name)).toEqual(["ours"]);
    expect(found.notes.map((note) => note.code)).toEqual([code]);
    expect(found.cublasVersion).toBeNull();
    expect(cublas.alive()).toEqual([]);
    clean(driver);
  });

  test("an algorithm that does not run is left out, the others stay", () => {
    const driver = benchDriver();
    const cublas = benchCublas(driver, [100, 100, 80]);
    const { matmul } = cublas;
    cublas.matmul = (call) =>
      call.algorithm[0] === 0 ? { ok: false, error: 13 } : matmul.call(cublas, call);
    const found = measured(benchJob(), { driver, cublas });
    expect(found.contenders.map(({ name }) => name)).toEqual(["ours", "cublas", "cublas-best"]);
    expect(found.notes.map(({ message }) => message)).toEqual([expect.stringContaining("choice 1")]);
  });

  test("a peer that comes to wait for the device in its launches is left out, and the candidate is measured", () => {
    const driver = benchDriver();
    const cublas = benchCublas(driver, [100]);
    const { matmul } = cublas;
    let calls = 0;
    let hostMs = 0;
    let waitMs = 1000;
    cublas.matmul = (call) => {
      if (++calls > 10) hostMs += waitMs *= 3;
      return matmul.call(cublas, call);
    };
    const found = measured(benchJob(), {
      driver,
      cublas,
      stream: (context) => {
        const opened = CudaTimingStream.open(context);
        if (opened.ok) opened.value.now = () => hostMs;
        return opened;
      },
    });
    expect(found.contenders.map(({ name }) => name)).toEqual(["ours"]);
    expect(found.regimes[0]?.times[0]?.us.median).toBeCloseTo(100, 6);
    expect(found.notes.map(({ code, at }) => [code, at])).toEqual([["TW6049", "cublas"]]);
    clean(driver);
  });

  test("a graph whose replays wait for the device is left out, and what was measured stands", () => {
    const driver = benchDriver({ launchUs: 5 });
    let hostMs = 0;
    let waitMs = 1000;
    const found = measured(benchJob({ cublas: null }), {
      driver,
      cublas: null,
      stream: (context) => {
        const opened = CudaTimingStream.open(context);
        if (!opened.ok) return opened;
        const { record } = opened.value;
        opened.value.now = () => hostMs;
        opened.value.record = (queue) => {
          const recorded = record.call(opened.value, queue);
          if (!recorded.ok || recorded.value === null) return recorded;
          const graph = recorded.value;
          const launch = () => {
            hostMs += waitMs *= 1.2;
            return graph.launch();
          };
          return ok({ launch, destroy: () => graph.destroy() });
        };
        return opened;
      },
    });
    expect(found.regimes[0]?.times[0]?.us.median).toBeCloseTo(5, 6);
    expect(found.graph).toEqual([]);
    expect(found.notes.map(({ code, at }) => [code, at])).toEqual([["TW6049", "ours"]]);
    clean(driver);
  });

  test("NVML that does not answer: no clocks, and the reason", () => {
    const driver = benchDriver();
    const nvml = new FakeNvml({ failing: { init: 9 } });
    const found = measured(benchJob({ cublas: null }), { driver, cublas: null, nvml });
    expect(found.regimes[0]?.state).toBeNull();
    expect(found.regimes[0]?.times[0]?.percentAtClock).toBeNull();
    expect(found.notes.map(({ code }) => code)).toEqual(["TW6044"]);
  });
});
