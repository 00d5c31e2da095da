/** Where backends are composed: a new one is a line here and a dependency in package.json. */
import { mma } from "@tilewright/backend-mma";
import { simt } from "@tilewright/backend-simt";
import { tcgen05 } from "@tilewright/backend-tcgen05";
import { wgmma } from "@tilewright/backend-wgmma";
import type { Backend } from "@tilewright/ir";

export const backends: readonly Backend[] = [wgmma, mma, simt, tcgen05];
