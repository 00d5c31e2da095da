import { conformance } from "@tilewright/conformance";
import { mma } from "../src/backend.ts";
import { optionsFor } from "./support/conformance.ts";
import { ampereDTypes } from "./support/dtypes.ts";

// Steps on f64.
conformance(mma, optionsFor("sm_80", ampereDTypes, ["TW1817", "TW1908"], { first: 1000, count: 400 }, 23));
