/** Launching on a real GPU: overhead, leaks, survival, tensor maps, clusters, dependent launches, graphs. Skipped where there is none. */
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import type { TensorMapSpec } from "@tilewright/core";
import { describe, expect, test } from "vitest";
import { CudaBuffer } from "../src/cuda/buffer.ts";
import { type CudaDevice, openCudaDevice } from "../src/cuda/device.ts";
import { CudaKernel } from "../src/cuda/kernel.ts";
import { openKoffiDriver } from "../src/cuda/koffi.ts";
import type { LaunchRequest } from "../src/device.ts";
import { describeCuda } from "../src/doctor.ts";
import { IsolatedDevice } from "../src/isolation/isolated.ts";
import type { IsolatedLaunch } from "../src/isolation/protocol.ts";
import { bytesOf, codesOf, floatsOf, must } from "./device-conformance.ts";
import { badKernels, clusterPtx, dependentPtx, emptyPtx, tmaPtx } from "./gpu-kernels.ts";
import { axpyPtx } from "./kernels.ts";

const report = await describeCuda();
const [gpu] = report.devices;
const hasHopper = gpu !== undefined && gpu.computeCapability[0] >= 9;

setFlagsFromString("--expose-gc");
const collect = runInNewContext("gc") as () => void;

const open = async (): Promise<CudaDevice> => must(openCudaDevice(must(await openKoffiDriver())));
const kernelOf = (device: CudaDevice, ptx: string | Uint8Array, entry: string): CudaKernel => {
  const kernel = must(must(device.load(ptx)).kernel(entry));
  if (kernel instanceof CudaKernel) return kernel;
  throw new Error("no kernel of a GPU");
};
const bufferOf = (device: CudaDevice, size: number): CudaBuffer => {
  const buffer = must(device.alloc(size));
  must(buffer.fill(0));
  if (buffer instanceof CudaBuffer) return buffer;
  throw new Error("no buffer of a GPU");
};
const wordsOf = (bytes: Uint8Array): number[] => [...new Uint32Array(bytes.slice().buffer)];
const median = (values: readonly number[]): number =>
  [...values].sort((a, b) => a - b)[Math.floor(values.length / 2)] ?? Number.NaN;
/** Microseconds of host time for one call of `run`, by batches of `batch`, `wait` after each; the median of 60. */
function microseconds(batch: number, run: () => void, wait: () => void): number {
  const times: number[] = [];
  for (let round = 0; round < 70; round++) {
    const start = performance.now();
    for (let i = 0; i < batch; i++) run();
    wait();
    if (round >= 10) times.push((1000 * (performance.now() - start)) / batch);
  }
  return median(times);
}

/** A tensor of 64 x 16 f32 and the box that `tmaPtx` loads of it. */
const mapOf = (address: bigint): TensorMapSpec => ({
  dtype: "f32",
  address,
  dims: [64, 16],
  strides: [256],
  box: [32, 8],
  elementStrides: [1, 1],
  interleave: "none",
  swizzle: "none",
  l2: "none",
  fill: "zero",
});
const tensor = Array.from({ length: 64 * 16 }, (_, i) => i);
const box = Array.from({ length: 256 }, (_, i) => (8 + Math.floor(i / 32)) * 64 + 32 + (i % 32));

describe.skipIf(gpu === undefined)("launching on a GPU", () => {
  test("an empty kernel costs less than 6 us to launch, and less than 3 us in a graph", async () => {
    using device = await open();
    using stream = must(device.stream());
    const buffer = bufferOf(device, 16);
    const request: LaunchRequest = { grid: [1, 1, 1], block: [32, 1, 1], args: [buffer, 1, 2] };
    const kernel = kernelOf(device, emptyPtx, "empty");
    const prepared = must(kernel.prepare(request, stream));
    const wait = () => void must(stream.synchronize());
    const plain = microseconds(500, () => void prepared.launch(), wait);
    const checked = microseconds(200, () => void stream.launch(kernel, request), wait);
    const nodes = 200;
    using graph = must(
      stream.capture(() => {
        for (let i = 1; i < nodes; i++) must(prepared.launch());
        return prepared.launch();
      }),
    );
    expect(graph.nodes).toBe(nodes);
    const replay = microseconds(5, () => void must(stream.replay(graph)), wait) / nodes;
    console.log(
      `launch of an empty kernel, median: ${plain.toFixed(2)} us prepared, ${checked.toFixed(2)} us checked and packed anew, ${replay.toFixed(2)} us in a graph`,
    );
    expect(plain).toBeLessThan(6);
    expect(replay).toBeLessThan(3);
  });

  test("10 000 load-launch-free cycles leave nothing behind", async () => {
    const driver = must(await openKoffiDriver());
    using device = must(openCudaDevice(driver));
    const linked = driver.linkPtx(new TextEncoder().encode(`${axpyPtx}\0`));
    const image = linked.result.ok ? linked.result.value : axpyPtx;
    const n = new Uint8Array(new Uint32Array([4]).buffer);
    const cycle = () => {
      using module = must(device.load(image));
      using buffer = must(device.alloc(4096));
      using stream = must(device.stream());
      using event = must(device.event());
      const kernel = must(module.kernel("axpy"));
      must(stream.launch(kernel, { grid: [1, 1, 1], block: [32, 1, 1], args: [buffer, n, bytesOf([1])] }));
      must(stream.record(event));
      must(stream.synchronize());
    };
    const cycles = async (count: number): Promise<void> => {
      for (let i = 0; i < count; i++) {
        cycle();
        // Finalisers, and whatever else has waited for its turn.
        if (i % 100 === 0) await new Promise((resolve) => setImmediate(resolve));
      }
      collect();
    };
    // Pools (the driver's, the allocator's, V8's) fill for about 30 000 cycles; what leaks goes on growing after them.
    await cycles(40_000);
    const free = must(device.memory()).free;
    const { rss } = process.memoryUsage();
    const start = performance.now();
    await cycles(10_000);
    const grown = process.memoryUsage().rss - rss;
    const lost = free - must(device.memory()).free;
    console.log(
      `10 000 cycles in ${((performance.now() - start) / 1000).toFixed(1)} s: device ${lost} B, host ${(grown / 2 ** 20).toFixed(1)} MiB`,
    );
    expect(lost).toBe(0);
    // 2 MiB in 10 000 cycles: no forgotten buffer, stream or event hides in 210 bytes a cycle.
    expect(grown).toBeLessThan(2 * 2 ** 20);
  });

  test("pinned memory, copies beside other work, and events", async () => {
    using device = await open();
    using stream = must(device.stream({ blocking: false, priority: -1 }));
    using pinned = must(device.pinned(1 << 20));
    using back = must(device.pinned(1 << 20));
    const [a, b] = [bufferOf(device, 1 << 20), bufferOf(device, 1 << 20)];
    must(device.synchronize());
    for (let i = 0; i < pinned.bytes.length; i++) pinned.bytes[i] = (i * 7) & 0xff;
    using begin = must(device.event());
    using end = must(device.event());
    must(stream.record(begin));
    must(stream.upload(a, pinned));
    must(stream.copy(b, a));
    must(stream.download(back, b));
    must(stream.record(end));
    must(end.synchronize());
    expect(must(end.since(begin))).toBeGreaterThan(0);
    expect(Buffer.compare(back.bytes, pinned.bytes)).toBe(0);
    expect(must(stream.done())).toBe(true);
  });

  test("a graph takes new parameters", async () => {
    using device = await open();
    using stream = must(device.stream());
    const buffer = bufferOf(device, 16);
    const kernel = kernelOf(device, axpyPtx, "axpy");
    const add = (x: number) => () =>
      stream.launch(kernel, { grid: [1, 1, 1], block: [32, 1, 1], args: [buffer, 4, x] });
    using graph = must(stream.capture(add(1)));
    for (let i = 0; i < 3; i++) must(stream.replay(graph));
    must(graph.update(stream, add(10)));
    must(stream.replay(graph));
    must(stream.synchronize());
    expect(floatsOf(must(buffer.read()))).toEqual([13, 13, 13, 13]);
  });

  test("attributes, occupancy, cooperative launches, access windows", async () => {
    using device = await open();
    const kernel = kernelOf(device, axpyPtx, "axpy");
    expect(kernel.attributes.registers).toBeGreaterThan(0);
    const blocks = must(kernel.occupancy(256));
    expect(blocks).toBeGreaterThanOrEqual(4);
    const buffer = bufferOf(device, 4096);
    const kept = must(device.persistL2(1 << 20));
    console.log(`${blocks} blocks of 256 threads a multiprocessor; ${kept} B of L2 persist`);
    const request: LaunchRequest = {
      grid: [blocks * device.numSms, 1, 1],
      block: [256, 1, 1],
      cooperative: true,
      args: [buffer, 1024, 1],
      accessWindow: { buffer, hitRatio: 0.5 },
      priority: -1,
    };
    must(kernel.launch(request));
    expect(floatsOf(must(buffer.read()))).toEqual(Array(1024).fill(1));
    const large = kernel.launch({ ...request, grid: [blocks * device.numSms + 1, 1, 1] });
    expect(codesOf(large)).toEqual(["TW6014"]);
    must(device.persistL2(0));
  });
});

describe.skipIf(!hasHopper)("launching on a GPU of sm_90 or later", () => {
  test("a tensor map loads the box that it names", async () => {
    using device = await open();
    const [a, out] = [bufferOf(device, 4096), bufferOf(device, 1024)];
    must(a.write(bytesOf(tensor)));
    const map = must(device.encodeTensorMap(mapOf(a.address)));
    must(kernelOf(device, tmaPtx, "tma").launch({ grid: [1, 1, 1], block: [256, 1, 1], args: [map, out] }));
    expect(floatsOf(must(out.read()))).toEqual(box);
    expect(
      codesOf(device.encodeTensorMap({ ...mapOf(a.address), box: [3, 300], strides: [24] })).length,
    ).toBe(3);
  });

  test("clusters up to the non-portable size", async () => {
    using device = await open();
    const kernel = kernelOf(device, clusterPtx, "ranks");
    for (const size of [1, 2, 4, 8, 16]) {
      const out = bufferOf(device, 128);
      const shape: LaunchRequest = {
        grid: [32, 1, 1],
        block: [32, 1, 1],
        cluster: [size, 1, 1],
        args: [out],
      };
      const active = must(kernel.activeClusters(shape));
      expect(active).toBeGreaterThan(0);
      must(kernel.launch(shape));
      const ranks = Array.from({ length: 32 }, (_, i) => (i % size) * 65_536 + size);
      expect(wordsOf(must(out.read()))).toEqual(ranks);
    }
  });

  test("dependent launches keep their order", async () => {
    using device = await open();
    using stream = must(device.stream());
    const buffer = bufferOf(device, 4);
    const request: LaunchRequest = { grid: [1, 1, 1], block: [1, 1, 1], programmatic: true, args: [buffer] };
    const prepared = must(kernelOf(device, dependentPtx, "dependent").prepare(request, stream));
    let expected = 0;
    for (let i = 0; i < 1000; i++) {
      must(prepared.launch());
      expected = (Math.imul(expected, 3) + 1) >>> 0;
    }
    must(stream.synchronize());
    expect(wordsOf(must(buffer.read()))).toEqual([expected]);
  });
});

describe.skipIf(gpu === undefined)("a GPU behind a process boundary", () => {
  const shape = { grid: [1, 1, 1], block: [32, 1, 1] } as const;
  const good: IsolatedLaunch = {
    ...shape,
    image: axpyPtx,
    entry: "axpy",
    buffers: { p: { size: 16, data: bytesOf([1, 2, 3, 4]) } },
    args: [{ buffer: "p" }, { value: 4 }, { value: 2 }],
    outputs: ["p"],
  };
  const next = async (device: IsolatedDevice) =>
    expect(floatsOf(must(await device.launch(good)).outputs.p ?? new Uint8Array())).toEqual([3, 4, 5, 6]);
  const bad = (entry: keyof typeof badKernels): IsolatedLaunch => ({
    ...shape,
    image: badKernels[entry],
    entry,
    buffers: { p: { size: 16 } },
    args: [{ buffer: "p" }],
    outputs: [],
  });
  const zeroMap: IsolatedLaunch = {
    ...shape,
    block: [256, 1, 1],
    image: tmaPtx,
    entry: "tma",
    buffers: { out: { size: 1024 } },
    args: [{ bytes: new Uint8Array(128) }, { buffer: "out" }],
    outputs: [],
  };
  const cases: readonly (readonly [string, IsolatedLaunch, readonly string[]])[] = [
    ["a hang", bad("hang"), ["TW6024"]],
    ["an illegal address", bad("illegal"), ["TW6017"]],
    ["a misaligned address", bad("misaligned"), ["TW6017"]],
    ["a trap", bad("trap"), ["TW6017"]],
    ["too much shared memory", { ...good, dynamicSmem: 300_000 }, ["TW6014"]],
    // What the hardware makes of a map that is none: an error, or a copy that never arrives.
    ...(hasHopper ? ([["a wrong tensor map", zeroMap, ["TW6017", "TW6024"]]] as const) : []),
  ];

  test("each of a hang, faults, too much shared memory and a wrong tensor map is survived", async () => {
    using device = must(await IsolatedDevice.open({ index: 0, timeout: 6, cache: false }));
    await next(device);
    for (const [what, ask, codes] of cases) {
      const start = performance.now();
      const outcome = await device.launch(ask);
      const [problem] = outcome.ok ? [] : outcome.error;
      console.log(
        `${what}: ${problem?.code} ${problem?.message} (${(performance.now() - start).toFixed(0)} ms)`,
      );
      expect(codes).toContain(problem?.code);
      await next(device);
    }
  });
});
