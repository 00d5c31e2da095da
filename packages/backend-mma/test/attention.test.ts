import { attentionConformance } from "@tilewright/conformance";
import { mma } from "../src/index.ts";
import { attentionOptions } from "./support/conformance.ts";

for (const options of attentionOptions) attentionConformance(mma, options);
