/** What the CUDA device asks of the driver. */

import { ptxVersions } from "@tilewright/core";
import { describe, expect, test } from "vitest";
import { openCudaDevice } from "../src/cuda/device.ts";
import type { CudaLaunchConfig } from "../src/cuda/driver.ts";
import { driverTooOld } from "../src/cuda/versions.ts";
import type { LaunchRequest } from "../src/device.ts";
import { codesOf, must } from "./device-conformance.ts";
import { createFakeDriver, type FakeDriver, fakeA100, fakeH200, fakeV100 } from "./fake/cuda/index.ts";
import { axpyPtx } from "./kernels.ts";

const launchOn = (driver: FakeDriver, request: Partial<LaunchRequest>) => {
  const device = must(openCudaDevice(driver));
  const kernel = must(must(device.load(axpyPtx)).kernel("axpy"));
  return kernel.launch({ grid: [4, 1, 1], block: [32, 1, 1], args: [0n, 0, 0], ...request });
};
const configOf = (driver: FakeDriver): CudaLaunchConfig =>
  driver.callsOf("launchKernel")[0]?.args[0] as CudaLaunchConfig;
const settings = (driver: FakeDriver) => driver.callsOf("funcSetAttribute").map(({ args }) => args.slice(1));

describe("launches", () => {
  test("a plain one sets no attribute, and takes its time from the events", () => {
    const driver = createFakeDriver({ launchMs: 1.25 });
    expect(must(launchOn(driver, {})).timeMs).toBe(1.25);
    expect(configOf(driver)).toMatchObject({
      grid: [4, 1, 1],
      block: [32, 1, 1],
      cluster: null,
      cooperative: false,
      dynamicSmem: 0,
    });
    expect(settings(driver)).toEqual([]);
  });

  test("parameters are packed as the entry declares them", () => {
    const driver = createFakeDriver();
    must(launchOn(driver, { args: [0x1122_3344_5566_7788n, -1, 1.5] }));
    expect(driver.callsOf("launchKernel")[0]?.args[2]).toEqual([
      new Uint8Array([0x88, 0x77, 0x66, 0x55, 0x44, 0x33, 0x22, 0x11]),
      new Uint8Array([0xff, 0xff, 0xff, 0xff]),
      new Uint8Array([0, 0, 0xc0, 0x3f]),
    ]);
  });

  test("shared memory above 48 KB is opted in to, static shared memory counted", () => {
    const below = createFakeDriver({ staticSmem: 1024 });
    must(launchOn(below, { dynamicSmem: 49_152 - 1024 }));
    expect(settings(below)).toEqual([]);
    const above = createFakeDriver({ staticSmem: 1024 });
    must(launchOn(above, { dynamicSmem: 49_152 - 1023 }));
    expect(settings(above)).toEqual([["maxDynamicSmem", 48_129]]);
    expect(
      codesOf(launchOn(createFakeDriver({ staticSmem: 1024 }), { dynamicSmem: 232_448 - 1023 })),
    ).toEqual(["TW6014"]);
  });

  test("clusters: an attribute, an opt-in above 8 blocks, refused where there are none", () => {
    const driver = createFakeDriver();
    must(launchOn(driver, { cluster: [2, 1, 1] }));
    expect(configOf(driver).cluster).toEqual([2, 1, 1]);
    expect(settings(driver)).toEqual([]);
    const large = createFakeDriver();
    must(launchOn(large, { grid: [16, 1, 1], cluster: [16, 1, 1] }));
    expect(settings(large)).toEqual([["nonPortableCluster", 1]]);
    expect(codesOf(launchOn(createFakeDriver(), { cluster: [3, 1, 1] }))).toEqual(["TW6014"]);
    expect(codesOf(launchOn(createFakeDriver({ devices: [fakeA100] }), { cluster: [2, 1, 1] }))).toContain(
      "TW6014",
    );
    const single = createFakeDriver();
    must(launchOn(single, { cluster: [1, 1, 1] }));
    expect(configOf(single).cluster).toBeNull();
  });

  test("cooperative launches say so", () => {
    const driver = createFakeDriver();
    must(launchOn(driver, { cooperative: true }));
    expect(configOf(driver).cooperative).toBe(true);
  });

  test("every call of a device is made in its own context", () => {
    const driver = createFakeDriver({ devices: [fakeH200, fakeA100] });
    const [first, second] = [must(openCudaDevice(driver, 0)), must(openCudaDevice(driver, 1))];
    const [a, b] = [must(first.alloc(4)), must(second.alloc(4))];
    must(first.synchronize());
    must(second.synchronize());
    must(a.fill(1));
    must(b.fill(2));
    second.close();
    must(first.synchronize());
    first.close();
    expect(driver.alive()).toEqual([]);
  });
});

describe("images", () => {
  test("PTX goes to the driver with a closing NUL, once", () => {
    const driver = createFakeDriver();
    const device = must(openCudaDevice(driver));
    must(device.load(axpyPtx));
    must(device.load(new TextEncoder().encode(`${axpyPtx}\0`)));
    const sizes = driver.callsOf("moduleLoadData").map(({ args }) => args[0]);
    expect(sizes).toEqual([axpyPtx.length + 1, axpyPtx.length + 1]);
  });

  test("a cubin is loaded as it is, and declares no parameters", () => {
    const driver = createFakeDriver({ binaryEntries: ["axpy"] });
    const device = must(openCudaDevice(driver));
    const module = must(device.load(new Uint8Array([0x7f, 0x45, 0x4c, 0x46, 2, 1])));
    expect(codesOf(module.kernel("nope"))).toEqual(["TW6012"]);
    const kernel = must(module.kernel("axpy"));
    const shape = { grid: [1, 1, 1], block: [1, 1, 1] } as const;
    must(kernel.launch({ ...shape, args: [must(device.alloc(4)), new Uint8Array(4)] }));
    const outcome = kernel.launch({ ...shape, args: [1] });
    expect(outcome.ok ? "" : outcome.error[0]?.hint).toMatch(/does not say how wide a number is/);
  });

  test("text and driver and device that do not fit are all named", () => {
    const driver = createFakeDriver({ devices: [fakeV100], driverVersion: 12_020 });
    const device = must(openCudaDevice(driver));
    const outcome = device.load(axpyPtx.replace("6.0", "8.7").replace("sm_70", "sm_100a"));
    expect(codesOf(outcome)).toEqual(["TW6007", "TW6008"]);
    expect(
      outcome.ok ? "" : outcome.error.map((problem) => problem.message).join("\n"),
    ).toMatchInlineSnapshot(`
      "PTX 8.7 needs a driver of CUDA 12.8 and this one is of CUDA 12.2
      the text is for sm_100a and does not run on Tesla V100-SXM2-16GB: it has compute capability 7.0 and architecture-specific text needs exactly 10.0"
    `);
    expect(driver.callsOf("moduleLoadData")).toEqual([]);
  });

  test("the JIT's account of a good text is kept", () => {
    expect(must(must(openCudaDevice(createFakeDriver())).load(axpyPtx)).log).toContain("ptxas info");
  });
});

describe("versions", () => {
  test("each PTX version is taken by its own CUDA and by no older one", () => {
    for (const { ptx, cuda } of ptxVersions) {
      const code = 1000 * cuda[0] + 10 * cuda[1];
      expect(driverTooOld(ptx, code)).toBeNull();
      expect(driverTooOld(ptx, code - 10)).not.toBeNull();
    }
  });

  test("a version newer than the table is left to the driver", () => {
    expect(driverTooOld([99, 0], 13_000)).toBeNull();
  });

  test("CUDA 12.6 takes PTX 8.5 and not 8.6", () => {
    expect(driverTooOld([8, 5], 12_060)).toBeNull();
    expect(driverTooOld([8, 6], 12_060)?.needs).toBe("NVIDIA driver 565 or newer");
  });
});
