/** Which device is opened, and what is said when none is. */
import { err, formatDiagnostic, ok } from "@tilewright/core";
import { describe, expect, test } from "vitest";
import { openKoffiDriver } from "../src/cuda/koffi.ts";
import { describeCuda } from "../src/doctor.ts";
import { listDevices, type OpenDeviceOptions, openDevice } from "../src/open.ts";
import { codesOf, must } from "./device-conformance.ts";
import { createFakeDriver, type FakeDriverOptions, fakeA100, fakeH200, fakeV100 } from "./fake/cuda/index.ts";

const fake =
  (options: FakeDriverOptions = {}) =>
  async () =>
    ok(createFakeDriver(options));
const noDriver = () => openKoffiDriver({ library: "libno-such-driver.so.1" });

const open = async (options: OpenDeviceOptions) => {
  const outcome = await openDevice(options);
  return outcome;
};
const textOf = (outcome: Awaited<ReturnType<typeof openDevice>>): string =>
  outcome.ok ? "" : outcome.error.map(formatDiagnostic).join("\n");

describe("auto", () => {
  test("takes a GPU that fits and says so", async () => {
    const device = must(await open({ kind: "auto", arch: "sm_70", driver: fake() }));
    expect(device.kind).toBe("cuda");
    expect(device.note).toMatch(/^on GPU 0, which runs sm_70/);
    device.close();
  });

  test("takes the first GPU that fits", async () => {
    const driver = fake({ devices: [fakeV100, fakeA100, fakeH200] });
    expect(must(await open({ kind: "auto", arch: "sm_90a", driver })).name).toBe("NVIDIA H200");
    expect(must(await open({ kind: "auto", arch: "sm_80", driver })).name).toContain("A100");
  });

  test.each([
    ["no driver", noDriver, "sm_70", /^on the emulator, because (no CUDA driver library|the package koffi)/],
    ["no device", fake({ devices: [] }), "sm_70", /the CUDA driver sees no GPU/],
    [
      "an older device",
      fake({ devices: [fakeA100] }),
      "sm_90a",
      /compute capability 8\.0 and architecture-specific text needs exactly 9\.0/,
    ],
    ["a newer device than arch-specific text", fake(), "sm_100a", /needs exactly 10\.0/],
    ["an old driver", fake({ driverVersion: 11_080 }), "sm_90a", /PTX 8\.0 needs a driver of CUDA 12\.0/],
  ] as const)("takes the emulator for %s and says why", async (_, driver, arch, why) => {
    const device = must(await open({ kind: "auto", arch, driver }));
    expect(device).toMatchObject({ kind: "emulator", arch, name: `emulator (${arch})` });
    expect(device.note).toMatch(why);
  });

  test("a GPU that does not exist is a mistake and not a reason to emulate", async () => {
    expect(codesOf(await open({ kind: "auto", arch: "sm_70", index: 3, driver: fake() }))).toEqual([
      "TW6006",
    ]);
  });
});

describe("cuda", () => {
  test("portable text runs on newer devices, without a note", async () => {
    const device = must(await open({ kind: "cuda", arch: "sm_80", driver: fake() }));
    expect(device).toMatchObject({ kind: "cuda", arch: "sm_90", numSms: 132, note: null });
  });

  test("the index counts", async () => {
    const driver = fake({ devices: [fakeH200, fakeA100] });
    expect(must(await open({ kind: "cuda", arch: "sm_80", index: 1, driver })).name).toContain("A100");
    expect(textOf(await open({ kind: "cuda", arch: "sm_80", index: 2, driver }))).toMatchInlineSnapshot(`
      "TW6006 (invalid) at device.index: there is no GPU 2
        hint: the GPUs are 0 to 1; or run it on the emulator: --device emulator"
    `);
  });

  test("an old driver and an old device are both named, and the emulator as the way on", async () => {
    const driver = fake({ devices: [fakeA100], driverVersion: 11_080 });
    expect(textOf(await open({ kind: "cuda", arch: "sm_90a", driver }))).toMatchInlineSnapshot(`
      "TW6007 (toolchain) at device.driver: PTX 8.0 needs a driver of CUDA 12.0 and this one is of CUDA 11.8
        hint: install NVIDIA driver 525 or newer; or run it on the emulator: --device emulator
      TW6008 (unsupported) at device.arch: NVIDIA A100-SXM4-40GB (GPU 0) does not run sm_90a: it has compute capability 8.0 and architecture-specific text needs exactly 9.0
        hint: compile for sm_80; or run it on the emulator: --device emulator"
    `);
  });

  test("the text's own PTX version counts where it is known", async () => {
    const driver = fake({ driverVersion: 12_020 });
    must(await open({ kind: "cuda", arch: "sm_70", driver }));
    expect(codesOf(await open({ kind: "cuda", arch: "sm_70", ptxVersion: [8, 7], driver }))).toEqual([
      "TW6007",
    ]);
  });

  test("without a driver", async () => {
    const outcome = await open({ kind: "cuda", arch: "sm_70", driver: noDriver });
    expect(codesOf(outcome)).toHaveLength(1);
    expect(textOf(outcome)).toMatch(/TW600[12] \(toolchain\)/);
    expect(textOf(outcome)).toContain("--device emulator");
  });
});

describe("emulator", () => {
  test.each(["sm_70", "sm_75", "sm_80", "sm_86", "sm_90", "sm_90a", "sm_100a", "sm_120a"])(
    "stands for %s",
    async (arch) => {
      const device = must(
        await open({ kind: "emulator", arch, driver: () => Promise.reject(new Error("asked for a driver")) }),
      );
      expect(device).toMatchObject({ kind: "emulator", arch, note: null, numSms: 4 });
    },
  );

  test("claims the multiprocessors it is told to", async () => {
    expect(must(await open({ kind: "emulator", arch: "sm_90a", numSms: 132 })).numSms).toBe(132);
  });
});

test.each(["sm70", "90", "sm_", "sm_90b", "", "gfx942"])("%j is no architecture", async (arch) => {
  for (const kind of ["auto", "cuda", "emulator"] as const) {
    expect(codesOf(await open({ kind, arch, driver: fake() }))).toEqual(["TW6009"]);
  }
});

describe("what is there", () => {
  test("devices are listed with the emulator last", async () => {
    const { devices, problems } = await listDevices(fake({ devices: [fakeH200, fakeV100] }));
    expect(devices.map(({ kind, index, arch }) => [kind, index, arch])).toEqual([
      ["cuda", 0, "sm_90"],
      ["cuda", 1, "sm_70"],
      ["emulator", null, null],
    ]);
    expect(problems).toEqual([]);
  });

  test("without a GPU the emulator is listed, with the reason", async () => {
    const { devices, problems } = await listDevices(noDriver);
    expect(devices.map(({ kind }) => kind)).toEqual(["emulator"]);
    expect(problems).toHaveLength(1);
  });

  test("doctor's report", async () => {
    const report = await describeCuda(fake());
    expect(report).toMatchObject({ library: "fake", driver: "13.0", problems: [] });
    expect(report.devices).toMatchObject([{ index: 0, name: "NVIDIA H200", arch: "sm_90", numSms: 132 }]);
  });

  test("doctor's report when there is no driver, when it does not start, and when a device does not answer", async () => {
    const missing = await describeCuda(async () =>
      err([{ code: "TW6002", kind: "toolchain", at: "cuda", message: "none" }] as const),
    );
    expect(missing).toMatchObject({
      library: null,
      driver: null,
      devices: [],
      problems: [{ code: "TW6002" }],
    });
    const stub = createFakeDriver();
    stub.failCall("init", 34);
    expect(await describeCuda(async () => ok(stub))).toMatchObject({
      library: "fake",
      driver: null,
      problems: [{ code: "TW6004" }],
    });
    const half = createFakeDriver({ devices: [fakeH200, fakeA100] });
    half.failCall("deviceGetName", 999, { times: 1 });
    const report = await describeCuda(async () => ok(half));
    expect(report.devices.map(({ name }) => name)).toEqual([fakeA100.name]);
    expect(report.problems).toMatchObject([{ code: "TW6004" }]);
  });

  test("doctor's report says what the loader said of each library", async () => {
    const report = await describeCuda((options) =>
      openKoffiDriver({ ...options, library: "libno-such-driver.so.1" }),
    );
    if (report.koffi === null) expect(report.missed).toEqual([]);
    else expect(report.missed).toEqual([expect.stringMatching(/^libno-such-driver\.so\.1: ./)]);
  });

  test("the machine's own report never throws", async () => {
    const report = await describeCuda();
    expect(report.devices.length > 0 || report.problems.length > 0).toBe(true);
  });
});
