/** Whatever a kernel does to its process, the next one runs. */
import { existsSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { formatDiagnostic } from "@tilewright/core";
import { afterAll, expect, test } from "vitest";
import { IsolatedDevice, type IsolatedOptions } from "../src/isolation/isolated.ts";
import { workerFile } from "../src/isolation/process.ts";
import type { IsolatedLaunch } from "../src/isolation/protocol.ts";
import { keepReplay, launchReplay } from "../src/isolation/replay.ts";
import { gemmArtifact, integers, product } from "./artifact.ts";
import { bytesOf, codesOf, floatsOf, must } from "./device-conformance.ts";
import { axpyPtx, gemmPtx } from "./kernels.ts";

const replays = mkdtempSync(join(tmpdir(), "tilewright-replays-"));
afterAll(() => rmSync(replays, { recursive: true, force: true }));

const driver = { module: new URL("./isolation-driver.ts", import.meta.url).href, name: "source" };
const open = async (options: Partial<IsolatedOptions> = {}) =>
  must(await IsolatedDevice.open({ index: 0, cache: false, driver, replays, ...options }));

/** axpy under another entry: 4 floats, plus 2. */
const launchOf = (entry: string): IsolatedLaunch => ({
  image: axpyPtx.replaceAll("axpy", entry),
  entry,
  grid: [1, 1, 1],
  block: [32, 1, 1],
  buffers: { p: { size: 16, data: bytesOf([1, 2, 3, 4]) } },
  args: [{ buffer: "p" }, { value: 4 }, { value: 2 }],
  outputs: ["p"],
});
const rightAgain = async (device: IsolatedDevice) =>
  expect(floatsOf(must(await device.launch(launchOf("axpy"))).outputs.p ?? new Uint8Array())).toEqual([
    3, 4, 5, 6,
  ]);

test("a launch and a GEMM give what they give in this process", async () => {
  using device = await open();
  expect(device).toMatchObject({ kind: "cuda", name: "NVIDIA H200", arch: "sm_90", numSms: 132 });
  await rightAgain(device);
  const [a, b] = [integers(15, 1), integers(21, 2)];
  const result = must(
    await device.gemm(gemmArtifact({ m: 5, n: 7, k: 3, alpha: 2 }), { a: bytesOf(a), b: bytesOf(b) }),
  );
  expect(floatsOf(result.d)).toEqual(product(a, b, 5, 7, 3).map((value) => 2 * value));
  expect(device.restarts).toBe(0);
});

test.each([
  ["hang", "TW6024", /no end after 1 s/],
  ["crash", "TW6025", /died of SIGABRT/],
  ["leave", "TW6025", /ended with code 3/],
  ["illegal", "TW6017", /CUDA_ERROR_ILLEGAL_ADDRESS/],
  ["failed", "TW6017", /CUDA_ERROR_LAUNCH_FAILED/],
])("after %s the next kernel runs in a fresh process", async (entry, code, message) => {
  using device = await open(entry === "hang" ? { timeout: 1 } : {});
  await rightAgain(device);
  const outcome = await device.launch(launchOf(entry));
  expect(codesOf(outcome)).toEqual([code]);
  const text = outcome.ok ? "" : outcome.error.map(formatDiagnostic).join("\n");
  expect(text).toMatch(message);
  expect(text).toMatch(
    new RegExp(`kernel ${entry} \\(PTX sha256 [0-9a-f]{64}, grid 1 x 1 x 1, block 32 x 1 x 1`),
  );
  expect(text).not.toContain("start a new one");
  const launch = /--launch (\S+launch\.json)/.exec(text)?.[1] ?? "";
  const folder = join(launch, "..");
  expect(readFileSync(join(folder, "kernel.ptx"), "utf8")).toContain(`.entry ${entry}(`);
  expect(JSON.parse(readFileSync(launch, "utf8"))).toEqual({
    entry,
    grid: [1, 1, 1],
    block: [32, 1, 1],
    buffers: { p: { fill: { file: "p.npy" } } },
    params: [{ buffer: "p" }, 4, 2],
  });
  const npy = readFileSync(join(folder, "p.npy"));
  expect(npy.length % 64).toBe(16);
  expect(new Uint8Array(npy.subarray(-16))).toEqual(bytesOf([1, 2, 3, 4]));
  await rightAgain(device);
  expect(device.restarts).toBe(1);
});

test("what is no fault keeps the process and writes no replay", async () => {
  using device = await open();
  const outcome = await device.launch({ ...launchOf("axpy"), buffers: { p: { size: 2 ** 30 } } });
  expect(codesOf(outcome)).toEqual(["TW6013"]);
  expect(outcome.ok ? "" : outcome.error[0]?.message).toMatch(/1073741824 B .* were asked for, .* are free/);
  expect(codesOf(await device.launch({ ...launchOf("axpy"), args: [] }))).toEqual(["TW6015"]);
  expect(codesOf(await device.launch({ ...launchOf("axpy"), outputs: ["q"] }))).toEqual(["TW6021"]);
  await rightAgain(device);
  expect(device.restarts).toBe(0);
});

test("a GEMM that faults has its inputs and scalars in the replay", async () => {
  using device = await open({ timeout: 1 });
  const artifact = gemmArtifact({ m: 2, n: 2, k: 2, alpha: "runtime" });
  const kernels = artifact.manifest.kernels.map((kernel) => ({ ...kernel, entry: "hang" }));
  const outcome = await device.gemm(
    {
      ptx: gemmPtx.replace("entry gemm(", "entry hang("),
      manifest: { ...artifact.manifest, kernels, ...{ plan: { schedule: "tile=1x1" } } },
    },
    { a: bytesOf([1, 2, 3, 4]), b: bytesOf([1, 0, 0, 1]) },
    { alpha: 0.5 },
  );
  expect(codesOf(outcome)).toEqual(["TW6024"]);
  const text = outcome.ok ? "" : outcome.error.map(formatDiagnostic).join("\n");
  expect(text).toContain("schedule tile=1x1, grid 2 x 2 x 1");
  const launch = JSON.parse(readFileSync(/--launch (\S+launch\.json)/.exec(text)?.[1] ?? "", "utf8"));
  expect(launch.buffers).toEqual({
    a: { fill: { file: "a.npy" } },
    b: { fill: { file: "b.npy" } },
    d: { bytes: 16, fill: "none" },
  });
  expect(launch.params).toEqual([{ buffer: "a" }, { buffer: "b" }, { buffer: "d" }, 0.5, 2, 2]);
});

test("a GEMM of several kernels is replayed by a launch file each, every one with what the one before left", async () => {
  using device = await open({ timeout: 1 });
  const artifact = gemmArtifact({ m: 2, n: 2, k: 2, alpha: 1 });
  const [first] = artifact.manifest.kernels;
  if (first === undefined) throw new Error("no kernel");
  const kernels = [
    { ...first, entry: "hang", workspaceBytes: 64 },
    { ...first, workspaceBytes: 64 },
  ];
  const outcome = await device.gemm(
    {
      ptx: `${gemmPtx}\n${gemmPtx.slice(gemmPtx.indexOf(".visible")).replace("entry gemm(", "entry hang(")}`,
      manifest: { ...artifact.manifest, kernels },
    },
    { a: bytesOf([1, 2, 3, 4]), b: bytesOf([1, 0, 0, 1]) },
  );
  expect(codesOf(outcome)).toEqual(["TW6024"]);
  const hint = outcome.ok ? "" : (outcome.error[0]?.hint ?? "");
  const files = [...hint.matchAll(/--launch (\S+\.json)/g)].map(([, file = ""]) => file);
  expect(hint).toMatch(/launch-1\.json && tilewright emulate \S+kernel\.ptx --launch \S+launch-2\.json/);
  const [one, two] = files.map((file) => JSON.parse(readFileSync(file, "utf8")));
  expect([one.entry, two.entry]).toEqual(["hang", "gemm"]);
  expect(one.buffers).toEqual({
    a: { fill: { file: "a.npy" } },
    b: { fill: { file: "b.npy" } },
    d: { dtype: "u8", shape: [16], fill: "none" },
    workspace: { dtype: "u8", shape: [64], fill: "zeros" },
  });
  expect(one.outputs).toEqual({ d: "d-after-1.npy", workspace: "workspace-after-1.npy" });
  expect(two.buffers.d).toEqual({ fill: { file: "d-after-1.npy" } });
  expect(two.buffers.workspace).toEqual({ fill: { file: "workspace-after-1.npy" } });
  expect(two.outputs).toBeUndefined();
});

test("a cubin is kept and said to be nothing for the emulator; nowhere to write is no error", () => {
  const ask = { ...launchOf("axpy"), image: new Uint8Array([0x7f, 0x45, 0x4c, 0x46, 1, 2]) };
  const kept = keepReplay(launchReplay(ask), replays);
  expect(kept.identity).toMatch(/^axpy \(cubin sha256 [0-9a-f]{64}, grid 1 x 1 x 1/);
  expect(kept.again).toMatch(/^kept in \S+, as a cubin, which the emulator does not run$/);
  expect(keepReplay(launchReplay(ask), null).again).toBeNull();
  expect(keepReplay(launchReplay(ask), "/dev/null/none").again).toBeNull();
});

test("more than a message holds is refused before it is sent, with what would work", async () => {
  using device = await open();
  const size = 4.4e9;
  const outcome = await device.launch({
    ...launchOf("axpy"),
    buffers: { p: { size } },
  });
  expect(codesOf(outcome)).toEqual(["TW6027"]);
  const text = outcome.ok ? "" : outcome.error.map(formatDiagnostic).join();
  expect(text).toContain("4.10 GiB of results do not fit");
  expect(text).toContain("--no-isolation");
  // Not allocated: a view that says it is this long is enough to be refused.
  const long = Object.defineProperty(new Uint8Array(1), "byteLength", { value: size });
  const artifact = gemmArtifact({ m: 2, n: 2, k: 2, alpha: 1 });
  expect(codesOf(await device.gemm(artifact, { a: long, b: bytesOf([1]) }))).toEqual(["TW6027"]);
  await rightAgain(device);
  expect(device.restarts).toBe(0);
});

test("a worker that does not start says why", async () => {
  const outcome = await IsolatedDevice.open({ index: 0, driver: { ...driver, name: "broken" } });
  expect(codesOf(outcome)).toEqual(["TW6026"]);
  expect(outcome.ok ? "" : outcome.error[0]?.message).toContain("no such driver");
  expect(codesOf(await IsolatedDevice.open({ index: 5, driver }))).toEqual(["TW6006"]);
  expect(workerFile("file:///nowhere/x.js")).toBeNull();
  expect(existsSync(workerFile() ?? "")).toBe(true);
});

test("a closed device refuses", async () => {
  const device = await open();
  device.close();
  device.close();
  expect(codesOf(await device.launch(launchOf("axpy")))).toEqual(["TW6019"]);
});
