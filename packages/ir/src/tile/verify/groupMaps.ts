/** Work tiles of a grouped problem begin with the maps of their group, which their bulk copies and stores go through. */
import { groupMapsOf } from "../launches/groupMaps.ts";
import { printHead } from "../print.ts";
import { eachStmt } from "../rewrite.ts";
import type { Stmt } from "../types.ts";
import type { Verifier } from "./verifier.ts";

export const groupMaps: Verifier = {
  name: "groupMaps",
  code: "TW3167",
  property:
    "loops over the work tiles of a grouped problem begin with the maps of the tile's group, for the matrices that they copy and store in bulk, in as many places as copies through older maps may need; nothing else makes maps",
  from: "machine",
  waivable: true,
  *check({ program, sites, buffers }) {
    const text = (stmts: readonly Stmt[]): string => stmts.map((stmt) => printHead(stmt, buffers)).join("; ");
    for (const { stmt, ...site } of sites) {
      if (stmt.kind === "tensormap.make" && !site.parents.some((around) => around.kind === "tiles"))
        yield {
          at: { stmt, ...site },
          message: "makes maps of a work tile's group outside of a loop over work tiles",
          hint: "let the loop's body begin with it",
        };
      if (stmt.kind !== "tiles") continue;
      const role = site.parents.find((around) => around.kind === "role");
      const warps = role?.kind === "role" ? role.warps : program.launch.threads / 32;
      const wanted = stmt.loop === null ? [] : groupMapsOf(program, stmt.body, warps);
      const first = stmt.body.filter(({ kind }) => kind !== "boundary").slice(0, wanted.length);
      const all = eachStmt(stmt.body).filter(({ kind }) => kind === "tensormap.make");
      if (text(first) === text(wanted) && all.length === wanted.length) continue;
      yield {
        at: { stmt, ...site },
        message: `makes ${all.length === 0 ? "no maps" : `maps by '${text(all)}'`}, and its bulk copies and stores go through ${wanted.length === 0 ? "those of the launch" : "maps of each group"}`,
        hint: wanted.length === 0 ? "leave them out" : `begin with '${text(wanted)}'`,
      };
    }
  },
};
