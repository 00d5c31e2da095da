/** The conformance table on a real GPU: right against float64, and the bits of the emulator. Skipped where there is no sm_90 GPU. */
import { attentionOnGpu, conformanceOnGpu } from "@tilewright/conformance";
import { wgmma } from "../src/backend.ts";
import { attentionOptions, dtypesServed, optionsFor } from "./support/conformance.ts";

await conformanceOnGpu(
  wgmma,
  optionsFor(dtypesServed, ["TW1827", "TW1828", "TW1908"], { first: 3000, count: 60 }),
);
await attentionOnGpu(wgmma, attentionOptions);
