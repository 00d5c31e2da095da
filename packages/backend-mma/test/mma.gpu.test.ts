/** The conformance table on a real GPU: right against float64, and the bits of the emulator. Skipped where there is no GPU. */
import { attentionOnGpu, conformanceOnGpu } from "@tilewright/conformance";
import { mma } from "../src/backend.ts";
import { attentionOptions, optionsFor } from "./support/conformance.ts";
import { adaDTypes, ampereDTypes, bulkDTypes } from "./support/dtypes.ts";

await conformanceOnGpu(
  mma,
  optionsFor("sm_80", ampereDTypes, ["TW1817", "TW1908"], { first: 1000, count: 100 }, 1),
);
await conformanceOnGpu(
  mma,
  optionsFor("sm_90", bulkDTypes, ["TW1908", "TW1909"], { first: 3000, count: 40 }, 1),
);
await conformanceOnGpu(mma, optionsFor("sm_89", adaDTypes, ["TW1908"], { first: 2000, count: 40 }, 1));
for (const options of attentionOptions) await attentionOnGpu(mma, options);
