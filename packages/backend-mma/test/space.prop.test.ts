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
  ],
  seed: 1,
  count: 30,
});
