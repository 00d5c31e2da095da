/** The tile schedulers of a machine program count the work tiles that there are, by the CTAs that it has. */
import { readsBy } from "../elements.ts";
import { freeVars } from "../expr.ts";
import { clusterUnits, eachStmt } from "../rewrite.ts";
import type { Fault, Verifier } from "./verifier.ts";

export const schedulers: Verifier = {
  name: "schedulers",
  code: "TW3163",
  property:
    "loops over work tiles have a scheduler, whose unit is the cluster and whose numbers are the tiles that there are; roles that copy know their tile first, and count the tiles where copies go by their number",
  from: "machine",
  waivable: true,
  *check({ program, sites }) {
    const { cluster } = program.launch;
    const unit = cluster[0] * cluster[1];
    const [m, n] = clusterUnits(program.launch);
    for (const site of sites) {
      const { stmt } = site;
      if (stmt.kind !== "tiles") continue;
      const { scheduler, extents, loop } = stmt;
      const fault = (message: string, hint: string): Fault => ({ at: site, message, hint });
      const all = (extents[0] * extents[1]) / (m * n);
      if (scheduler === undefined) {
        yield fault("has no tile scheduler", `write scheduler(unit ${unit}, below ${all})`);
        continue;
      }
      const { below, counts, late } = scheduler;
      if (scheduler.unit !== unit)
        yield fault(
          `${scheduler.unit} CTAs take a number together, and a cluster has ${unit}`,
          `write unit ${unit}`,
        );
      if (below !== null && below !== all)
        yield fault(
          `hands out numbers below ${below}, and there are ${all}: ${below > all ? "the others lie outside of D" : "the others are never computed"}`,
          `write below ${all}`,
        );
      const inner = eachStmt(stmt.body);
      if (late && inner.some((s) => s.kind === "copy" || readsBy(s, stmt.vars)))
        yield fault(
          "computes coordinates late, and begins with copies or reads that need them",
          "remove late",
        );
      if (loop === null || counts) continue;
      if (inner.some((s) => s.kind === "copy" && s.src.origin.some((e) => freeVars(e).has(loop.var))))
        yield fault(`copies go by %${loop.var}, and nothing counts it`, "write counts");
    }
  },
};
