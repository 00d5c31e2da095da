import { conformance } from "@tilewright/conformance";
import { mma } from "../src/backend.ts";
import { optionsFor } from "./support/conformance.ts";

conformance(
  mma,
  optionsFor(
    "sm_80",
    [
      { dtype: "f16" },
      { dtype: "bf16" },
      { dtype: "f16", acc: "f16" },
      { dtype: "tf32" },
      { dtype: "s8" },
      { dtype: "u8" },
      { dtype: "f64" },
    ],
    // Grouped batches; casts that saturate or go to 8 bits, reductions that are not f32; steps on f64.
    ["TW1815", "TW1817"],
    { first: 1000, count: 400 },
    20,
  ),
);
