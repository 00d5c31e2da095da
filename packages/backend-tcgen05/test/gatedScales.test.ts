/** Gated products of block-scaled elements: schedules of tcgen05, and sizes of first ones. */
import { gatedScales, scaledExperts, scaledQuantized } from "@tilewright/conformance";
import { tcgen05 } from "../src/index.ts";
import { randomSchedule } from "./support/cases.ts";

const cases = [
  // Halves of whole blocks, and of a second one begun.
  ["mxf8", [70, 256, 256], {}, "tile=128x256x128 ctaGroup=1 stages=1 accumulators=1 epi=direct"],
  ["mxf8e5m2", [130, 200, 320], {}, "tile=128x256x128 ctaGroup=1 stages=2 accumulators=1"],
  ["mxf4", [70, 129, 384], {}, "tile=128x256x256 ctaGroup=1 stages=3 accumulators=1 epi=direct"],
  ["nvf4", [20, 300, 512], {}, "tile=128x256x256 ctaGroup=1 stages=1 accumulators=1 epi=direct"],
  // Batches, biases, experts, and what the next product reads.
  [
    "nvf4",
    [40, 136, 256],
    { batch: { kind: "strided", count: 2 } },
    "tile=128x256x256 ctaGroup=1 stages=2 accumulators=1",
  ],
  [
    "mxf4",
    [70, 64, 256],
    { epilogue: "gelu(acc + bg[n]) * (up + bu[n])" },
    "tile=128x256x256 ctaGroup=1 stages=2 accumulators=1",
  ],
  ["mxf4", [90, 136, 256], scaledExperts("offsets"), "tile=128x256x256 ctaGroup=1 stages=2 accumulators=1"],
  ["nvf4", [50, 136, 256], scaledExperts("counts"), "tile=128x256x256 ctaGroup=1 stages=2 accumulators=1"],
  [
    "mxf8",
    [70, 256, 256],
    scaledQuantized("mxf8", 32),
    "tile=128x256x128 ctaGroup=1 stages=1 accumulators=1 epi=direct",
  ],
  [
    "nvf4",
    [70, 128, 256],
    scaledQuantized("nvf4", 16),
    "tile=128x256x256 ctaGroup=1 stages=2 accumulators=1 epi=direct",
  ],
] as const;

const sizes = [
  [4096, 14336, 4096, {}],
  [128, 14336, 4096, {}],
  [4096, 2000, 1024, {}],
  [300, 129, 320, {}],
  [8192, 2048, 7168, scaledExperts("offsets")],
  [512, 2048, 7168, scaledExperts("counts")],
  [4096, 2048, 7168, scaledQuantized("mxf8", 32)],
  [4096, 2048, 7168, scaledQuantized("nvf4", 16)],
  // ptxas spilled these where a load had 32 columns of each sum, or 64.
  [70, 1000, 7168, { act: "gelu" }],
  [1000, 2000, 256, { epilogue: "silu(acc + bg[n]) * (up + bu[n])" }],
] as const;

gatedScales(tcgen05, {
  ...{ arch: "sm_100a", randomSchedule, cases, sizes },
  narrow: "tile=128x128x128 stages=2 ctaGroup=1 accumulators=1",
});
