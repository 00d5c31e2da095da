/** Kernels compiled and run on the emulator of one file's tests, which open it once. */
import { bytesOfStorage, formatDiagnostic, type Problem, type Target } from "@tilewright/core";
import { type Artifact, createCompiler } from "@tilewright/ir";
import { type Device, openDevice, runGemm } from "@tilewright/runtime";
import { afterAll, beforeAll, expect } from "vitest";
import { simt } from "../../src/backend.ts";
import { scheduleOf } from "./build.ts";
import { caseData, judge } from "./data.ts";

export interface Emulated {
  /** The artifact of a legal schedule. Throws on anything else. */
  compile(problem: Problem, schedule: string): Artifact;
  /** D of f32 inputs from a seed, without hazards and within its bound of float64. */
  run(problem: Problem, schedule: string, seed?: number): Float32Array;
}

/** To be called where the tests of a file begin: the device is opened before the first and closed behind the last. */
export function emulated(target: Target): Emulated {
  const compiler = createCompiler({ backends: [simt] });
  let device: Device;
  beforeAll(async () => {
    const opened = await openDevice({ kind: "emulator", arch: target.arch });
    if (!opened.ok) throw new Error(opened.error.map(formatDiagnostic).join("\n"));
    device = opened.value;
  });
  afterAll(() => device.close());
  const compile: Emulated["compile"] = (problem, schedule) => {
    const made = compiler.compile({ problem, target, schedule: scheduleOf(schedule) });
    if (!made.ok) throw new Error(made.error.map(formatDiagnostic).join("\n"));
    return made.value;
  };
  return {
    compile,
    run(problem, schedule, seed = 1) {
      const { ptx, manifest } = compile(problem, schedule);
      const data = caseData(problem, { kind: "normal" }, seed);
      const inputs = { a: bytesOfStorage(data.a), b: bytesOfStorage(data.b) };
      const done = runGemm(device, { ptx, manifest }, inputs);
      if (!done.ok) throw new Error(done.error.map(formatDiagnostic).join("\n"));
      expect(done.value.findings).toEqual([]);
      const d = new Float32Array(done.value.d.slice().buffer);
      expect(judge(problem, data, d).boundRatio).toBeLessThanOrEqual(1);
      return d;
    },
  };
}
