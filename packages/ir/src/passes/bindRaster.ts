/** Set the order in which blocks visit the output tiles. */
import { numberArg, rewriteStmts, takeDirective, withBody, wordArg } from "../tile/rewrite.ts";
import type { Raster } from "../tile/types.ts";
import type { Pass } from "./pass.ts";

/** Directive `raster order=row|col|grouped group=G`: grouped walks G tile rows at a time, so that a wave shares rows and columns in L2. */
export const bindRaster: Pass = {
  name: "bindRaster",
  summary: "Blocks visit output tiles in the order that reuses L2",
  from: "specialised",
  to: "specialised",
  run(program) {
    const taken = takeDirective(program, "raster");
    if (!taken) return program;
    const order = wordArg(taken.args, "order", "row");
    const raster: Raster =
      order === "grouped"
        ? { kind: "grouped", group: numberArg(taken.args, "group", 1) }
        : { kind: order === "col" ? "col" : "row" };
    return withBody(
      taken.program,
      rewriteStmts(taken.program.body, (s) => (s.kind === "tiles" ? { ...s, raster } : s)),
    );
  },
};
