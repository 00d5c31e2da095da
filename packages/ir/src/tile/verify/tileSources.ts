/** Who says which tile a role works on next: one scheduler asks, every loop over tiles reads each answer once. */
import type { Tiles } from "../types.ts";
import type { Fault, Site, Subject, Verifier } from "./verifier.ts";

export const tileSources: Verifier = {
  name: "tileSources",
  code: "TW3131",
  property:
    "loops over tiles that follow a ring stand in roles, ask it or read it once a turn outside loops and conditions, and one role asks",
  from: "specialised",
  *check(subject) {
    const { sites } = subject;
    for (const site of sites) {
      const { stmt } = site;
      if (stmt.kind === "request" || stmt.kind === "next") yield* placed(site);
      if (stmt.kind === "tiles" && stmt.loop?.ring !== undefined) yield* followed(subject, site, stmt);
    }
    const asking = new Map<string, Site[]>();
    for (const site of sites)
      if (site.stmt.kind === "request")
        asking.set(site.stmt.ring, [...(asking.get(site.stmt.ring) ?? []), site]);
    const followedRings = new Set(
      sites.flatMap(({ stmt }) => (stmt.kind === "tiles" && stmt.loop?.ring ? [stmt.loop.ring] : [])),
    );
    for (const ring of followedRings) {
      const count = asking.get(ring)?.length ?? 0;
      if (count !== 1)
        yield {
          at: `%${ring}`,
          message: `${count} statements ask for tiles`,
          hint: "one scheduler writes fetch between acquire and commit",
        };
    }
  },
};

function* placed(site: Site): Iterable<Fault> {
  const { stmt, parents } = site;
  if (stmt.kind !== "request" && stmt.kind !== "next") return;
  const loop = parents.findLast(({ kind }) => kind !== "leader" && kind !== "response");
  if (loop?.kind !== "tiles" || loop.loop?.ring !== stmt.ring)
    yield {
      at: site,
      message: `is not directly in a loop over tiles that follows %${stmt.ring}`,
      hint: `write persistent %vt by ring %${stmt.ring} behind the tiles, and the statement straight into their body`,
    };
}

function* followed({ sites }: Subject, site: Site, stmt: Tiles): Iterable<Fault> {
  if (!site.parents.some((p) => p.kind === "role"))
    yield { at: site, message: "follows a ring outside roles", hint: "a block visits one tile there" };
  const reads = sites.filter((s) => s.stmt.kind === "next" && s.parents.includes(stmt)).length;
  if (reads !== 1)
    yield {
      at: site,
      message: `${reads} statements read which tile follows`,
      hint: `write next %${stmt.loop?.ring} @ %${stmt.loop?.var} once, between wait and release`,
    };
}
