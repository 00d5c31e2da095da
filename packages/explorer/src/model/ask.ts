/** What the compiling worker is asked of a state. */
import type { Ask } from "../worker/compiling.ts";
import type { State } from "./state.ts";

/** States of equal asks have the same kernel. */
export function askOf({ arch, gpu, backend, schedule, problem, edit, unproven }: State): Ask {
  return { arch, gpu, backend, schedule, problem, edit, unproven: unproven === "yes" };
}
