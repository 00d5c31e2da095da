import { conformance } from "@tilewright/conformance";
import { simt } from "../src/backend.ts";
import { optionsFor } from "./support/conformance.ts";

// A quarter of the rows, one in each dtype in turn; sm_70 and sm_90 have another quarter, and mma and wgmma all of them.
conformance(simt, optionsFor("sm_80", 1000, 10, 0));
