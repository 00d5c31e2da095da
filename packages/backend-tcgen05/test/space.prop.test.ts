import { scheduleSpace } from "@tilewright/conformance";
import { tcgen05 } from "../src/index.ts";

scheduleSpace(tcgen05, {
  arch: "sm_100a",
  problems: [
    { m: 264, n: 136, k: 136, dtype: "bf16" },
    { m: 300, n: 72, k: 160, dtype: "e4m3", b: { layout: "col" }, d: { dtype: "f32" } },
  ],
  seed: 3,
  count: 30,
  sample: 2,
});
