import { conformance } from "@tilewright/conformance";
import { mma } from "../src/backend.ts";
import { inWords, optionsFor } from "./support/conformance.ts";
import { scaledDTypes } from "./support/dtypes.ts";

conformance(mma, {
  ...optionsFor("sm_120a", scaledDTypes, ["TW1843", "TW1908"], { first: 4000, count: 300 }, 151),
  served: inWords,
});
