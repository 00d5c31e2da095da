/** Set the order of the multiply-adds of a register tile. */
import { parseLineOrder } from "../tile/lineOrder.ts";
import { numberArg, rewriteStmts, takeDirective, withBody, wordArg } from "../tile/rewrite.ts";
import type { Walk } from "../tile/types.ts";
import type { Pass } from "./pass.ts";

const walks: Readonly<Record<string, Walk>> = {
  rows: "rows",
  cols: "cols",
  "snake-rows": "snake-rows",
  "snake-cols": "snake-cols",
};

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
    const walk = walks[wordArg(taken.args, "order", "rows")] ?? "rows";
    const [lines, along] = ["lines", "along"].map((name) => parseLineOrder(wordArg(taken.args, name, "up")));
    const swap = numberArg(taken.args, "swap", 0) === 1;
    return withBody(
      taken.program,
      rewriteStmts(taken.program.body, (s) =>
        s.kind === "mma" ? { ...s, walk, lines: lines ?? s.lines, along: along ?? s.along, swap } : s,
      ),
    );
  },
};
