import { scheduleSpace } from "@tilewright/conformance";
import { simt } from "../src/backend.ts";

const size = { m: 70, n: 50, k: 37 };

scheduleSpace(simt, { arch: "sm_80", problems: [{ ...size, dtype: "f32" }], seed: 1, count: 60 });
// Clusters are there; groups, and elements of 16 bits.
scheduleSpace(simt, {
  arch: "sm_90",
  problems: [
    { ...size, dtype: "f16", epilogue: [{ kind: "bias", along: "n", dtype: "f16" }] },
    { ...size, dtype: "f32", batch: { kind: "grouped", count: 3 }, beta: 1 },
  ],
  seed: 3,
  count: 8,
  sample: 4,
});
scheduleSpace(simt, {
  arch: "sm_70",
  problems: [{ ...size, dtype: "f32", symbolic: { m: {}, n: {}, k: {} } }],
  seed: 2,
  count: 15,
  sample: 4,
});
