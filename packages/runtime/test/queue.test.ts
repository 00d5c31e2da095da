/** Streams, events, pinned memory, graphs and prepared launches over the fake driver, which runs queued work late and notes every misuse. */
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import { afterEach, describe, expect, test } from "vitest";
import { CudaBuffer } from "../src/cuda/buffer.ts";
import { type CudaDevice, openCudaDevice } from "../src/cuda/device.ts";
import type { CudaLaunchConfig } from "../src/cuda/driver.ts";
import { CudaKernel } from "../src/cuda/kernel.ts";
import { bytesOf, codesOf, floatsOf, must } from "./device-conformance.ts";
import { createFakeDriver, type FakeDriver, fakeA100, fakeH200 } from "./fake/cuda/index.ts";
import { axpy, axpyPtx } from "./kernels.ts";

setFlagsFromString("--expose-gc");
const collect = runInNewContext("gc") as () => void;

const drivers: FakeDriver[] = [];
const open = (options: Parameters<typeof createFakeDriver>[0] = {}, index = 0) => {
  const driver = createFakeDriver({ kernels: { axpy }, ...options });
  drivers.push(driver);
  return { driver, device: must(openCudaDevice(driver, index)) };
};
// Every device is closed by its test; nothing may be left, and nothing may have been used wrongly.
afterEach(() => {
  for (const driver of drivers.splice(0)) {
    expect(driver.alive()).toEqual([]);
    expect(driver.misuse).toEqual([]);
  }
});
const bufferOf = (device: CudaDevice, size: number): CudaBuffer => {
  const buffer = must(device.alloc(size));
  if (!(buffer instanceof CudaBuffer)) throw new Error("no buffer of a GPU");
  must(buffer.fill(0));
  return buffer;
};
const kernelOf = (device: CudaDevice): CudaKernel => {
  const kernel = must(must(device.load(axpyPtx)).kernel("axpy"));
  if (!(kernel instanceof CudaKernel)) throw new Error("no kernel of a GPU");
  return kernel;
};
const shape = { grid: [1, 1, 1], block: [32, 1, 1] } as const;

describe("streams", () => {
  test("work runs in order, and late: nothing is there before the stream has come past", () => {
    const { device } = open();
    using own = device;
    using stream = must(own.stream());
    using pinned = must(own.pinned(16));
    using back = must(own.pinned(16));
    const buffer = bufferOf(own, 16);
    pinned.bytes.set(bytesOf([1, 2, 3, 4]));
    must(stream.upload(buffer, pinned));
    must(stream.launch(kernelOf(own), { ...shape, args: [buffer, 4, 10] }));
    must(stream.download(back, buffer));
    expect(floatsOf(back.bytes)).toEqual([0, 0, 0, 0]);
    must(stream.synchronize());
    expect(floatsOf(back.bytes)).toEqual([11, 12, 13, 14]);
    expect(must(stream.done())).toBe(true);
  });

  test("pinned memory that is freed under a copy waits for it, and its bytes stay readable", () => {
    const { device, driver } = open();
    using own = device;
    using stream = must(own.stream());
    const pinned = must(own.pinned(8));
    const buffer = bufferOf(own, 8);
    pinned.bytes.fill(5);
    must(stream.upload(buffer, pinned));
    pinned.free();
    pinned.free();
    expect(driver.callsOf("streamSynchronize")).toHaveLength(1);
    expect(must(buffer.read())).toEqual(new Uint8Array(8).fill(5));
    expect(pinned.bytes[7]).toBe(5);
    expect(codesOf(stream.upload(buffer, pinned))).toEqual(["TW6018"]);
  });

  test("a stream that ends with copies in flight waits for them", () => {
    const { device } = open();
    using own = device;
    using pinned = must(own.pinned(8));
    const buffer = bufferOf(own, 8);
    pinned.bytes.fill(6);
    {
      using stream = must(own.stream());
      must(stream.upload(buffer, pinned));
    }
    expect(must(buffer.read())).toEqual(new Uint8Array(8).fill(6));
  });

  test("ranges outside the memory, and what is freed or destroyed, are refused", () => {
    const { device } = open();
    using own = device;
    const stream = must(own.stream());
    using pinned = must(own.pinned(8));
    const buffer = bufferOf(own, 4);
    expect(codesOf(stream.upload(buffer, pinned, { size: 8 }))).toEqual(["TW6018"]);
    expect(codesOf(stream.upload(buffer, pinned, { size: 9, targetOffset: -1 }))).toEqual([
      "TW6018",
      "TW6018",
    ]);
    const event = must(own.event());
    event.destroy();
    expect(codesOf(event.synchronize())).toEqual(["TW6019"]);
    buffer.free();
    expect(codesOf(stream.fill(buffer, 1))).toEqual(["TW6018"]);
    stream.destroy();
    stream.destroy();
    expect(codesOf(stream.synchronize())).toEqual(["TW6019"]);
  });

  test("events tell when work is done and how long it took", () => {
    const { device } = open({ launchMs: 2 });
    using own = device;
    using stream = must(own.stream());
    using start = must(own.event());
    using end = must(own.event());
    const kernel = kernelOf(own);
    must(stream.record(start));
    for (let i = 0; i < 3; i++) must(stream.launch(kernel, { ...shape, args: [0n, 0, 0] }));
    must(stream.record(end));
    expect(must(end.done())).toBe(false);
    must(end.synchronize());
    expect(must(end.since(start))).toBe(6);
  });

  test("a fault of queued work comes out when it is waited for, and takes the device", () => {
    const { device } = open({ kernels: { axpy: () => 700 } });
    using own = device;
    using stream = must(own.stream());
    must(stream.launch(kernelOf(own), { ...shape, args: [0n, 0, 0] }));
    expect(codesOf(stream.synchronize())).toEqual(["TW6017"]);
    expect(codesOf(stream.synchronize())).toEqual(["TW6020"]);
    expect(own.lost).toBe(true);
  });
});

describe("graphs", () => {
  test("a recording runs as often as it is replayed, takes new parameters, and refuses other work", () => {
    const { device } = open();
    using own = device;
    using stream = must(own.stream());
    const kernel = kernelOf(own);
    const [a, b] = [bufferOf(own, 16), bufferOf(own, 16)];
    const add = (buffer: CudaBuffer, x: number) => () =>
      stream.launch(kernel, { ...shape, args: [buffer, 4, x] });
    using graph = must(stream.capture(add(a, 1)));
    expect(graph.nodes).toBe(1);
    expect(floatsOf(must(a.read()))).toEqual([0, 0, 0, 0]);
    for (let i = 0; i < 3; i++) must(stream.replay(graph));
    must(graph.update(stream, add(b, 5)));
    must(stream.replay(graph));
    must(stream.synchronize());
    expect(floatsOf(must(a.read()))).toEqual([3, 3, 3, 3]);
    expect(floatsOf(must(b.read()))).toEqual([5, 5, 5, 5]);
    const other = graph.update(stream, () =>
      stream.launch(kernel, { ...shape, grid: [2, 1, 1], args: [b, 4, 1] }),
    );
    expect(other.ok ? "" : other.error[0]?.message).toContain("CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE");
    b.free();
    expect(codesOf(stream.replay(graph))).toEqual(["TW6018"]);
    graph.destroy();
    expect(codesOf(stream.replay(graph))).toEqual(["TW6019"]);
  });

  test("what cannot be recorded ends the recording, and the stream serves on", () => {
    const { device } = open();
    using own = device;
    using stream = must(own.stream());
    const buffer = bufferOf(own, 16);
    const failing = [() => stream.synchronize(), () => own.alloc(4) as never, () => buffer.fill(1)];
    for (const queue of failing) {
      const outcome = stream.capture(queue);
      expect(outcome.ok ? "" : outcome.error[0]?.message).toContain("CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED");
    }
    expect(() =>
      stream.capture(() => {
        throw new Error("thrown inside");
      }),
    ).toThrow("thrown inside");
    must(stream.fill(buffer, 3));
    must(stream.synchronize());
    expect(must(buffer.read(0, 1))).toEqual(new Uint8Array([3]));
  });
});

describe("launch attributes", () => {
  test("all of them reach the driver; none is given unless asked for", () => {
    const { device, driver } = open();
    using own = device;
    const kernel = kernelOf(own);
    const buffer = bufferOf(own, 4096);
    const args = [buffer, 0, 0];
    must(kernel.launch({ ...shape, args }));
    const accessWindow = { buffer, hitRatio: 0.25, hit: "persisting", miss: "normal" } as const;
    must(kernel.launch({ ...shape, args, programmatic: true, priority: -2, accessWindow }));
    must(kernel.launch({ ...shape, grid: [8, 1, 1], args, cluster: [2, 1, 1], preferredCluster: [4, 1, 1] }));
    const [plain, all, preferred] = driver
      .callsOf("launchKernel")
      .map((call) => call.args[0] as CudaLaunchConfig);
    expect(plain).toMatchObject({
      programmatic: false,
      priority: null,
      accessWindow: null,
      preferredCluster: null,
    });
    expect(all).toMatchObject({
      programmatic: true,
      priority: -2,
      accessWindow: {
        address: buffer.address,
        bytes: 4096,
        hitRatio: 0.25,
        hit: "persisting",
        miss: "normal",
      },
    });
    expect(preferred).toMatchObject({ cluster: [2, 1, 1], preferredCluster: [4, 1, 1] });
    expect(
      codesOf(
        kernel.launch({ ...shape, grid: [6, 1, 1], args, cluster: [2, 1, 1], preferredCluster: [3, 1, 1] }),
      ),
    ).toEqual(["TW6014"]);
  });

  test("occupancy follows threads and shared memory, and bounds a cooperative grid", () => {
    const { device } = open();
    using own = device;
    const kernel = kernelOf(own);
    expect(must(kernel.occupancy(1024))).toBe(2);
    expect(must(kernel.occupancy(128, 100_000))).toBe(2);
    const request = { grid: [264, 1, 1], block: [1024, 1, 1], cooperative: true, args: [0n, 0, 0] } as const;
    must(kernel.launch(request));
    expect(codesOf(kernel.launch({ ...request, grid: [265, 1, 1] }))).toEqual(["TW6014"]);
    const cluster = { ...shape, cluster: [2, 1, 1], grid: [2, 1, 1], dynamicSmem: 200_000 } as const;
    expect(must(kernel.activeClusters(cluster))).toBe(66);
  });

  test("a prepared launch takes new arguments, and refuses what is gone", () => {
    const { device } = open();
    using own = device;
    const [a, b] = [bufferOf(own, 16), bufferOf(own, 16)];
    const prepared = must(kernelOf(own).prepare({ ...shape, args: [a, 4, 1] }));
    for (let i = 0; i < 5; i++) must(prepared.launch());
    must(prepared.set(0, b));
    must(prepared.set(2, 0.5));
    must(prepared.launch());
    must(own.synchronize());
    expect(floatsOf(must(a.read()))).toEqual([5, 5, 5, 5]);
    expect(floatsOf(must(b.read()))).toEqual([0.5, 0.5, 0.5, 0.5]);
    expect(codesOf(prepared.set(1, 1.5))).toEqual(["TW6015"]);
    b.free();
    expect(codesOf(prepared.launch())).toEqual(["TW6018"]);
  });
});

test("two GPUs: copies between them, peers, and streams that do not mix", () => {
  const driver = createFakeDriver({ kernels: { axpy }, devices: [fakeH200, fakeA100] });
  drivers.push(driver);
  using first = must(openCudaDevice(driver, 0));
  using second = must(openCudaDevice(driver, 1));
  const [a, b] = [bufferOf(first, 8), bufferOf(second, 8)];
  must(a.fill(9));
  using stream = must(first.stream());
  must(stream.copy(b, a));
  must(stream.synchronize());
  expect(must(b.read())).toEqual(new Uint8Array(8).fill(9));
  expect(must(first.enablePeer(second))).toBe(true);
  expect(must(first.enablePeer(first))).toBe(true);
  expect(codesOf(stream.launch(kernelOf(second), { ...shape, args: [b, 1, 1] }))).toEqual(["TW6018"]);
  a.free();
  b.free();
});

test("the fake notes double frees, use after free, and handles of another context", () => {
  const driver = createFakeDriver({ devices: [fakeH200, fakeA100] });
  driver.init();
  const contexts = [100, 101].map((device) => {
    const retained = driver.primaryCtxRetain(device);
    return retained.ok ? retained.value : 0n;
  });
  driver.ctxSetCurrent(contexts[0] ?? 0n);
  const stream = driver.streamCreate();
  const memory = driver.memAlloc(16);
  if (!stream.ok || !memory.ok) throw new Error("the fake does not start");
  driver.memFree(memory.value);
  driver.memFree(memory.value);
  driver.memcpyHtoD(memory.value, new Uint8Array(16));
  driver.ctxSetCurrent(contexts[1] ?? 0n);
  driver.streamSynchronize(stream.value);
  driver.ctxSetCurrent(contexts[0] ?? 0n);
  driver.streamDestroy(stream.value);
  driver.streamDestroy(stream.value);
  driver.memHostUnregister(new Uint8Array(8));
  expect(driver.misuse.map((line) => line.replace(/\d{5,}/g, "N"))).toEqual([
    "memory at N is freed, and nothing is allocated there",
    "memcpyHtoD of 16 B at N, which is not allocated",
    "stream N is of another context",
    "stream N is destroyed",
    "host memory is unregistered that was not registered",
  ]);
  expect(driver.alive()).toEqual(["context", "context"]);
});

test("10 000 load-launch-free cycles leave nothing, whether freed, closed or forgotten", async () => {
  const { device, driver } = open();
  using own = device;
  const before = driver.alive();
  for (let i = 0; i < 10_000; i++) {
    using module = must(own.load(axpyPtx));
    using buffer = must(own.alloc(64));
    using stream = must(own.stream());
    using event = must(own.event());
    using pinned = must(own.pinned(64));
    const kernel = must(module.kernel("axpy"));
    must(stream.upload(buffer as CudaBuffer, pinned));
    must(stream.launch(kernel, { ...shape, args: [buffer, 16, 1] }));
    must(stream.record(event));
    if (i % 2 === 0) must(stream.synchronize());
    if (i % 100 === 0) expect(driver.alive().length).toBe(before.length + 5);
    // What a fake remembers is not what is measured.
    driver.calls.length = 0;
  }
  expect(driver.alive()).toEqual(before);
  // Dropped without a word: the net.
  (() => {
    for (let i = 0; i < 20; i++) {
      const stream = must(own.stream());
      must(stream.upload(bufferOf(own, 64), must(own.pinned(64))));
      must(stream.synchronize());
      must(own.event());
    }
  })();
  for (let round = 0; round < 200 && driver.alive().length > before.length; round++) {
    collect();
    await new Promise((resolve) => setTimeout(resolve, 10));
  }
  expect(driver.alive()).toEqual(before);
});
