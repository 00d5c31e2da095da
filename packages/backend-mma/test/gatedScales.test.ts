/** Gated products of block-scaled elements: schedules of mma.sync, and sizes of first ones. */
import { gatedScales, scaledExperts, scaledQuantized } from "@tilewright/conformance";
import { mma } from "../src/index.ts";
import { randomSchedule } from "./support/cases.ts";

const cases = [
  // Halves of whole blocks, and of a second one begun; one stage, as shared memory has no two of mxf8 in whole swizzles.
  ["mxf8", [70, 256, 256], {}, "tile=128x256x128 stages=1 frag=1 interleave=off"],
  ["mxf8e5m2", [130, 200, 320], {}, "tile=128x256x128 stages=2 sharedLayout=plain frag=1 interleave=off"],
  ["mxf4", [70, 129, 384], {}, "tile=128x256x128 stages=3 frag=1 interleave=off"],
  ["nvf4", [20, 300, 512], {}, "tile=128x256x256 stages=1 frag=1 interleave=off"],
  // Batches, biases, experts, and what the next product reads.
  ["nvf4", [40, 136, 256], { batch: { kind: "strided", count: 2 } }, "tile=128x256x128 stages=2 frag=1"],
  [
    "mxf4",
    [70, 64, 256],
    { epilogue: "gelu(acc + bg[n]) * (up + bu[n])" },
    "tile=128x256x128 stages=2 frag=1 interleave=off",
  ],
  ["mxf4", [90, 136, 256], scaledExperts("offsets"), "tile=128x256x128 stages=2 frag=1 interleave=off"],
  ["nvf4", [50, 136, 256], scaledExperts("counts"), "tile=128x256x128 stages=2 frag=1 interleave=off"],
  ["mxf8", [70, 256, 256], scaledQuantized("mxf8", 32), "tile=128x256x128 stages=1 frag=1 interleave=off"],
] as const;

const sizes = [
  [4096, 14336, 4096, {}],
  [128, 14336, 4096, {}],
  [4096, 2000, 1024, {}],
  [300, 128, 320, {}],
  [8192, 2048, 7168, scaledExperts("offsets")],
  [512, 2048, 7168, scaledExperts("counts")],
  [4096, 2048, 7168, scaledQuantized("mxf8", 32)],
] as const;

gatedScales(mma, {
  ...{ arch: "sm_120a", randomSchedule, cases, sizes },
  narrow: "tile=128x128x128 stages=2 frag=1 interleave=off",
});
