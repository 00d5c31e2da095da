import { conformance } from "@tilewright/conformance";
import { tcgen05 } from "../src/index.ts";
import { optionsFor } from "./support/conformance.ts";

// Sizes left to the launch; rows that bulk copies cannot take; grouped batches; casts that saturate or go to 8 bits, reductions that are not f32.
conformance(tcgen05, optionsFor(["TW1834", "TW1835", "TW1837", "TW1839"], 40, { first: 5000, count: 120 }));
