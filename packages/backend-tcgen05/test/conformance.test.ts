import { conformance } from "@tilewright/conformance";
import { tcgen05 } from "../src/index.ts";
import { optionsFor } from "./support/conformance.ts";

// Rows that bulk copies cannot take; elements under 8 bits with M or N contiguous.
conformance(tcgen05, optionsFor(["TW1835", "TW1836", "TW1908"], 120, { first: 5000, count: 120 }));
