import { conformance } from "@tilewright/conformance";
import { wgmma } from "../src/backend.ts";
import { dtypesServed, optionsFor } from "./support/conformance.ts";

// Casts that saturate or go to 8 bits, reductions that are not f32.
conformance(wgmma, optionsFor(dtypesServed, ["TW1826", "TW1827", "TW1828"], { first: 3000, count: 60 }));
