/** A thousand launches of one kernel give one result, whatever the roles, blocks and counters did meanwhile. Skipped where there is no sm_90 GPU. */
import { problemOf, repetitionsOnGpu } from "@tilewright/conformance";
import { wgmma } from "../src/backend.ts";

const square = problemOf({ m: 1000, n: 1056, k: 256, dtype: "bf16", b: { layout: "col" } });
const deep = problemOf({ m: 200, n: 264, k: 4096, dtype: "bf16", b: { layout: "col" } });
const few = problemOf({ m: 13, n: 1056, k: 4096, dtype: "bf16", b: { layout: "col" } });
const odd = problemOf({ m: 500, n: 333, k: 515, dtype: "f16" });

await repetitionsOnGpu(wgmma, "sm_90a", [
  { problem: square, schedule: "" },
  { problem: square, schedule: "tile=128x128x64 groups=2x1 stages=4 cluster=2x2 raster=snake:4" },
  { problem: square, schedule: "tile=64x128x64 groups=1x1 stages=4 turns=2 late=on" },
  { problem: square, schedule: "tile=64x96x64 groups=1x1 stages=3 sched=atomic ahead=2" },
  { problem: square, schedule: "tile=64x96x64 groups=1x1 stages=3 cluster=2x1 sched=atomic epi=direct" },
  { problem: deep, schedule: "tile=64x128x64 groups=1x1 stages=4 sched=tiles split=8" },
  {
    problem: deep,
    schedule: "tile=64x128x64 groups=1x1 stages=4 sched=tiles split=8 combine=kernel epi=direct",
  },
  {
    problem: deep,
    schedule: "tile=64x128x64 groups=1x1 stages=4 sched=tiles split=8 combine=slices epi=direct",
  },
  { problem: deep, schedule: "tile=128x128x64 groups=2x1 stages=4 streamk=100" },
  { problem: square, schedule: "tile=128x256x64 groups=2x1 stages=4 sched=tiles tail=3 early=on" },
  { problem: square, schedule: "tile=128x128x64 groups=2x1 stages=4 raster=pieces:4 regs=40/232" },
  {
    problem: few,
    schedule: "tile=16x64x128 groups=1x1 swap=on stages=5 sched=tiles split=4 combine=cluster",
  },
  { problem: square, schedule: "tile=40x128x64 groups=1x2 swap=on stages=4 sched=atomic" },
  { problem: odd, schedule: "tile=128x64x64 groups=2x1 stages=3 copy=direct sched=tiles epi=direct" },
]);
