import { conformance } from "@tilewright/conformance";
import { wgmma } from "../src/backend.ts";
import { optionsFor } from "./support/conformance.ts";

// Grouped batches; casts that saturate or go to 8 bits, reductions that are not f32.
conformance(
  wgmma,
  optionsFor(
    [
      { dtype: "bf16" },
      { dtype: "f16" },
      { dtype: "f16", acc: "f16" },
      { dtype: "tf32" },
      { dtype: "e4m3", bDType: "e5m2" },
      { dtype: "s8", bDType: "u8" },
    ],
    ["TW1824", "TW1826"],
    { first: 3000, count: 60 },
  ),
);
