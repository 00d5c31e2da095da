/** From a request to PTX in one call, for tests. */
import * as suite from "@tilewright/conformance";
import type { Problem, Schedule, Target } from "@tilewright/core";
import { simt } from "../../src/backend.ts";

export { hasPtxas } from "@tilewright/conformance";

/** A schedule from text. Throws on one that does not parse. */
export const scheduleOf = (text: string): Schedule => suite.scheduleOf(simt, text);

/** Bound program and kernel of a legal schedule. Throws on anything else. */
export const build = (problem: Problem, schedule: Schedule, target: Target): ReturnType<typeof suite.build> =>
  suite.build(simt, problem, target, schedule);

/** What ptxas -v says; throws when it refuses the text, spills, or reports a C75xx message. */
export function assemble(ptx: string, arch: string, what = ""): { readonly registers: number } {
  const { registers, faults } = suite.assemble(ptx, arch);
  if (faults.length > 0) throw new Error(`${what}\n${faults.join("\n")}`);
  return { registers };
}
