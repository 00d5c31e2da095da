/** One launch many times over on a GPU: races that a single launch hides show as other bits. */
import type { Problem } from "@tilewright/core";
import { type Backend, createCompiler } from "@tilewright/ir";
import { describeCuda, openDevice } from "@tilewright/runtime";
import { describe, expect, test } from "vitest";
import { must, scheduleOf } from "./build.ts";
import { caseData } from "./data.ts";
import { judge } from "./judge.ts";
import { Session } from "./launch.ts";
import { targetOf } from "./random.ts";

/** A kernel: a problem and the text of its schedule. */
export interface Repeated {
  readonly problem: Problem;
  readonly schedule: string;
}

/**
 * Tests of the calling file: each kernel is launched `times` times on the same buffers and workspace, its first result is right against float64, and all
 * others have its bits. Skipped where no GPU runs the architecture.
 */
export async function repetitionsOnGpu(
  backend: Backend,
  arch: string,
  kernels: readonly Repeated[],
  times = 1000,
): Promise<void> {
  const { devices: gpus } = await describeCuda();
  describe.skipIf(gpus.length === 0)(`${backend.id} on a GPU, ${arch}: ${times} launches`, () => {
    test.each(kernels)("$problem.m x $problem.n x $problem.k $problem.a.dtype $schedule", async (each) => {
      const { problem, schedule } = each;
      const device = must(await openDevice({ kind: "cuda", arch }));
      try {
        const request = { problem, target: targetOf(arch), schedule: scheduleOf(backend, schedule) };
        const made = must(createCompiler({ backends: [backend] }).compile(request));
        const data = caseData(problem, "normal", 1);
        const session = new Session(device, made);
        const { run, others } = session.repeat(data, times);
        session.close();
        expect([...run.faults, ...judge(problem, data, run)]).toEqual([]);
        expect(others).toBe(0);
      } finally {
        device.close();
      }
    });
  });
}
