/** Blocks that share a tile meet exactly once, and only one of them stores it. */
import type { Stmt } from "../types.ts";
import type { Fault, Site, Verifier } from "./verifier.ts";

type Tiles = Extract<Stmt, { kind: "tiles" }>;

export const splits: Verifier = {
  name: "splits",
  code: "TW3122",
  property:
    "tiles with a split have one combine, outside loops and conditions, and their epilogues inside it, from registers where another kernel runs them; others have none",
  from: "nest",
  *check({ sites }) {
    for (const site of sites) {
      const { stmt } = site;
      if (stmt.kind === "combine") {
        yield* placed(site);
        if (stmt.by === "kernel" && stmt.body.some((s) => s.kind !== "epilogue" || s.via !== null))
          yield {
            at: site,
            message: "a second kernel has nothing but the sum in registers",
            hint: "leave one epilogue without `via` in the combine, or write `by last`",
          };
      }
      if (stmt.kind === "tiles" && stmt.split !== null) {
        const meetings = sites.filter((s) => s.stmt.kind === "combine" && s.parents.includes(stmt));
        if (meetings.length !== 1)
          yield {
            at: site,
            message: `${meetings.length} combines for the ${stmt.split.extent} blocks of a tile`,
            hint: "write one combine around the epilogue",
          };
      }
      if (stmt.kind === "epilogue" && split(site) && !site.parents.some((p) => p.kind === "combine"))
        yield {
          at: site,
          message: "every block of the tile stores its part as if it were the whole",
          hint: "put the epilogue into a combine",
        };
    }
  },
};

const split = (site: Site): boolean =>
  site.parents.some((p): p is Tiles => p.kind === "tiles" && p.split !== null);

function* placed(site: Site): Iterable<Fault> {
  if (!split(site))
    yield {
      at: site,
      message: "one block works on the tile: there is nothing to combine",
      hint: "write `split %st < BLOCKS` behind the tiles, or remove the combine",
    };
  if (site.parents.some((p) => p.kind === "for" || p.kind === "if" || p.kind === "combine"))
    yield {
      at: site,
      message: "blocks meet in a loop, a condition or another combine",
      hint: "the combine stands behind the loop over K chunks",
    };
}
