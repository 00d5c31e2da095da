/** Where backends are composed: a new one is a line here and a dependency in package.json. */
import { mma } from "@tilewright/backend-mma";
import { simt } from "@tilewright/backend-simt";
import { tcgen05 } from "@tilewright/backend-tcgen05";
import { wgmma } from "@tilewright/backend-wgmma";
import type { Backend } from "@tilewright/ir";

/** In order of preference: what is made for a generation before what runs on all later ones. */
export const backends: readonly Backend[] = [wgmma, tcgen05, mma, simt];
