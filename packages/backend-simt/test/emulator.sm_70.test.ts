import { conformance } from "@tilewright/conformance";
import { simt } from "../src/backend.ts";
import { optionsFor } from "./support/conformance.ts";

const { dtypes, ...options } = optionsFor("sm_70", 5, 10);
// Rows that sm_80 leaves out: the texts differ in copies and conversions only, and each conversion is one of these dtypes'.
conformance(simt, { ...options, dtypes: [dtypes[0], ...dtypes.slice(1, 3)] });
