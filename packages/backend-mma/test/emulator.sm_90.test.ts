import { conformance } from "@tilewright/conformance";
import { mma } from "../src/backend.ts";
import { optionsFor } from "./support/conformance.ts";
import { bulkDTypes } from "./support/dtypes.ts";

conformance(mma, optionsFor("sm_90", bulkDTypes, ["TW1908"], { first: 3000, count: 72 }, 48));
