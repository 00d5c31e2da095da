import { attentionConformance } from "@tilewright/conformance";
import { tcgen05 } from "../src/index.ts";
import { attentionOptions } from "./support/conformance.ts";

attentionConformance(tcgen05, attentionOptions);
