import { scheduleSpace } from "@tilewright/conformance";
import { simt } from "../src/backend.ts";

const size = { m: 70, n: 50, k: 37 };

scheduleSpace(simt, {
  arch: "sm_80",
  problems: [
    { ...size, dtype: "f32" },
    { ...size, dtype: "f16", epilogue: [{ kind: "bias", along: "n", dtype: "f16" }] },
  ],
  seed: 1,
  count: 60,
});
scheduleSpace(simt, { arch: "sm_70", problems: [{ ...size, dtype: "f32" }], seed: 2, count: 60 });
