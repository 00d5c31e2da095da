/** What the page opens with, made when it is built: it is drawn before a worker has loaded the compiler. */
import { askOf } from "../model/ask.ts";
import { initialState } from "../model/state.ts";
import type { Compiled, World } from "./compiling.ts";
import { compileAsk } from "./kernel.ts";
import { world } from "./world.ts";

/** JSON: of the request that a page without a hash stands for. */
export interface Prepared {
  readonly world: World;
  readonly first: Compiled;
}

export function prepare(): Prepared {
  const { compiled } = compileAsk(askOf(initialState));
  return { world: world(), first: { ...compiled, ms: null } };
}
