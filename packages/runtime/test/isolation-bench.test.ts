/** Benchmarks in a process of their own: whatever a kernel does, it is named, and the next one is measured. */
import { existsSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { formatDiagnostic } from "@tilewright/core";
import { afterAll, expect, test } from "vitest";
import { openIsolatedBench } from "../src/isolation/isolated.ts";
import { measureSurvivors } from "../src/timing/open.ts";
import type { BenchCandidate, BenchJob } from "../src/timing/outcome.ts";
import { gemmArtifact } from "./artifact.ts";
import { must } from "./device-conformance.ts";
import { gemmPtx } from "./kernels.ts";
import { benchJob, size } from "./timing/bench-driver.ts";

const replays = mkdtempSync(join(tmpdir(), "tilewright-bench-isolation-"));
afterAll(() => rmSync(replays, { recursive: true, force: true }));

const driver = { module: new URL("./isolation-driver.ts", import.meta.url).href, name: "bench" };
/** Seconds: enough to start a process on a busy machine. */
const enough = 60;
/** Of kernels without an end, which take all of it. */
const hanging = 4;
const open = async (timeout = enough) =>
  must(await openIsolatedBench({ index: 0, cache: false, driver, replays, timeout, cublas: null }));

/** A candidate whose kernel does what its entry says. */
function candidate(entry: string): BenchCandidate {
  const { ptx, manifest } = gemmArtifact({ ...size, alpha: 1 });
  const kernels = manifest.kernels.map((kernel) => ({ ...kernel, entry }));
  return {
    name: entry,
    artifact: {
      ptx: typeof ptx === "string" ? gemmPtx.replace("entry gemm(", `entry ${entry}(`) : ptx,
      manifest: { ...manifest, kernels },
    },
  };
}
const jobOf = (...entries: readonly string[]): BenchJob =>
  benchJob({ candidates: entries.map(candidate), cublas: null });

test("a job gives what it gives in this process, one after the other on one GPU", async () => {
  const bench = await open();
  expect(bench.name).toBe("NVIDIA H200");
  for (const entry of ["gemm", "other"]) {
    const { outcome, failures } = await measureSurvivors(bench, jobOf(entry));
    expect(failures).toEqual([]);
    expect(outcome?.contenders.map(({ name }) => name)).toEqual([entry]);
    expect(outcome?.regimes[0]?.times[0]?.us.median).toBeCloseTo(100, 6);
    expect(outcome?.notes.map(({ code }) => code)).toEqual(["TW6044"]);
  }
  bench.close();
});

test.each([
  ["hang", "TW6024", /no end after 4 s/],
  ["second", "TW6024", /no end after 4 s/],
  ["crash", "TW6025", /died of SIGABRT/],
  ["illegal", "TW6017", /CUDA_ERROR_ILLEGAL_ADDRESS/],
])(
  "%s: told by its kernel with a replay, and the others are measured on a fresh context",
  async (entry, code, message) => {
    const bench = await open(code === "TW6024" ? hanging : enough);
    const { outcome, failures } = await measureSurvivors(bench, jobOf("gemm", entry, "other"));
    const text = failures.map(formatDiagnostic).join("\n");
    expect(failures.map((failure) => failure.code)).toEqual([code]);
    expect(text).toMatch(message);
    expect(text).toMatch(new RegExp(`kernel ${entry} \\(PTX sha256 [0-9a-f]{64}, grid 8 x 8 x 1`));
    const [, ptx = "", launch = ""] = /tilewright emulate (\S+) --launch (\S+\.json)/.exec(text) ?? [];
    expect(readFileSync(ptx, "utf8")).toContain(`.entry ${entry}(`);
    expect(JSON.parse(readFileSync(launch, "utf8"))).toMatchObject({ entry, params: { length: 6 } });
    expect(outcome?.contenders.map(({ name }) => name)).toEqual(["gemm", "other"]);
    bench.close();
  },
);

test("wrong numbers are told by their kernel without costing the process; the last one that fails leaves nothing", async () => {
  const bench = await open();
  const some = await measureSurvivors(bench, jobOf("wrong", "gemm"));
  expect(some.failures.map(({ code, at }) => [code, at])).toEqual([["TW6048", "wrong"]]);
  expect(some.outcome?.contenders.map(({ name }) => name)).toEqual(["gemm"]);
  const none = await measureSurvivors(bench, jobOf("wrong"));
  expect([none.outcome, none.failures.length]).toEqual([null, 1]);
  expect(existsSync(join(replays, "wrong"))).toBe(false);
  bench.close();
});

test("a cuBLASLt that does not load is said by the first job", async () => {
  const bench = must(
    await openIsolatedBench({
      index: 0,
      cache: false,
      driver,
      replays,
      timeout: enough,
      cublas: "/none/libcublasLt.so",
    }),
  );
  const { outcome, failures } = await measureSurvivors(bench, jobOf("gemm"));
  expect([outcome, failures.map(({ code }) => code)]).toEqual([null, ["TW6040"]]);
  bench.close();
});
