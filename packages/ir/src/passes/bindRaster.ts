/** Set the order in which blocks visit the output tiles. */
import { numberArg, rewriteStmts, takeDirective, withBody, wordArg } from "../tile/rewrite.ts";
import type { Directive, Raster } from "../tile/types.ts";
import type { Pass } from "./pass.ts";

/** The directive that asks for a raster; none for rows, which is what a nest has. */
export function rasterDirective(raster: Raster): Directive | null {
  switch (raster.kind) {
    case "row":
      return null;
    case "col":
      return { name: "raster", args: { order: "col" } };
    case "grouped":
      return { name: "raster", args: { order: "grouped", group: raster.group } };
  }
}

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
