import { conformance } from "@tilewright/conformance";
import { mma } from "../src/backend.ts";
import { optionsFor } from "./support/conformance.ts";

conformance(
  mma,
  optionsFor(
    "sm_89",
    [{ dtype: "e4m3" }, { dtype: "e5m2", bDType: "e4m3" }, { dtype: "u8", bDType: "s8" }],
    ["TW1815", "TW1817"],
    { first: 2000, count: 168 },
    28,
  ),
);
