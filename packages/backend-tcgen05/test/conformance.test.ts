import { conformance } from "@tilewright/conformance";
import { tcgen05 } from "../src/index.ts";
import { optionsFor } from "./support/conformance.ts";

// Rows that bulk copies cannot take; casts that saturate or go to 8 bits, reductions that are not f32.
conformance(tcgen05, optionsFor(["TW1835", "TW1837"], 40, { first: 5000, count: 120 }));
