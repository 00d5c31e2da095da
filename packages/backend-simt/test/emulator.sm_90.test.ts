import { conformance } from "@tilewright/conformance";
import { simt } from "../src/backend.ts";
import { optionsFor } from "./support/conformance.ts";

const { dtypes, ...options } = optionsFor("sm_90", 3008, 10);
// Rows that sm_80 and sm_70 leave out, with what sm_90 adds: blocks that meet in a cluster, and atomics of several floats.
conformance(simt, {
  ...options,
  dtypes: [dtypes[0], ...dtypes.slice(1, 2)],
  // sm_90 adds bf16 in memory.
  refuses: options.refuses.filter((code) => code !== "TW1805"),
});
