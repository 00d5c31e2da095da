import { conformance } from "@tilewright/conformance";
import { tcgen05 } from "../src/index.ts";
import { optionsFor } from "./support/conformance.ts";

// Rows that bulk copies cannot take; elements under 8 bits with M or N contiguous; weights in few bits.
conformance(tcgen05, optionsFor(["TW1832", "TW1835", "TW1836"], 120, { first: 5000, count: 120 }));
