/** What ptxas is told of a kernel: nothing beside its register budgets. */
import type { LaunchHints } from "@tilewright/ir";

export const hints = (): LaunchHints => ({ ctas: null, maxnreg: null });
