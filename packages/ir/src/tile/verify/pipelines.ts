/** Pipelines stand in the rings whose barriers and tiles they name. */

import { childrenOf } from "../rewrite.ts";
import { broughtViews } from "../stepViews.ts";
import type { Expr, Stmt, View } from "../types.ts";
import { viewsOf } from "../views.ts";
import type { Fault, Site, Verifier } from "./verifier.ts";

export const pipelines: Verifier = {
  name: "pipelines",
  code: "TW3137",
  property:
    "pipelines are declared before they are used, begin at a slot of their ring, and name slots and barriers of that ring; slots of rings with mbarriers, and of requests for work tiles, are those of pipelines; a slot that keeps only addresses is read by views, and not in a loop before that names it again",
  from: "machine",
  *check({ program, sites, rings }) {
    const ringOf = new Map(
      program.rings.flatMap((ring) =>
        ring.full?.kind === "mbarrier" ? ring.buffers.map((b) => [b, ring.name] as const) : [],
      ),
    );
    let role: Stmt | undefined;
    let declared = new Map<string, string>();
    const left = new Set<string>();
    for (const site of sites) {
      const { stmt } = site;
      const own = site.parents.find(({ kind }) => kind === "role");
      if (own !== role) declared = new Map();
      role = own;
      if (stmt.kind === "pipeline") {
        const slots = rings.get(stmt.of)?.slots ?? 1;
        if (stmt.stage >= slots)
          yield {
            at: site,
            message: `begins at slot ${stmt.stage} of %${stmt.of}, which has ${slots}`,
            hint: `write stage 0 to ${slots - 1}`,
          };
        declared.set(stmt.name, stmt.of);
      }
      if (stmt.kind === "hold") {
        declared.set(stmt.name, declared.get(stmt.pipeline) ?? "");
        if (stmt.slots) {
          left.add(stmt.name);
          yield* readTooEarly(site, stmt.name);
        }
      }
      const used = "barrier" in stmt ? stmt.barrier.pipeline : "pipeline" in stmt ? stmt.pipeline : null;
      if (used !== null && left.has(used))
        yield {
          at: site,
          message: `%${used} is a slot that the role has left: it has no number, and no barriers`,
          hint: "hold it without `slots`, or name the pipeline",
        };
      if ("barrier" in stmt)
        yield* named(
          site,
          declared,
          stmt.barrier.pipeline,
          stmt.barrier.ring,
          `%${stmt.barrier.ring}.${stmt.barrier.edge}`,
        );
      if (stmt.kind === "advance" || stmt.kind === "hold")
        yield* named(site, declared, stmt.pipeline, null, stmt.kind);
      if (stmt.kind === "request" || stmt.kind === "next")
        yield* named(site, declared, slotName(stmt.at), stmt.ring, stmt.kind);
      for (const view of slotted(stmt)) {
        const ring = ringOf.get(view.buffer);
        if (ring !== undefined) yield* named(site, declared, slotName(view.slot), ring, `%${view.buffer}`);
      }
    }
  },
};

const slotName = (slot: Expr): string | null => (slot.kind === "var" ? slot.name : null);

/** Views in slots, but for global memory. */
function slotted(stmt: Stmt): readonly View[] {
  switch (stmt.kind) {
    case "fill":
    case "copy":
    case "mma":
      return viewsOf(stmt);
    case "epilogue":
      return broughtViews(stmt);
    default:
      return [];
  }
}

function* named(
  site: Site,
  declared: ReadonlyMap<string, string>,
  pipeline: string | null,
  ring: string | null,
  what: string,
): Iterable<Fault> {
  const own = pipeline === null ? undefined : declared.get(pipeline);
  if (own !== undefined && (ring === null || own === ring)) return;
  yield {
    at: site,
    message:
      pipeline === null
        ? `${what} has a slot that no pipeline names`
        : own === undefined
          ? `${what} uses %${pipeline} before it is declared`
          : `${what} is of %${ring}, and %${pipeline} stands in %${own}`,
    hint: `name a pipeline of ${ring === null ? "the role" : `%${ring}`} that is declared before`,
  };
}

/** Addresses that a loop names anew in each turn are those of the turn before where they are read first. */
function* readTooEarly({ stmt, parents }: Site, name: string): Iterable<Fault> {
  const loop = parents.findLast(({ kind }) => kind === "for");
  if (loop === undefined) return;
  const body = childrenOf(loop);
  const until = body.indexOf(stmt);
  for (const before of body.slice(0, Math.max(0, until)))
    if (slotted(before).some(({ slot }) => slot.kind === "var" && slot.name === name))
      yield {
        at: `%${name}`,
        message: `is read in a loop before the loop names it`,
        hint: "hold the slot first, or without `slots`",
      };
}
