/** Tiles that bulk tensor copies fill and bulk stores empty. */
import { bulkAccessesOf, bulkStoreOf, loadCutOf } from "../launches/tensorMaps.ts";
import { bufferOf } from "../rewrite.ts";
import type { Fault, Subject, Verifier } from "./verifier.ts";

const NEAREST =
  "rows as long as the swizzle's span, at most 256 elements a box, parts of whole swizzle patterns";

export const bulkTiles: Verifier = {
  name: "bulkTiles",
  code: "TW3164",
  property:
    "bulk copies and stores can make the layouts of their tiles, in the parts of a cluster's CTAs or of warpgroups that store by themselves, and copy matrices of the launch",
  from: "bound",
  *check({ program, sites }) {
    for (const { stmt, warps } of bulkAccessesOf(program)) {
      const at = sites.find((site) => site.stmt === stmt) ?? "program";
      if (stmt.kind === "copy") yield* copied(program, at, stmt);
      else {
        const store =
          stmt.via === null || !isLaidOut(program, stmt.via.buffer)
            ? null
            : bulkStoreOf(program, stmt, warps);
        if (typeof store === "string")
          yield { at, message: `%${stmt.via?.buffer ?? ""} ${store}`, hint: NEAREST };
      }
    }
  },
};

const isLaidOut = (program: Subject["program"], tile: string): boolean =>
  bufferOf(program, tile).layout !== null;

function* copied(
  program: Subject["program"],
  at: Fault["at"],
  copy: Parameters<typeof loadCutOf>[1],
): Iterable<Fault> {
  if (isLaidOut(program, copy.dst.buffer) && loadCutOf(program, copy) === null)
    yield { at, message: `%${copy.dst.buffer} has a layout that bulk copies cannot make`, hint: NEAREST };
  if (bufferOf(program, copy.src.buffer).transposed === true)
    yield {
      at,
      message: `%${copy.src.buffer} is a copy in the workspace, of which no tensor map is made`,
      hint: "another transport, or the matrix as the launch has it",
    };
}
