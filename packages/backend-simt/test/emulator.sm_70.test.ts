import { conformance } from "./support/conformance.ts";

conformance("sm_70", 0, 105);
