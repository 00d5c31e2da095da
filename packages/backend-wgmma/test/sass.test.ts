/** ptxas keeps the products of a chunk together: as many matrix instructions, starts and waits in SASS as in PTX. */
import { build, hasPtxas, plainProblem, scheduleOf, targetOf, warpgroupCode } from "@tilewright/conformance";
import type { DType } from "@tilewright/core";
import { expect, test } from "vitest";
import { wgmma } from "../src/index.ts";

const arch = "sm_90a";

/** `chunk`: instructions of a chunk, k over 32 bytes times those below and beside each other. `bodies`: a loop and its peeled first chunk, for each role. */
test.skipIf(!hasPtxas).each<[schedule: string, dtype: DType, chunk: number, bodies: number]>([
  ["tile=128x256x64 warpgroups=2x1 stages=4", "bf16", 4, 2],
  ["tile=128x256x64 warpgroups=2x1 stages=4 peel=off", "bf16", 4, 1],
  ["tile=256x128x64 warpgroups=2x1 stages=4 delayedRelease=on", "bf16", 8, 2],
  ["tile=128x320x64 warpgroups=1x2 stages=3 regs=24/240", "f16", 8, 2],
  ["tile=128x192x64 warpgroups=1x1 stages=4 regs=24/240 pingPong=2 delayedRelease=on", "bf16", 8, 4],
  // Each of the last two chunks in two halves.
  ["tile=128x256x64 warpgroups=2x1 stages=4 tail=2", "bf16", 4, 6],
  ["tile=256x192x64 warpgroups=2x1 stages=3 regs=24/240 tail=2", "bf16", 8, 6],
  ["tile=128x320x64 warpgroups=1x2 stages=3 regs=24/240 tail=1", "f16", 8, 4],
  ["tile=128x128x64 warpgroups=1x1 stages=6 pingPong=2 delayedRelease=on tail=1", "bf16", 8, 8],
  ["tile=128x256x128 warpgroups=2x1 stages=4 tail=2", "s8", 4, 6],
  ["tile=128x256x128 warpgroups=2x1 stages=4", "e4m3", 4, 2],
  ["tile=128x256x128 warpgroups=2x1 stages=4", "s8", 4, 2],
  ["tile=128x256x32 warpgroups=2x1 stages=4", "tf32", 4, 2],
])("%s, %s", (schedule, dtype, chunk, bodies) => {
  const problem = plainProblem(1024, 1024, 4096, dtype);
  const { kernel } = build(wgmma, problem, targetOf(arch), scheduleOf(wgmma, schedule));
  const { made, asked } = warpgroupCode(kernel.ptx, arch);
  expect(made).toEqual(asked);
  expect(made.products).toBe(chunk * bodies);
  expect(made.arrives).toBe(bodies);
});
