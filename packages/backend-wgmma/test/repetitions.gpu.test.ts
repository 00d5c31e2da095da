/** A thousand launches of one kernel give one result, whatever the roles, blocks and counters did meanwhile. Skipped where there is no sm_90 GPU. */
import { problemOf, repetitionsOnGpu } from "@tilewright/conformance";
import { wgmma } from "../src/backend.ts";

const square = problemOf({ m: 1000, n: 1056, k: 256, dtype: "bf16", b: { layout: "col" } });
const deep = problemOf({ m: 200, n: 264, k: 4096, dtype: "bf16", b: { layout: "col" } });
const few = problemOf({ m: 13, n: 1056, k: 4096, dtype: "bf16", b: { layout: "col" } });
const odd = problemOf({ m: 500, n: 333, k: 515, dtype: "f16" });

await repetitionsOnGpu(wgmma, "sm_90a", [
  { problem: square, schedule: "" },
  { problem: square, schedule: "tile=128x128x64 warpgroups=2x1 stages=4 cluster=2x2 raster=snake:4" },
  { problem: square, schedule: "tile=64x128x64 warpgroups=1x1 stages=4 pingPong=2 delayedRelease=on" },
  { problem: square, schedule: "tile=64x96x64 warpgroups=1x1 stages=3 sched=atomic schedulerStages=2" },
  { problem: square, schedule: "tile=64x96x64 warpgroups=1x1 stages=3 cluster=2x1 sched=atomic epi=direct" },
  { problem: deep, schedule: "tile=64x128x64 warpgroups=1x1 stages=4 sched=tiles split=8" },
  {
    problem: deep,
    schedule: "tile=64x128x64 warpgroups=1x1 stages=4 sched=tiles split=8 reduction=kernel epi=direct",
  },
  {
    problem: deep,
    schedule: "tile=64x128x64 warpgroups=1x1 stages=4 sched=tiles split=8 reduction=slices epi=direct",
  },
  { problem: deep, schedule: "tile=128x128x64 warpgroups=2x1 stages=4 streamk=100" },
  {
    problem: square,
    schedule: "tile=128x256x64 warpgroups=2x1 stages=4 sched=tiles tail=3 earlyProducerStart=on",
  },
  { problem: square, schedule: "tile=128x128x64 warpgroups=2x1 stages=4 raster=blocked:4 regs=40/232" },
  {
    problem: few,
    schedule: "tile=16x64x128 warpgroups=1x1 swapAB=on stages=5 sched=tiles split=4 reduction=cluster",
  },
  { problem: square, schedule: "tile=40x128x64 warpgroups=1x2 swapAB=on stages=4 sched=atomic" },
  { problem: odd, schedule: "tile=128x64x64 warpgroups=2x1 stages=3 copy=direct sched=tiles epi=direct" },
]);
