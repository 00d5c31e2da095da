import { conformance } from "@tilewright/conformance";
import { simt } from "../src/backend.ts";
import { optionsFor } from "./support/conformance.ts";

// Half of what sm_80 runs: the texts differ in copies and conversions only.
conformance(simt, optionsFor("sm_70", 0, 10));
