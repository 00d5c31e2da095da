import { conformance } from "@tilewright/conformance";
import { simt } from "../src/backend.ts";
import { optionsFor } from "./support/conformance.ts";

conformance(simt, optionsFor("sm_80", 1000, 5));
