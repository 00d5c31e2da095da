import { conformance } from "./support/conformance.ts";

conformance("sm_80", 1000, 1105);
