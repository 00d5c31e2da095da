/** Copies that are shared out over the threads of a block move every element once. */
import { largestDivisor } from "@tilewright/core";
import type { Copy, Distribution } from "../types.ts";
import { viewsOf } from "../views.ts";
import { bufferAt, type Fault, type Site, type Subject, type Verifier } from "./verifier.ts";

/** Threads that run a statement: those of the role around it, or the block. */
export function threadsAt(subject: Subject, site: Site): number {
  const role = site.parents.find((s) => s.kind === "role");
  return role?.kind === "role" ? role.warps * 32 : subject.program.launch.threads;
}

/**
 * The copies into and out of a register tile without an owner, when that is all that touches it: its elements then live
 * with whichever thread the copies' distribution gives them to. Null when anything else touches it.
 */
export function stagingCopies(
  subject: Subject,
  buffer: string,
): readonly { site: Site; stmt: Copy }[] | null {
  const copies: { site: Site; stmt: Copy }[] = [];
  for (const site of subject.sites) {
    const { stmt } = site;
    if (!viewsOf(stmt).some((view) => view.buffer === buffer)) continue;
    if (stmt.kind !== "copy" || stmt.dist === null) return null;
    copies.push({ site, stmt });
  }
  return copies;
}

const same = (a: Distribution | null, b: Distribution | null): boolean =>
  a?.threads === b?.threads && a?.along === b?.along && a?.vector === b?.vector && a?.fastest === b?.fastest;

export const distributions: Verifier = {
  name: "distributions",
  code: "TW3114",
  property:
    "distributed copies consist of whole vectors, go round the threads that run them, and agree where they hand over in registers",
  from: "specialised",
  *check(subject) {
    for (const site of subject.sites)
      if (site.stmt.kind === "copy" && site.stmt.dist !== null)
        yield* checkCopy(subject, site, site.stmt, site.stmt.dist);
    for (const buffer of subject.program.buffers) {
      if (buffer.space !== "register" || buffer.own !== null) continue;
      const [first, ...others] = stagingCopies(subject, buffer.name) ?? [];
      for (const { site, stmt } of others) {
        const extents = [first?.stmt.dst.extent.join(" x "), stmt.dst.extent.join(" x ")];
        if (!same(first?.stmt.dist ?? null, stmt.dist) || extents[0] !== extents[1])
          yield {
            at: site,
            message: `hands %${buffer.name} over between threads: its copies are distributed differently`,
            hint: "give all copies of a register tile without owner the same dist and extents",
          };
      }
    }
  },
};

function* checkCopy(subject: Subject, site: Site, copy: Copy, dist: Distribution): Iterable<Fault> {
  const extent = copy.dst.extent[dist.fastest];
  const axis = dist.fastest === 0 ? "rows" : "columns";
  if (extent % dist.vector !== 0)
    yield {
      at: site,
      message: `vectors of ${dist.vector} do not divide ${extent} ${axis}`,
      hint: `use ${largestDivisor(extent, dist.vector)}`,
    };
  if (dist.threads % dist.along !== 0)
    yield {
      at: site,
      message: `${dist.along} threads side by side do not divide ${dist.threads}`,
      hint: `write along ${largestDivisor(dist.threads, dist.along)}`,
    };
  const threads = threadsAt(subject, site);
  if (dist.threads !== threads)
    yield {
      at: site,
      message: `is distributed over ${dist.threads} threads, and ${threads} run it`,
      hint: `write threads ${threads}`,
    };
  if (copy.vector.some((width) => dist.vector % width !== 0))
    yield {
      at: site,
      message: `moves vectors ${copy.vector.join(":")} out of runs of ${dist.vector}`,
      hint: "widths divide the distribution's vector",
    };
  for (const view of [copy.src, copy.dst])
    if (bufferAt(subject, view.buffer).own !== null)
      yield {
        at: site,
        message: `has a distribution although %${view.buffer} has an owner`,
        hint: "remove dist: the owner says who moves what",
      };
}
