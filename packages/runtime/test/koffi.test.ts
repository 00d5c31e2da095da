/** The real binding against a driver of host memory in C: cuda.h checks the C side, so a wrong signature here gives wrong numbers or crashes. */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { formatDiagnostic } from "@tilewright/core";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import type { CudaBuffer } from "../src/cuda/buffer.ts";
import { openCudaDevice } from "../src/cuda/device.ts";
import type { CudaResult } from "../src/cuda/driver.ts";
import type { CudaKernel } from "../src/cuda/kernel.ts";
import { openKoffiDriver } from "../src/cuda/koffi.ts";
import { textOf } from "../src/cuda/layout.ts";
import { bytesOf, codesOf, floatsOf, must } from "./device-conformance.ts";
import { axpyPtx } from "./kernels.ts";
import { canBind, compileLibrary, cudaInclude, hasKoffi } from "./native/compile.ts";

const canRun = canBind && cudaInclude !== undefined;

/** What a driver call gave. */
function value<T>(result: CudaResult<T>): T {
  if (!result.ok) throw new Error(`error ${result.error}`);
  return result.value;
}

describe.skipIf(!canRun)("koffi on a driver in C", () => {
  const folder = mkdtempSync(join(tmpdir(), "tilewright-driver-"));
  let library = "";
  beforeAll(() => {
    library = compileLibrary(join(folder, "libcuda.so"), "libcuda.c");
  });
  afterAll(() => rmSync(folder, { recursive: true, force: true }));
  const open = async () => must(openCudaDevice(must(await openKoffiDriver({ library }))));

  test("the device is described", async () => {
    using device = await open();
    expect(device).toMatchObject({ kind: "cuda", name: "Host H7", arch: "sm_90", numSms: 132 });
    expect(device.info).toMatchObject({ memoryBytes: 150e9, driverVersion: 13_000, l2Bytes: 52_428_800 });
    expect(Math.round(device.info.memoryGBs)).toBe(3352);
  });

  test.each([
    ["plain", 100, {}],
    ["cluster", 100, { cluster: [2, 3, 1] }],
    ["cooperative", 99, { cooperative: true }],
    [
      "cluster and cooperative, much shared memory",
      99,
      { cluster: [2, 3, 1], cooperative: true, dynamicSmem: 200_000 },
    ],
  ] as const)("a %s launch reaches the driver whole", async (_, n, extra) => {
    using device = await open();
    using module = must(device.load(axpyPtx));
    expect(module.log).toBe(`ptxas info : Used 8 registers; image of ${axpyPtx.length} bytes`);
    const kernel = must(module.kernel("axpy"));
    expect(kernel.attributes).toEqual({
      registers: 8,
      localBytes: 0,
      staticSmem: 16,
      constBytes: 24,
      maxThreads: 1024,
      ptxVersion: 80,
      binaryVersion: 90,
    });
    using buffer = must(device.alloc(4 * n + 4));
    must(buffer.fill(0));
    must(buffer.write(bytesOf([7]), 4 * n));
    const result = must(
      kernel.launch({ grid: [2, 3, 1], block: [32, 2, 1], args: [buffer, n, 0.25], ...extra }),
    );
    expect(result.timeMs).toBe(1.5);
    expect(floatsOf(must(buffer.read()))).toEqual([...Array<number>(n).fill(0.25), 7]);
  });

  test("every launch attribute reaches the driver", async () => {
    using device = await open();
    const kernel = must(must(device.load(axpyPtx)).kernel("axpy"));
    using buffer = must(device.alloc(400));
    must(buffer.fill(0));
    const request = {
      grid: [2, 3, 1],
      block: [32, 2, 1],
      cluster: [2, 3, 1],
      preferredCluster: [2, 3, 1],
      programmatic: true,
      priority: -3,
      accessWindow: { buffer, bytes: 64, hitRatio: 0.5 },
      args: [buffer, 100, 2],
    } as const;
    must(kernel.launch(request));
    const prepared = must((kernel as CudaKernel).prepare(request));
    for (let i = 0; i < 3; i++) must(prepared.launch());
    must(prepared.set(2, 0.5));
    must(prepared.launch());
    expect(floatsOf(must(buffer.read()))).toEqual(Array<number>(100).fill(8.5));
    expect(codesOf(prepared.set(3, 1))).toEqual(["TW6015"]);
  });

  test("pinned memory, streams and graphs arrive whole", async () => {
    using device = await open();
    using stream = must(device.stream({ priority: -2, blocking: false }));
    using pinned = must(device.pinned(5000));
    using first = must(device.alloc(5000)) as CudaBuffer;
    using second = must(device.alloc(5000)) as CudaBuffer;
    pinned.bytes.set([1, 2, 3], 4990);
    must(stream.upload(first, pinned));
    must(stream.copy(second, first, { targetOffset: 0, sourceOffset: 4990, size: 10 }));
    must(stream.download(pinned, second, { targetOffset: 100, size: 3 }));
    expect(must(stream.done())).toBe(false);
    expect(must(stream.done())).toBe(true);
    expect([...pinned.bytes.subarray(100, 104)]).toEqual([1, 2, 3, 0]);
    must(stream.fill(first, 9));
    expect(must(first.read(4999))).toEqual(new Uint8Array([9]));
    using event = must(device.event());
    must(stream.record(event));
    must(stream.wait(event));
    expect(must(event.done())).toBe(true);
    expect(must(device.priorities())).toEqual([0, -5]);
    expect(must(device.persistL2(1e6))).toBe(3000);
    expect(must(device.persistL2(0))).toBe(0);
    using graph = must(stream.capture(() => stream.record(event)));
    expect(graph.nodes).toBe(3);
    must(stream.replay(graph));
    must(graph.update(stream, () => stream.record(event)));
    must(stream.replay(graph));
    const refused = graph.update(stream, () => stream.record(event));
    expect(refused.ok ? "" : refused.error[0]?.message).toContain("CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE");
  });

  test("occupancy, tensor maps and the linker take and give what they should", async () => {
    const driver = must(await openKoffiDriver({ library }));
    using device = must(openCudaDevice(driver));
    const kernel = must(must(device.load(axpyPtx)).kernel("axpy")) as CudaKernel;
    expect(must(kernel.occupancy(64, 1024))).toBe(16);
    const shape = { grid: [2, 3, 1], block: [32, 2, 1], cluster: [2, 3, 1], dynamicSmem: 7 } as const;
    expect(must(kernel.activeClusters(shape))).toBe(207);
    const map = value(
      driver.tensorMapEncodeTiled({
        dataType: 9,
        address: 0x7f00_0000_0040n,
        dims: [64, 300, 5],
        strides: [128, 2 ** 33],
        box: [64, 128, 1],
        elementStrides: [1, 2, 1],
        interleave: 0,
        swizzle: 3,
        l2: 2,
        oob: 1,
      }),
    );
    expect([...new BigUint64Array(map.slice().buffer)]).toEqual([
      0x7f00_0000_0040n,
      9003n,
      64064001n,
      300128002n,
      5001001n,
      0n,
      0n,
      128n,
      2n ** 33n,
      0n,
      0n,
      0n,
      0n,
      0n,
      0n,
      321n,
    ]);
    const text = (source: string) => new TextEncoder().encode(`${source}\0`);
    const linked = driver.linkPtx(text("some ptx"));
    expect(linked.result.ok ? textOf(linked.result.value) : "").toBe("\x7fELF of 9");
    const refused = driver.linkPtx(text("broken"));
    expect(refused.result).toEqual({ ok: false, error: 218 });
    expect(refused.errorLog).toBe("broken indeed");
    expect(driver.deviceCanAccessPeer(7, 8)).toEqual({ ok: true, value: true });
    expect(must(device.enablePeer(device))).toBe(true);
  });

  test("errors come back with their names and the JIT's log", async () => {
    using device = await open();
    const outcome = device.load(`${axpyPtx}// broken`);
    expect(outcome.ok ? "" : outcome.error.map(formatDiagnostic).join("\n")).toContain(
      "Parsing error near 'broken'",
    );
    expect(codesOf(device.alloc(2 ** 31))).toEqual(["TW6013"]);
    const driver = must(await openKoffiDriver({ library }));
    expect(driver.getErrorName(218)).toBe("CUDA_ERROR_INVALID_PTX");
    expect(driver.getErrorString(218)).toBe("a PTX JIT compilation failed");
    expect(driver.getErrorName(123_456)).toBeNull();
    expect(driver.binding).toMatch(/^koffi \d/);
  });

  test("a driver that lacks functions is too old, and says which", async () => {
    const old = compileLibrary(join(folder, "libold.so"), "int nothing;");
    const outcome = await openKoffiDriver({ library: old });
    expect(codesOf(outcome)).toEqual(["TW6003"]);
    expect(outcome.ok ? "" : outcome.error[0]?.message).toContain("cuLaunchKernelEx");
    expect(outcome.ok ? "" : outcome.error[0]?.hint).toContain("--device emulator");
  });
});

describe("what is missing is said", () => {
  test("no koffi", async () => {
    const outcome = await openKoffiDriver({ koffi: "koffi-that-is-not-there", library: "libcuda.so.1" });
    expect(outcome.ok ? "" : outcome.error.map(formatDiagnostic).join("\n")).toMatchInlineSnapshot(`
      "TW6001 (toolchain) at koffi: the package koffi, which calls the CUDA driver, is not installed
        hint: npm install koffi; or run it on the emulator: --device emulator"
    `);
  });

  test("a koffi that is something else", async () => {
    const outcome = await openKoffiDriver({ koffi: "node:path", library: "libcuda.so.1" });
    expect(codesOf(outcome)).toEqual(["TW6001"]);
  });

  test("no driver library", async () => {
    const outcome = await openKoffiDriver({ library: "libno-such-driver.so.1" });
    expect(codesOf(outcome)).toEqual([hasKoffi ? "TW6002" : "TW6001"]);
    if (hasKoffi && !outcome.ok)
      expect(outcome.error[0]?.message).toBe("no CUDA driver library was found (libno-such-driver.so.1)");
    expect(outcome.ok ? "" : outcome.error[0]?.hint).toContain("--device emulator");
  });

  test("a platform without CUDA", async () => {
    const outcome = await openKoffiDriver({ platform: "darwin" });
    expect(outcome.ok ? "" : outcome.error.map(formatDiagnostic).join("\n")).toMatchInlineSnapshot(`
      "TW6002 (toolchain) at cuda: there is no CUDA driver for darwin
        hint: use --device emulator"
    `);
  });
});
