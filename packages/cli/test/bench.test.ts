/** `bench` without a GPU: what the measuring process answers is made up; what is done with it is not. */
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import type { Problem } from "@tilewright/core";
import { type BenchJob, benchInputs } from "@tilewright/runtime";
import { describe, expect, test } from "vitest";
import { scalesOf, seriesOf } from "../src/bench/plot.ts";
import { type BenchPorts, runProgram } from "../src/bench/ports.ts";
import { type BenchRecord, benchRecordSchema } from "../src/bench/record.ts";
import { benchCommand } from "../src/commands/bench.ts";
import { contextIn, type Outcome } from "./harness.ts";
import { lost, type Machine, machine, startCommand } from "./machine.ts";
import { scratch } from "./scratch.ts";

const bench = (line: string, cwd: string, ports: BenchPorts = machine()): Promise<Outcome> =>
  startCommand(benchCommand(ports), line, cwd);

const recordsIn = (path: string): BenchRecord[] =>
  readFileSync(path, "utf8")
    .trim()
    .split("\n")
    .map((line) => benchRecordSchema.parse(JSON.parse(line)));
const sizes = "--arch sm_70 --shapes 512x512x512,1024x1024x1024";

describe("results", () => {
  test("a table of shapes, times and ratios; lines of the published schema in the file", async () => {
    using folder = scratch();
    const { code, stdout } = await bench(`${sizes} --out r.jsonl`, folder.path);
    expect(code).toBe(0);
    expect(stdout).toMatch(/512x512x512 +idle +simt\/sm_70 .*1\.050 \[1\.049 1\.051\] cublas/);
    const records = recordsIn(join(folder.path, "r.jsonl"));
    expect(records.map(({ problem, inputs, regime }) => [problem.m, inputs, regime])).toEqual([
      [512, "normal", "idle"],
      [1024, "normal", "idle"],
    ]);
    expect(records[0]?.contenders[0]).toMatchObject({
      name: "simt/sm_70",
      arch: "sm_70",
      backend: "simt",
      schedule: expect.stringContaining("tile="),
    });
    expect(folder.list()).toEqual(["r.jsonl"]);
  });

  test("--json prints the same lines", async () => {
    using folder = scratch();
    const { stdout } = await bench(`${sizes} --json --regime all`, folder.path);
    const lines = stdout
      .trim()
      .split("\n")
      .map((line) => benchRecordSchema.parse(JSON.parse(line)));
    expect(lines.map(({ regime }) => regime)).toEqual([
      "idle",
      "strict",
      "sustained",
      "idle",
      "strict",
      "sustained",
    ]);
  });

  test("--resume measures only what the file lacks", async () => {
    using folder = scratch();
    await bench("--arch sm_70 --shapes 512x512x512 --out r.jsonl", folder.path);
    const ports = machine();
    await bench(`${sizes} --out r.jsonl --resume`, folder.path, ports);
    expect(ports.jobs.map(({ problem }) => problem.m)).toEqual([1024]);
    expect(recordsIn(join(folder.path, "r.jsonl"))).toHaveLength(2);
  });

  test.each([
    ["the inputs", "--inputs zeros", {}],
    ["the time", "--seconds 2", {}],
    ["the peers", "--vs none", {}],
    ["the kernel", "--schedule tile=64x64x8\tthread=8x8", {}],
    ["the GPU", "", { gpu: "NVIDIA H100" }],
  ])("--resume measures again when %s is another", async (_, flags, gpu) => {
    using folder = scratch();
    await bench("--arch sm_70 --shapes 512x512x512 --out r.jsonl", folder.path);
    const again = machine();
    await bench("--arch sm_70 --shapes 512x512x512 --out r.jsonl --resume", folder.path, again);
    expect(again.jobs).toHaveLength(0);
    const other = machine(gpu);
    const line = `--arch sm_70 --shapes 512x512x512 --out r.jsonl --resume ${flags}`;
    expect((await bench(line.trim(), folder.path, other)).code).toBe(0);
    expect(other.jobs).toHaveLength(1);
    expect(recordsIn(join(folder.path, "r.jsonl"))).toHaveLength(2);
  });

  test("the GPU, the process and its time are what the flags say; every bench is closed", async () => {
    using folder = scratch();
    const ports = machine();
    await bench("--arch sm_70 --shapes 512x512x512 --gpu 2 --timeout 5", folder.path, ports);
    await bench("--arch sm_70 --shapes 512x512x512 --no-isolation --vs none", folder.path, ports);
    expect(ports.opened).toEqual([
      { index: 2, cublas: "/lib/libcublasLt.so.13", isolation: true, timeout: 5 },
      { index: 0, cublas: null, isolation: false, timeout: 120 },
    ]);
    expect(ports.running).toBe(0);
  });

  test("schedules compete under their own names", async () => {
    using folder = scratch();
    const ports = machine();
    const code = await benchCommand(ports).start(contextIn(folder.path), [
      "--arch",
      "sm_70",
      "-m",
      "512",
      "-n",
      "512",
      "-k",
      "512",
      "--schedule",
      "tile=128x128x8; tile=64x64x8 thread=8x8",
    ]);
    expect(code).toBe(0);
    expect(ports.jobs[0]?.candidates.map(({ name }) => name)).toEqual(["simt/sm_70#1", "simt/sm_70#2"]);
  });

  test("--min-ratio that is not reached ends with 6", async () => {
    using folder = scratch();
    expect((await bench(`${sizes} --min-ratio 1.04`, folder.path)).code).toBe(0);
    const { code, stderr } = await bench(`${sizes} --min-ratio 1.06`, folder.path);
    expect(code).toBe(6);
    expect(stderr).toContain("below 1.06: 512x512x512 idle: simt/sm_70 is at 1.050 of cublas");
  });
});

describe("kernels that fail", () => {
  const two = ["--arch", "sm_70", "-m", "512", "-n", "512", "-k", "512", "--schedule"];
  const both = "tile=128x128x8; tile=64x64x8 thread=8x8";

  test("a hang is told by its kernel, with a file that repeats it, and work goes on with the next problem", async () => {
    using folder = scratch();
    const ports = machine({ reply: ({ problem }) => (problem.m === 512 ? lost("simt/sm_70") : undefined) });
    const { code, stderr } = await bench(`${sizes} --out r.jsonl`, folder.path, ports);
    expect(code).toBe(5);
    expect(stderr).toContain(
      "TW6024 (check) at kernel.launch: 512x512x512: no end after 120 s; kernel gemm (PTX",
    );
    expect(stderr).toContain("tilewright emulate /tmp/kernel.ptx");
    expect(recordsIn(join(folder.path, "r.jsonl")).map(({ problem }) => problem.m)).toEqual([1024]);
    const [kept = ""] = folder.list().filter((name) => name.startsWith("bench-failed-"));
    expect(stderr).toContain(`tilewright bench --job ${kept}`);
    const again = machine();
    const repeated = await bench(`--job ${kept} --json`, folder.path, again);
    expect(again.opened).toEqual([
      { index: 0, cublas: "/lib/libcublasLt.so.13", isolation: false, timeout: 0 },
    ]);
    expect(again.jobs.map(({ problem }) => problem.m)).toEqual([512]);
    expect([repeated.code, JSON.parse(repeated.stdout).outcome.regimes[0].regime]).toEqual([0, "idle"]);
  });

  test("the other candidates are measured without the one that failed, which --resume tries again", async () => {
    using folder = scratch();
    const reply = ({ candidates }: BenchJob) =>
      candidates.some(({ name }) => name === "simt/sm_70#1") ? lost("simt/sm_70#1") : undefined;
    const ports = machine({ reply });
    const start = (more: Machine) =>
      benchCommand(more).start(contextIn(folder.path), [...two, both, "--out", "r.jsonl", "--resume"]);
    expect(await start(ports)).toBe(5);
    expect(ports.jobs.map(({ candidates }) => candidates.length)).toEqual([2, 1]);
    const [record] = recordsIn(join(folder.path, "r.jsonl"));
    expect(record?.contenders.map(({ name }) => name)).toEqual(["simt/sm_70#2", "cublas"]);
    expect(record?.notes).toEqual([expect.stringContaining("TW6024")]);
    const mended = machine();
    expect(await start(mended)).toBe(0);
    expect(mended.jobs.map(({ candidates }) => candidates.length)).toEqual([2]);
  });

  test("a peer that fails is left out, and told", async () => {
    using folder = scratch();
    const ports = machine({ reply: ({ cublas }) => (cublas === null ? undefined : lost("cublas")) });
    const { code } = await bench("--arch sm_70 --shapes 512x512x512 --out r.jsonl", folder.path, ports);
    expect(code).toBe(5);
    const [record] = recordsIn(join(folder.path, "r.jsonl"));
    expect(record?.contenders.map(({ name }) => name)).toEqual(["simt/sm_70"]);
  });

  test("no driver is said once, and nothing is measured", async () => {
    using folder = scratch();
    const ports = machine({
      open: async () => ({
        ok: false,
        error: [
          {
            code: "TW6002",
            kind: "toolchain",
            at: "cuda",
            message: "no CUDA driver",
            hint: "install it; or run it on the emulator: --device emulator",
          },
        ],
      }),
    });
    const { code, stderr, stdout } = await bench(`${sizes} --json`, folder.path, ports);
    expect(code).toBe(4);
    expect(stderr.match(/TW6002/g)).toHaveLength(1);
    expect(stderr).toContain("hint: install it; tilewright plan estimates without a GPU");
    expect(JSON.parse(stdout)).toMatchObject({ ok: false });
    expect(ports.jobs).toEqual([]);
  });

  test("a machine that is gone half-way ends the run with what there is", async () => {
    using folder = scratch();
    const gone = { code: "TW6005", kind: "toolchain", at: "cuda", message: "no GPU" } as const;
    const ports = machine({
      reply: ({ problem }) => (problem.m === 512 ? undefined : { culprit: null, diagnostics: [gone] }),
    });
    const line = "--arch sm_70 --shapes 512x512x512,1024x1024x1024,2048x2048x2048 --out r.jsonl";
    const { code } = await bench(line, folder.path, ports);
    expect(code).toBe(4);
    expect(ports.jobs.map(({ problem }) => problem.m)).toEqual([512, 1024]);
    expect(recordsIn(join(folder.path, "r.jsonl"))).toHaveLength(1);
    expect(ports.running).toBe(0);
  });

  test("a program that hangs is killed with its children", async () => {
    const started = performance.now();
    expect(await runProgram("/bin/sh", ["-c", "sleep 30 & sleep 30"], "", 200)).toMatchObject({
      kind: "hung",
    });
    expect(performance.now() - started).toBeLessThan(5000);
  });
});

describe("peers", () => {
  test("a command's times stand beside ours and are told apart", async () => {
    using folder = scratch();
    const ports = machine({
      program: async (_command, input) => ({
        kind: "exited",
        code: 0,
        signal: null,
        stderr: "",
        stdout: `{"m":512,"n":512,"k":512,"name":"other","us":[${JSON.parse(input).seed},5.5,5.6]}\n`,
      }),
    });
    await bench(
      "--arch sm_70 --shapes 512x512x512 --vs cublas,./peer --seed 5 --out r.jsonl",
      folder.path,
      ports,
    );
    const [record] = recordsIn(join(folder.path, "r.jsonl"));
    expect(record?.contenders.find(({ name }) => name === "other")).toMatchObject({
      role: "command",
      us: { median: 5.5 },
      detail: expect.stringContaining("not interleaved"),
    });
    expect(record?.ratios.map(({ peer }) => peer)).toEqual(["cublas", "other"]);
  });

  test("a command gets the rows of each expert, given or even; the job has those given", async () => {
    using folder = scratch();
    const told: unknown[] = [];
    const ports = machine({
      program: async (_command, input) => {
        told.push(JSON.parse(input).rows);
        return { kind: "exited", code: 0, signal: null, stderr: "", stdout: "" };
      },
    });
    const line = "--arch sm_80 -m 12 -n 16 -k 16 --dtype bf16 --experts 3 --vs ./peer";
    expect((await bench(line, folder.path, ports)).code).toBe(0);
    expect((await bench(`${line} --rows 0,5,12`, folder.path, ports)).code).toBe(0);
    expect(told).toEqual([
      [4, 4, 4],
      [0, 5, 7],
    ]);
    expect(ports.jobs.map(({ rows }) => rows)).toEqual([undefined, [0, 5, 7]]);
  });

  test("attention: a job says its FLOP and rows that are right, without cuBLAS; a command gets its sizes and masks", async () => {
    using folder = scratch();
    const told: unknown[] = [];
    const ports = machine({
      program: async (_command, input) => {
        told.push(JSON.parse(input).attention);
        return {
          kind: "exited",
          code: 0,
          signal: null,
          stderr: "",
          stdout: '{"m":9,"n":16,"k":16,"us":[2]}\n',
        };
      },
    });
    const line =
      "--op attention --queries 9 --keys 20 --heads 2 --batch 2 --head-dim 16 --dtype bf16 --causal --arch sm_80";
    const { code } = await bench(`${line} --vs cublas,./peer --seed 7 --out r.jsonl`, folder.path, ports);
    expect([code, told]).toEqual([0, [expect.objectContaining({ queries: 9, causal: "bottom-right" })]]);
    const [job] = ports.jobs;
    const program = job?.program;
    // Of 9 queries the last sees 20 keys, each one before one less.
    expect([job?.cublas, program?.flops]).toEqual([null, 2 * ((12 + 20) / 2) * 9 * 32 * 4]);
    expect([program?.rows, program?.items.map(({ item }) => item)]).toEqual([
      [0, 3, 5, 8],
      [0, 3],
    ]);
    const read = benchInputs(job?.problem as Problem, "normal", 7);
    // Row 5 of the last head: 17 keys.
    const at = (name: "a" | "b" | "epilogue0", row: number, rows: number) =>
      Array.from({ length: 16 }, (_, i) => read(name, (3 * rows + row) * 16 + i));
    const q = at("a", 5, 9);
    const weights = Array.from({ length: 17 }, (_, s) =>
      Math.exp(at("b", s, 20).reduce((sum, x, i) => sum + x * (q[i] ?? 0), 0) / 4),
    );
    const total = weights.reduce((sum, weight) => sum + weight, 0);
    const wanted = weights.reduce(
      (sum, weight, s) => sum + (weight / total) * (at("epilogue0", s, 20)[2] ?? 0),
      0,
    );
    const { values = [], bounds = [] } = program?.items[1] ?? {};
    expect(Math.abs((values[2 * 16 + 2] ?? 0) - wanted)).toBeLessThan(1e-9);
    expect(bounds[2 * 16 + 2]).toBeGreaterThan(0);
    const [record] = recordsIn(join(folder.path, "r.jsonl"));
    expect(record?.contenders[0]?.schedule).toMatch(/^tile=/);
    expect(record?.ratios.map(({ peer }) => peer)).toEqual(["./peer"]);
  });

  test("slopes of attention are drawn above 0, for rows that are checked, too", async () => {
    using folder = scratch();
    const ports = machine();
    const line =
      "--op attention --queries 8 --keys 20 --heads 9 --head-dim 16 --dtype f16 --alibi --arch sm_80";
    await bench(`${line} --out r.jsonl`, folder.path, ports);
    const problem = ports.jobs[0]?.problem as Problem;
    const place = problem.epilogue.findIndex((step) => "name" in step && step.name === "slopes");
    const read = benchInputs(problem, "normal", 7);
    const slopes = Array.from({ length: 9 }, (_, head) => read(`epilogue${place}`, head));
    expect(slopes.every((slope) => slope > 0)).toBe(true);
    expect(new Set(slopes).size).toBe(9);
  });

  test("a command that fails is TW7071", async () => {
    using folder = scratch();
    const { code, stderr } = await bench("--arch sm_70 --shapes 512x512x512 --vs exit\t3", folder.path);
    expect(code).toBe(4);
    expect(stderr).toContain("TW7071 (toolchain) at --vs exit\\u00093: the peer ended with exit code 3");
  });

  test("cuBLAS that is absent: an error when named, a remark when not", async () => {
    using folder = scratch();
    const absent = {
      ok: false,
      error: [{ code: "TW6040", kind: "toolchain", at: "cublaslt", message: "no libcublasLt was found" }],
    } as const;
    const ports = machine({ cublas: async () => absent });
    expect((await bench(`${sizes} --vs cublas`, folder.path, ports)).code).toBe(4);
    expect(ports.jobs).toEqual([]);
    const { code, stderr } = await bench(sizes, folder.path, ports);
    expect(code).toBe(0);
    expect(stderr).toContain("without cuBLAS: no libcublasLt was found");
    expect(ports.jobs[0]?.cublas).toBeNull();
  });
});

describe("--compare and --plot", () => {
  async function file(folder: string, name: string, speed: number): Promise<void> {
    await bench(`${sizes} --out ${name}`, folder, machine({ speed }));
  }

  test("a change beyond noise is told, one within is not; slower ends with 6", async () => {
    using folder = scratch();
    await file(folder.path, "old.jsonl", 1.05);
    await file(folder.path, "near.jsonl", 1.054);
    await file(folder.path, "slow.jsonl", 1.0);
    const near = await bench("--compare old.jsonl near.jsonl", folder.path);
    expect([near.code, near.stdout]).toEqual([0, expect.stringContaining("0 faster, 0 slower, 2 same")]);
    const slow = await bench("--compare old.jsonl slow.jsonl --json", folder.path);
    expect(slow.code).toBe(6);
    expect(JSON.parse(slow.stdout).changes[0]).toMatchObject({
      verdict: "slower",
      by: "ratio",
      peer: "cublas",
      change: expect.closeTo(1 / 1.05, 6),
    });
    const fast = await bench("--compare slow.jsonl old.jsonl", folder.path);
    expect([fast.code, fast.stdout]).toEqual([0, expect.stringContaining("2 faster")]);
  });

  test("points of a plot lie where their numbers are", async () => {
    using folder = scratch();
    await file(folder.path, "r.jsonl", 1.05);
    expect((await bench("r.jsonl --plot out.svg", folder.path)).code).toBe(0);
    const svg = readFileSync(join(folder.path, "out.svg"), "utf8");
    const records = recordsIn(join(folder.path, "r.jsonl"));
    const series = seriesOf(records);
    expect(series.map(({ name }) => name)).toEqual(["simt/sm_70", "cublas", "roofline"]);
    const { x, y, top } = scalesOf(series);
    // The roofline of the fake, 66.9, is near enough to be in the picture.
    expect(top).toBe(75);
    for (const { points } of series)
      for (const point of points)
        expect(svg).toContain(`cx="${x(point.x).toFixed(1)}" cy="${y(point.y).toFixed(1)}"`);
    // Faster is higher, larger is further right, and all of it inside.
    expect(y(52.5)).toBeLessThan(y(50));
    expect(x(2 * 1024 ** 3)).toBeGreaterThan(x(2 * 512 ** 3));
    expect(y(75)).toBe(68);
    expect(y(0)).toBe(480);
    for (const [, cy = ""] of svg.matchAll(/ cy="([\d.]+)"/g)) expect(Number(cy)).toBeGreaterThanOrEqual(68);
    for (const side of [512, 1024]) expect(svg).toContain(`fill="#555555">${side}</text>`);
  });
});

describe("bad input", () => {
  test.each([
    ["-m 8 -n 8 -k 8 --device emulator", 3, "TW7070 (unsupported) at --device: bench measures GPUs"],
    ["--shapes 512x512x512 -m 4", 2, "TW7005 (invalid) at --shapes"],
    ["--shapes none.json", 2, "TW7010 (invalid) at none.json"],
    ["--shapes 0x4x4", 2, "TW7003 (invalid) at --shapes: 0x4x4 has a size that is none"],
    ["--shapes 64x64", 2, "TW7003 (invalid) at --shapes: 64x64 is neither a file nor a list of sizes"],
    ["--shapes 8x8x8 --gpu -1", 2, "TW7003 (invalid) at --gpu: -1 is no index"],
    ["--shapes 8x8x8 --gpu 0.5", 2, "TW7003 (invalid) at --gpu: 0.5 is no index"],
    ["--shapes 8x8x8 --resume", 2, "TW7005 (invalid) at --resume"],
    ["--shapes 8x8x8 --seconds 0", 2, "TW7003 (invalid) at --seconds: 0 is not above 0"],
    ["--shapes 8x8x8 --vs none,cublas", 2, "TW7005 (invalid) at --vs"],
    ["-m 8 -n 8 -k 8 --experts 2 --rows 5,9", 2, "TW1020 (invalid) at offsets[1]: 9 is no number of rows"],
    ["-m 8 -n 8 -k 8 --rows 5,9", 2, "TW7005 (invalid) at --rows: are those of experts"],
    ["--shapes 8x8x8 --regime hot", 2, "TW7003 (invalid) at --regime"],
    ["--shapes 8x8x8 --arch sm_71", 2, "TW1101"],
    ["--compare old.jsonl", 2, "TW7004 (invalid) at --compare"],
    ["--compare old.jsonl new.jsonl", 2, "TW7010 (invalid) at old.jsonl"],
    ["what.jsonl", 2, "TW7006 (invalid) at what.jsonl"],
    ["--job none.json", 2, "TW7010 (invalid) at none.json"],
  ])("%s: exit code %i, %s", async (line, code, message) => {
    using folder = scratch();
    const outcome = await bench(line, folder.path);
    expect(outcome.stderr).toContain(message);
    expect(outcome.code).toBe(code);
    expect(folder.list()).toEqual([]);
  });

  test("a shapes file that does not validate: all of its faults", async () => {
    using folder = scratch();
    writeFileSync(
      join(folder.path, "s.json"),
      JSON.stringify({
        square: [
          [0, 1, 1],
          [1, 1],
        ],
        llm: "big",
      }),
    );
    const { code, stderr } = await bench("--shapes s.json", folder.path);
    expect(code).toBe(2);
    for (const at of ["square[0][0]", "square[1]", "llm"])
      expect(stderr).toContain(`TW7012 (invalid) at ${at}`);
  });

  test("results that are none: each line by its number", async () => {
    using folder = scratch();
    writeFileSync(join(folder.path, "a.jsonl"), '{"kind":"other"}\nnot json\n');
    writeFileSync(join(folder.path, "b.jsonl"), "");
    const { code, stderr } = await bench("--compare a.jsonl b.jsonl", folder.path);
    expect(code).toBe(2);
    expect(stderr).toContain("a.jsonl:1");
    expect(stderr).toContain("a.jsonl:2");
    writeFileSync(join(folder.path, "a.jsonl"), "text\n".repeat(500));
    const long = await bench("--compare a.jsonl b.jsonl", folder.path);
    expect(long.stderr).toContain("490 more lines are no results");
    expect(long.stderr).not.toContain("a.jsonl:11");
  });
});
