/** The conformance suite on a real GPU; skipped where there is none. */
import { describe, expect, test } from "vitest";
import { openCudaDevice } from "../src/cuda/device.ts";
import { openKoffiDriver } from "../src/cuda/koffi.ts";
import { describeCuda } from "../src/doctor.ts";
import { openDevice } from "../src/open.ts";
import { codesOf, deviceConformance, floatsOf, must } from "./device-conformance.ts";
import { axpyPtx } from "./kernels.ts";

const report = await describeCuda();
const hasGpu = report.devices.length > 0;

describe.skipIf(!hasGpu)("a real GPU", () => {
  const open = async () => must(openCudaDevice(must(await openKoffiDriver())));
  deviceConformance("cuda", open);

  test("is found by auto", async () => {
    using device = must(await openDevice({ kind: "auto", arch: "sm_70" }));
    expect(device.kind).toBe("cuda");
    expect(device.note).toContain("GPU 0");
  });

  test("rejects a wrong text with the JIT's log", async () => {
    using device = await open();
    const outcome = device.load(axpyPtx.replace("add.f32", "not.an.instruction"));
    expect(codesOf(outcome)).toEqual(["TW6010"]);
    expect(outcome.ok ? "" : outcome.error[0]?.message).toMatch(/line 28/);
  });

  test("tells registers and takes more than 48 KB of shared memory", async () => {
    using device = await open();
    const kernel = must(must(device.load(axpyPtx)).kernel("axpy"));
    expect(kernel.attributes.registers).toBeGreaterThan(0);
    expect(kernel.attributes.localBytes).toBe(0);
    using buffer = must(device.alloc(400));
    must(buffer.fill(0));
    must(kernel.launch({ grid: [4, 1, 1], block: [32, 1, 1], dynamicSmem: 90_000, args: [buffer, 100, 2] }));
    expect(floatsOf(must(buffer.read()))).toEqual(Array(100).fill(2));
  });
});
