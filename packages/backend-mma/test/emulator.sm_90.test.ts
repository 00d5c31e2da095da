import { conformance } from "@tilewright/conformance";
import { mma } from "../src/backend.ts";
import { optionsFor } from "./support/conformance.ts";
import { bulkDTypes } from "./support/dtypes.ts";

// TW1909: gated products whose groups of scales are a warp's whole tile; sm_80 text, which copies by threads, has them.
conformance(mma, optionsFor("sm_90", bulkDTypes, ["TW1908", "TW1909"], { first: 3000, count: 72 }, 48));
