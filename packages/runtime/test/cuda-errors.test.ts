/** Every driver call fails with every CUDA error: nothing throws, every failure is explained, nothing is left behind. */
import { type Checked, formatDiagnostic, ok } from "@tilewright/core";
import { describe, expect, test } from "vitest";
import type { CudaBuffer } from "../src/cuda/buffer.ts";
import { type CudaDevice, openCudaDevice } from "../src/cuda/device.ts";
import { cudaErrors } from "../src/cuda/errors.ts";
import type { CudaGraph } from "../src/cuda/graph.ts";
import type { CudaKernel } from "../src/cuda/kernel.ts";
import { rows } from "../src/diagnostics.ts";
import { runGemm } from "../src/gemm.ts";
import { gemmArtifact, integers } from "./artifact.ts";
import { bytesOf, codesOf, must } from "./device-conformance.ts";
import { createFakeDriver, type FakeCallName } from "./fake/cuda/index.ts";
import { axpyPtx, gemm } from "./kernels.ts";

/** What each call's failure stops. `release`: giving back, whose failure nobody can do anything about. */
const calls: Readonly<Record<FakeCallName, "open" | "run" | "release" | "unused">> = {
  init: "open",
  driverGetVersion: "open",
  deviceGetCount: "open",
  deviceGet: "open",
  deviceGetName: "open",
  deviceTotalMem: "open",
  deviceGetAttribute: "open",
  primaryCtxRetain: "open",
  ctxSetCurrent: "open",
  streamCreate: "open",
  eventCreate: "open",
  moduleLoadData: "run",
  moduleGetFunction: "run",
  funcGetAttribute: "run",
  funcSetAttribute: "run",
  memAlloc: "run",
  memcpyHtoD: "run",
  memcpyDtoH: "run",
  memsetD8: "run",
  eventRecord: "run",
  eventSynchronize: "run",
  eventElapsedTime: "run",
  launchKernel: "run",
  streamSynchronize: "run",
  memFree: "release",
  moduleUnload: "release",
  streamDestroy: "release",
  eventDestroy: "release",
  primaryCtxRelease: "release",
  memGetInfo: "run",
  memcpyDtoD: "unused",
  memHostRegister: "run",
  memHostUnregister: "release",
  memcpyHtoDAsync: "run",
  memcpyDtoHAsync: "run",
  memcpyDtoDAsync: "run",
  memcpyPeerAsync: "unused",
  memsetD8Async: "run",
  deviceCanAccessPeer: "unused",
  ctxEnablePeerAccess: "unused",
  ctxSetPersistingL2: "run",
  ctxResetPersistingL2: "run",
  streamPriorities: "run",
  streamCreateWithPriority: "run",
  streamQuery: "run",
  streamWaitEvent: "run",
  streamBeginCapture: "run",
  streamEndCapture: "run",
  graphNodeCount: "run",
  graphInstantiate: "run",
  graphLaunch: "run",
  graphExecUpdate: "run",
  graphExecDestroy: "release",
  graphDestroy: "release",
  eventQuery: "run",
  // Gives no status of its own; its launches are those of launchKernel.
  prepareLaunch: "unused",
  occupancyBlocks: "run",
  occupancyClusters: "run",
  tensorMapEncodeTiled: "unused",
  linkPtx: "unused",
};

/** Everything the runtime does with a GPU, once. */
function session(driver: ReturnType<typeof createFakeDriver>) {
  const opened = openCudaDevice(driver);
  if (!opened.ok) return opened;
  using device = opened.value;
  const artifact = gemmArtifact({ m: 3, n: 4, k: 2, alpha: 1 });
  const large = artifact.manifest.kernels.map((kernel) => ({
    ...kernel,
    launch: { ...kernel.launch, dynamicSmem: 100_000 },
  }));
  const result = runGemm(
    device,
    { ...artifact, manifest: { ...artifact.manifest, kernels: large } },
    { a: bytesOf(integers(6, 1)), b: bytesOf(integers(8, 2)) },
  );
  return result.ok ? queueSession(device) : result;
}

/** The same of streams, events, pinned memory, graphs and occupancy. The first failure ends it. */
function queueSession(device: CudaDevice): Checked<unknown> {
  const module = device.load(axpyPtx);
  const loaded = module.ok ? module.value.kernel("axpy") : module;
  const allocated = device.alloc(64);
  for (const outcome of [loaded, allocated]) if (!outcome.ok) return outcome;
  const kernel = must(loaded) as CudaKernel;
  using buffer = must(allocated) as CudaBuffer;
  const made = { stream: device.stream({ priority: -1 }), pinned: device.pinned(64), event: device.event() };
  for (const outcome of Object.values(made)) if (!outcome.ok) return outcome;
  using stream = must(made.stream);
  using pinned = must(made.pinned);
  using event = must(made.event);
  const request = { grid: [1, 1, 1], block: [32, 1, 1], args: [buffer, 0, 1] } as const;
  const graphs: CudaGraph[] = [];
  const steps: readonly (() => Checked<unknown>)[] = [
    () => stream.upload(buffer, pinned),
    () => stream.copy(buffer, buffer, { targetOffset: 32, size: 32 }),
    () => stream.fill(buffer, 1),
    () => stream.download(pinned, buffer),
    () => stream.record(event),
    () => stream.wait(event),
    () => event.done(),
    () => stream.done(),
    () => {
      const graph = stream.capture(() => stream.launch(kernel, request));
      if (graph.ok) graphs.push(graph.value);
      return graph;
    },
    () => stream.replay(graphs[0] as CudaGraph),
    () => (graphs[0] as CudaGraph).update(stream, () => stream.launch(kernel, request)),
    () => stream.synchronize(),
    () => kernel.occupancy(128),
    () => kernel.activeClusters({ ...request, cluster: [1, 1, 1] }),
    () => device.memory(),
    () => device.priorities(),
    () => device.persistL2(0),
    () => device.synchronize(),
  ];
  for (const step of steps) {
    const outcome = step();
    if (!outcome.ok) return outcome;
  }
  return ok(true);
}

const names = Object.keys(calls) as FakeCallName[];
const codes = [...cudaErrors.keys()];

describe("every call, every error", () => {
  test("the session touches every call", () => {
    const driver = createFakeDriver({ kernels: { gemm } });
    must(session(driver));
    const called = new Set(driver.calls.map(({ name }) => name));
    expect(names.filter((name) => !called.has(name))).toEqual(
      names.filter((name) => calls[name] === "unused"),
    );
    expect(driver.misuse).toEqual([]);
    expect(driver.alive()).toEqual([]);
  });

  test.each(names)("%s", (name) => {
    // 77777: an error that no table knows.
    for (const code of [...codes, 77_777]) {
      const driver = createFakeDriver({ kernels: { gemm } });
      driver.failCall(name, code);
      const outcome = session(driver);
      if (calls[name] === "release" || calls[name] === "unused") {
        // A fault that first shows when memory is given back is told by the next call; nothing else is worth telling.
        expect(outcome.ok).toBe(
          !(
            cudaErrors.get(code)?.sticky === true &&
            ["memFree", "moduleUnload", "graphDestroy"].includes(name)
          ),
        );
        continue;
      }
      expect(outcome.ok, `${name} failed with ${code} and nobody noticed`).toBe(false);
      if (outcome.ok) continue;
      for (const problem of outcome.error) {
        expect(problem.code).toMatch(/^TW60\d\d$/);
        expect(problem.message).toContain(`error ${code}`);
        expect(formatDiagnostic(problem)).not.toMatch(/\bat .*\.ts:\d+|undefined|\[object/);
      }
      if (name !== "ctxSetCurrent") expect(driver.alive(), `${name} ${code}`).toEqual([]);
    }
  });

  test.each(["eventCreate", "deviceGetAttribute", "memAlloc", "eventRecord", "funcGetAttribute"] as const)(
    "%s fails half-way",
    (name) => {
      for (let skip = 1; ; skip++) {
        const driver = createFakeDriver({ kernels: { gemm } });
        driver.failCall(name, 1, { skip, times: 1 });
        const outcome = session(driver);
        expect(driver.alive()).toEqual([]);
        if (driver.callsOf(name).length <= skip) break;
        // Attributes that are only shown may be missing.
        if (name !== "deviceGetAttribute" || skip < 12) expect(outcome.ok).toBe(false);
      }
    },
  );
});

describe("what the table says", () => {
  test.each([...cudaErrors])("error %i has a name, a meaning and a next step", (_, row) => {
    expect(row.name).toMatch(/^CUDA_ERROR_[A-Z_]+$/);
    expect(row.meaning.length).toBeGreaterThan(10);
    expect(row.next.length).toBeGreaterThan(5);
    expect(Object.keys(rows)).toContain(row.as);
  });

  test("each code of the runtime stands for one row", () => {
    const all = Object.values(rows).map((row) => row.code);
    expect(new Set(all).size).toBe(all.length);
  });

  test("errors that mean there is no usable GPU name the emulator", () => {
    for (const [code, row] of cudaErrors) {
      if (row.as === "driverStart" || row.as === "noDevice")
        expect(row.next, `${code}`).toContain("--device emulator");
    }
  });
});

describe("messages", () => {
  const failing = (name: FakeCallName, code: number) => {
    const driver = createFakeDriver({ kernels: { gemm } });
    driver.failCall(name, code);
    const outcome = session(driver);
    return outcome.ok ? "" : outcome.error.map(formatDiagnostic).join("\n");
  };

  test("a stub library", () => {
    expect(failing("init", 34)).toMatchInlineSnapshot(`
      "TW6004 (toolchain) at cuda.init: the library that was found is the toolkit's stub and not a driver (CUDA_ERROR_STUB_LIBRARY, error 34)
        hint: take the toolkit's stubs folder out of LD_LIBRARY_PATH; or run it on the emulator: --device emulator"
    `);
  });

  test("no GPU, told by the driver or by a count of 0", () => {
    expect(failing("init", 100)).toContain("TW6005 (toolchain)");
    expect(codesOf(openCudaDevice(createFakeDriver({ devices: [] })))).toEqual(["TW6005"]);
  });

  test("a full GPU says how much was asked for and how much is free", () => {
    const device = must(openCudaDevice(createFakeDriver()));
    must(device.alloc(48 * 2 ** 20));
    const outcome = device.alloc(32 * 2 ** 20);
    expect(outcome.ok ? "" : outcome.error.map(formatDiagnostic).join("\n")).toMatchInlineSnapshot(`
      "TW6013 (toolchain) at device.alloc: the GPU has not enough free memory (CUDA_ERROR_OUT_OF_MEMORY, error 2): 33554432 B (0.03 GiB) were asked for, 0.02 GiB of 0.06 GiB are free
        hint: stop other programs on this GPU (nvidia-smi lists them), take a smaller problem, or another GPU (CUDA_VISIBLE_DEVICES)"
    `);
  });

  test("a text that does not compile carries the JIT's log", () => {
    const device = must(openCudaDevice(createFakeDriver()));
    const outcome = device.load(axpyPtx.replace("add.f32", "not.an.instruction"));
    expect(outcome.ok ? "" : outcome.error.map(formatDiagnostic).join("\n")).toMatchInlineSnapshot(`
      "TW6010 (toolchain) at device.load: the JIT compiler rejects the text (CUDA_ERROR_INVALID_PTX, error 218):
          ptxas application ptx input, line 28; error   : Not a name of any known instruction: 'not'
        hint: see its log above"
    `);
  });

  test("a kernel that faults is a failed check, and the GPU is lost to this process", () => {
    const driver = createFakeDriver({ kernels: { axpy: () => 700 } });
    const device = must(openCudaDevice(driver));
    const buffer = must(device.alloc(4));
    const kernel = must(must(device.load(axpyPtx)).kernel("axpy"));
    const launch = () => kernel.launch({ grid: [1, 1, 1], block: [1, 1, 1], args: [buffer, 1, 1] });
    const outcome = launch();
    expect(outcome.ok ? "" : outcome.error.map(formatDiagnostic).join("\n")).toMatchInlineSnapshot(`
      "TW6017 (check) at axpy.launch: the kernel touched memory that is not allocated (CUDA_ERROR_ILLEGAL_ADDRESS, error 700)
        hint: find the instruction with --device emulator (all checks on); this process has lost the GPU, start a new one"
    `);
    const before = driver.calls.length;
    for (const later of [launch(), buffer.read(), device.alloc(4), device.synchronize()]) {
      expect(codesOf(later)).toEqual(["TW6020"]);
    }
    expect(driver.calls.length).toBe(before);
    device.close();
    expect(driver.alive()).toEqual([]);
  });
});
