import { conformance } from "@tilewright/conformance";
import { mma } from "../src/backend.ts";
import { optionsFor } from "./support/conformance.ts";

conformance(
  mma,
  optionsFor(
    "sm_75",
    [{ dtype: "f16" }, { dtype: "f16", acc: "f16" }, { dtype: "s8" }],
    ["TW1819", "TW1908"],
    { first: 4000, count: 60 },
    60,
  ),
);
