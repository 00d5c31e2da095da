import { conformance } from "@tilewright/conformance";
import { simt } from "../src/backend.ts";
import { optionsFor } from "./support/conformance.ts";

// Half of the rows, one in each dtype in turn; sm_70 and sm_90 have the other half.
conformance(simt, optionsFor("sm_80", 1000, 10));
