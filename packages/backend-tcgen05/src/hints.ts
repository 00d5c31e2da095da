/** What ptxas is told of a kernel. */
import type { LaunchHints } from "@tilewright/ir";

/** Without it ptxas keeps to 64 registers in clusters, and spills. */
export const hints = (): LaunchHints => ({ ctas: 1 });
