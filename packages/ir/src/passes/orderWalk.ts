/** Set the order of the multiply-adds of a register tile. */
import { rewriteStmts, takeDirective, withBody } from "../tile/rewrite.ts";
import type { Pass } from "./pass.ts";

/**
 * Directive `walk order=rows|cols|snake-rows|snake-cols lines=ORDER along=ORDER swap=0|1`. A snake reuses one operand at each turn, which register banks
 * reward; the order of the runs, of the elements in a run and of the factors decide what ptxas makes of the banks.
 */
export const orderWalk: Pass = {
  name: "orderWalk",
  summary: "Multiply-adds walk the register tile in the order that reuses operands",
  from: "specialised",
  to: "specialised",
  run(program) {
    const taken = takeDirective(program, "walk");
    if (!taken) return program;
    const { order: walk, lines, along, swap } = taken.args;
    return withBody(
      taken.program,
      rewriteStmts(taken.program.body, (s) =>
        s.kind === "mma" ? { ...s, walk, lines, along, swap: swap === 1 } : s,
      ),
    );
  },
};
