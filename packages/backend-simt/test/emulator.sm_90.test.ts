import { conformance } from "@tilewright/conformance";
import { simt } from "../src/backend.ts";
import { optionsFor } from "./support/conformance.ts";

// What sm_90 adds: blocks that meet in a cluster, and atomics of several floats.
conformance(simt, optionsFor("sm_90", 3000, 60));
