/** Set the order in which blocks visit the output tiles. */
import type { ArgumentsOf, Directive } from "../tile/directives.ts";
import { rewriteStmts, takeDirective, withBody } from "../tile/rewrite.ts";
import type { Raster } from "../tile/types.ts";
import type { Pass } from "./pass.ts";

/** The directive that asks for a raster; none for rows, which is what a nest has. */
export function rasterDirective(raster: Raster): Directive | null {
  if (raster.kind === "row") return null;
  const group = "group" in raster ? { group: raster.group } : {};
  return { name: "raster", args: { order: raster.kind, ...group } };
}

/** The raster that a directive's words name. */
const rasterBy = ({ order, group }: ArgumentsOf<"raster">): Raster =>
  order === "row" || order === "col" || order === "hilbert" ? { kind: order } : { kind: order, group };

/**
 * Directive `raster order=row|col|grouped|snake|blocked|hilbert group=G`: grouped walks G tile rows at a time, so that a wave shares rows and columns in L2;
 * a snake does so to and fro, so that neighbouring groups share columns too; blocks of 4 x 2 tiles are for blocks that are launched together; Hilbert's curve keeps any run of tiles compact.
 */
export const bindRaster: Pass = {
  name: "bindRaster",
  summary: "Blocks visit output tiles in the order that reuses L2",
  from: "specialised",
  to: "specialised",
  run(program) {
    const taken = takeDirective(program, "raster");
    if (!taken) return program;
    const raster = rasterBy(taken.args);
    return withBody(
      taken.program,
      rewriteStmts(taken.program.body, (s) => (s.kind === "tiles" ? { ...s, raster } : s)),
    );
  },
};
