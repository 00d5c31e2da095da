import { conformance } from "@tilewright/conformance";
import { tcgen05 } from "../src/index.ts";
import { optionsFor } from "./support/conformance.ts";

// Rows that bulk copies cannot take.
conformance(tcgen05, optionsFor(["TW1835"], 40, { first: 5000, count: 120 }));
