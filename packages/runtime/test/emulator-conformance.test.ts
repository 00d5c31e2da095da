import { targets } from "@tilewright/core";
import { createEmulator } from "@tilewright/emulator";
import { describe, expect, test } from "vitest";
import { EmulatorDevice, limitsOf } from "../src/emulator/device.ts";
import { runGemm } from "../src/gemm.ts";
import { gemmArtifact, integers } from "./artifact.ts";
import { bytesOf, codesOf, deviceConformance, must } from "./device-conformance.ts";
import { axpyPtx } from "./kernels.ts";

function open(arch: string): EmulatorDevice {
  const target = targets.find((row) => row.arch === arch);
  if (target === undefined) throw new Error(`no target ${arch}`);
  return new EmulatorDevice(createEmulator(), { arch, numSms: 4, limits: limitsOf(target), note: null });
}

deviceConformance("emulator", async () => open("sm_70"));

describe("only the emulator", () => {
  test("counts what a kernel does and takes order, seed and checks", () => {
    using device = open("sm_80");
    const buffer = must(device.alloc(256));
    must(buffer.write(bytesOf(integers(64, 1))));
    const kernel = must(must(device.load(axpyPtx)).kernel("axpy"));
    const request = { grid: [2, 1, 1], block: [32, 1, 1], args: [buffer, 64, 1] } as const;
    const result = must(kernel.launch({ ...request, order: "random", seed: 3, checks: "all" }));
    expect(result.counters?.globalBytesRead).toBe(256);
    expect(result.counters?.globalBytesWritten).toBe(256);
  });

  test("reading what nothing wrote is a finding, not an error", () => {
    using device = open("sm_70");
    const buffer = must(device.alloc(256));
    const kernel = must(must(device.load(axpyPtx)).kernel("axpy"));
    const ended: (readonly [number, number])[] = [];
    const progress = (...far: readonly [number, number]): void => void ended.push(far);
    const result = must(
      kernel.launch({ grid: [2, 1, 1], block: [32, 1, 1], args: [buffer, 64, 1], progress }),
    );
    expect(ended).toEqual([
      [1, 2],
      [2, 2],
    ]);
    expect(result.findings.map((finding) => finding.check)).toContain("uninitialised");
  });

  test("running over the end of a buffer is a finding", () => {
    using device = open("sm_70");
    const buffer = must(device.alloc(128));
    must(buffer.fill(0));
    const kernel = must(must(device.load(axpyPtx)).kernel("axpy"));
    const result = must(kernel.launch({ grid: [2, 1, 1], block: [32, 1, 1], args: [buffer, 64, 1] }));
    expect(result.findings.map((finding) => finding.check)).toContain("bounds");
  });

  test("an endless launch is given up and runGemm says so", () => {
    using device = open("sm_70");
    const host = { a: bytesOf(integers(16, 1)), b: bytesOf(integers(16, 2)) };
    const result = must(runGemm(device, gemmArtifact({ m: 4, n: 4, k: 4, alpha: 1 }), host, { fuel: 10 }));
    expect(result.completed).toBe(false);
  });

  test("machine code is refused", () => {
    using device = open("sm_70");
    expect(codesOf(device.load(new Uint8Array([0x7f, 0x45, 0x4c, 0x46])))).toEqual(["TW6011"]);
  });

  test("what is free is free: many buffers can follow each other", () => {
    using device = open("sm_70");
    for (let i = 0; i < 200; i++) must(device.alloc(1 << 20)).free();
  });
});
