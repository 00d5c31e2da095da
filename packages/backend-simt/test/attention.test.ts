import { attentionConformance } from "@tilewright/conformance";
import { simt } from "../src/index.ts";
import { attentionOptions } from "./support/conformance.ts";

attentionConformance(simt, attentionOptions);
