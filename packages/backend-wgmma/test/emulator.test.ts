import { conformance } from "@tilewright/conformance";
import { wgmma } from "../src/backend.ts";
import { dtypesServed, optionsFor } from "./support/conformance.ts";

conformance(wgmma, optionsFor(dtypesServed, ["TW1827", "TW1828", "TW1908"], { first: 3000, count: 60 }));
