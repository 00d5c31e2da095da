import { scheduleSpace } from "@tilewright/conformance";
import { wgmma } from "../src/backend.ts";

scheduleSpace(wgmma, {
  arch: "sm_90a",
  problems: [
    { m: 136, n: 72, k: 136, dtype: "bf16" },
    { m: 80, n: 48, k: 112, dtype: "s8", b: { layout: "col" } },
  ],
  seed: 4,
  count: 30,
  sample: 2,
});
