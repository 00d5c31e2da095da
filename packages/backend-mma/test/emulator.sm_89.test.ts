import { conformance } from "@tilewright/conformance";
import { mma } from "../src/backend.ts";
import { optionsFor } from "./support/conformance.ts";
import { adaDTypes } from "./support/dtypes.ts";

conformance(mma, optionsFor("sm_89", adaDTypes, ["TW1817", "TW1908"], { first: 2000, count: 168 }, 28));
