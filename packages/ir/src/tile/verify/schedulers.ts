/** The tile schedulers of a machine program count the work tiles that there are, by the CTAs that it has. */
import { readsBy } from "../elements.ts";
import { freeVars } from "../expr.ts";
import { clusterUnits, eachStmt } from "../rewrite.ts";
import { listedProblems, listOf } from "../streamK.ts";
import type { Boundary, Stmt } from "../types.ts";
import type { Fault, Site, Verifier } from "./verifier.ts";

export const schedulers: Verifier = {
  name: "schedulers",
  code: "TW3163",
  property:
    "loops over work tiles have a scheduler, whose unit is the cluster and whose numbers are the tiles that there are; roles that copy know their tile first, and count the tiles where copies go by their number; barriers at a loop's bounds stand where it has such bounds",
  from: "machine",
  waivable: "values",
  *check({ program, sites, rings }) {
    const { cluster } = program.launch;
    const unit = cluster[0] * cluster[1];
    const [m, n] = clusterUnits(program.launch);
    for (const site of sites) {
      const { stmt } = site;
      if (stmt.kind !== "tiles") continue;
      const { scheduler, extents, loop } = stmt;
      yield* boundsOf(site, stmt);
      const fault = (message: string, hint: string): Fault => ({ at: site, message, hint });
      const all = ((extents[0] * extents[1]) / (m * n)) * listedProblems(program.problem, loop);
      if (scheduler === undefined) {
        yield {
          ...fault("has no tile scheduler", `write scheduler(unit ${unit}, below ${all})`),
          needed: true,
        };
        continue;
      }
      const { below, counts, deferred } = scheduler;
      const asks = loop?.ring !== undefined && rings.get(loop.ring)?.transport === "atomic";
      if (asks && below === null)
        yield {
          ...fault("a counter hands out numbers, and nothing says how many", `write below ${all}`),
          needed: true,
        };
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
      if (deferred && inner.some((s) => s.kind === "copy" || readsBy(s, stmt.vars)))
        yield fault(
          "computes coordinates behind the first products, and begins with copies or reads that need them",
          "remove deferred",
        );
      if (loop === null || counts) continue;
      if (inner.some((s) => s.kind === "copy" && s.src.origin.some((e) => freeVars(e).has(loop.var))))
        yield { ...fault(`copies go by %${loop.var}, and nothing counts it`, "write counts"), needed: true };
    }
  },
};

/** Of the program as it is given: which CTAs share a line, and how many problems there are, no launch decides. */
export const lists: Verifier = {
  name: "lists",
  code: "TW3168",
  property:
    "tile schedulers go through the work tiles of as many problems as a grouped launch has, and cut the line of K chunks of a streamk among as many CTAs as that says, which do the tiles behind it",
  from: "machine",
  waivable: "values",
  *check({ program, sites }) {
    for (const site of sites) {
      const { stmt } = site;
      if (stmt.kind !== "tiles" || stmt.scheduler === undefined) continue;
      const { groups, streamk } = stmt.scheduler;
      const wanted = listOf(program, stmt);
      if (groups !== wanted.groups)
        yield {
          at: site,
          message: `goes through the work tiles of ${groups ?? "no"} problems of a launch, and there are ${wanted.groups ?? "none"} in its list`,
          hint: wanted.groups === undefined ? "remove groups" : `write groups ${wanted.groups}`,
          ...(groups === undefined ? { needed: true } : {}),
        };
      const [ctas, whole] = [wanted.streamk?.ctas, wanted.streamk?.whole];
      if (streamk?.ctas !== ctas || streamk?.whole !== whole)
        yield {
          at: site,
          message:
            "cuts the line of K chunks otherwise than streamk says, or leaves tiles behind it to nobody",
          hint:
            ctas === undefined ? "remove streamk" : `write streamk ${ctas}${whole === true ? " whole" : ""}`,
          ...(streamk === undefined ? { needed: true } : {}),
        };
    }
  },
};

/** What a loop does at its bounds are barriers: of ping-pong roles at the first and the last, of a CTA with parts of tiles between them. */
function* boundsOf(site: Site, { body, loop, streamK }: Extract<Stmt, { kind: "tiles" }>): Iterable<Fault> {
  const has = (at: Boundary): boolean =>
    at === "between" ? streamK !== undefined && loop === null : loop !== null && loop.of > 1;
  for (const stmt of body) {
    if (stmt.kind !== "boundary") continue;
    const other = stmt.body.find(({ kind }) => kind !== "barrier");
    if (has(stmt.bound) && other === undefined) continue;
    yield {
      at: site,
      message:
        other === undefined
          ? `has 'boundary ${stmt.bound}', and its loop comes to no such bound`
          : `does '${other.kind}' at a bound of its loop`,
      hint:
        other === undefined
          ? "leave it out: 'first' and 'last' are of ping-pong roles, 'between' of a CTA with parts of tiles"
          : "barriers, and nothing else",
    };
  }
}
