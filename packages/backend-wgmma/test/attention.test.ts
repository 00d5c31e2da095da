import { attentionConformance } from "@tilewright/conformance";
import { wgmma } from "../src/index.ts";
import { attentionOptions } from "./support/conformance.ts";

attentionConformance(wgmma, attentionOptions);
