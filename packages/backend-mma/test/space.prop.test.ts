import { scheduleSpace } from "@tilewright/conformance";
import { mma } from "../src/backend.ts";

const size = { m: 70, n: 50, k: 37 };

scheduleSpace(mma, {
  arch: "sm_80",
  problems: [
    { ...size, dtype: "f16" },
    { ...size, dtype: "s8" },
    { ...size, dtype: "tf32" },
    { ...size, dtype: "f64" },
    { ...size, dtype: "bf16", batch: { kind: "grouped", count: 3 }, beta: 1 },
  ],
  seed: 1,
  count: 30,
  sample: 5,
});

// Rows of whole 16 bytes, which bulk copies take.
scheduleSpace(mma, {
  arch: "sm_90",
  problems: [
    { m: 72, n: 56, k: 40, dtype: "f16" },
    { m: 80, n: 48, k: 112, dtype: "s8", b: { layout: "col" } },
    { m: 40, n: 72, k: 44, dtype: "tf32", a: { layout: "col" } },
  ],
  seed: 2,
  count: 8,
  sample: 3,
});
