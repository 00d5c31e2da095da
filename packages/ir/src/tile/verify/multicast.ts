/** Copies that the blocks of a cluster share, and tiles of persistent CTAs. */
import { largestDivisor, roundUp } from "@tilewright/core";
import { freeVars } from "../expr.ts";
import { clusterUnits } from "../rewrite.ts";
import type { Copy, TileLoop, Tiles } from "../types.ts";
import type { Fault, Site, Subject, Verifier } from "./verifier.ts";

const axes = { m: 0, n: 1 } as const;

export const multicast: Verifier = {
  name: "multicast",
  code: "TW3123",
  property:
    "copies shared in a cluster are bulk copies into a ring with mbarriers, of what the blocks along that axis have in common; the tiles divide by the cluster",
  from: "specialised",
  *check(subject) {
    for (const site of subject.sites) {
      const { stmt } = site;
      if (stmt.kind === "copy" && stmt.multicast !== null) yield* shared(subject, site, stmt, stmt.multicast);
    }
  },
};

function* shared(subject: Subject, site: Site, copy: Copy, axis: "m" | "n"): Iterable<Fault> {
  const cluster = clusterUnits(subject.program.launch);
  const blocks = cluster[axes[axis]];
  if (blocks === 1)
    yield {
      at: site,
      message: `is shared along ${axis}, where the cluster has one block`,
      hint: "remove multicast, or launch larger clusters",
    };
  const ring = subject.program.rings.find((r) => r.buffers.includes(copy.dst.buffer));
  if (copy.transport !== "tma" || ring?.full?.kind !== "mbarrier" || ring.empty?.kind !== "mbarrier")
    yield {
      at: site,
      message: "only bulk copies into a ring whose edges are mbarriers reach other blocks",
      hint: "write transport tma, full mbarrier:1 and empty mbarrier:N",
    };
  const tiles = site.parents.find((p): p is Tiles => p.kind === "tiles");
  if (tiles === undefined) return;
  const used = freeVars(copy.src.origin[1], freeVars(copy.src.origin[0]));
  if (used.has(tiles.vars[axes[axis]]))
    yield {
      at: site,
      message: `blocks along ${axis} want different rectangles: it depends on %${tiles.vars[axes[axis]]}`,
      hint: `share it along ${axis === "m" ? "n" : "m"}, or not at all`,
    };
  for (const i of [0, 1] as const)
    if (tiles.extents[i] % cluster[i] !== 0)
      yield {
        at: site,
        message: `${tiles.extents[i]} tiles along ${i === 0 ? "m" : "n"} do not divide among clusters of ${cluster[i]}, whose blocks wait for each other`,
        hint: `write ${roundUp(tiles.extents[i], cluster[i])}; tiles outside of D store nothing`,
      };
}

export const copiesRead: Verifier = {
  name: "visits",
  code: "TW3124",
  property:
    "persistent CTAs loop over tiles inside roles, all roles over the same tiles in the same order, and ping-pong roles take all of them; zigzag is for one role of one problem's tiles, with accumulators in registers; one list has the tiles of a strided batch of fixed count",
  from: "specialised",
  *check(subject) {
    const loops = subject.sites.filter(({ stmt }) => stmt.kind === "tiles" && stmt.loop !== null);
    const [first] = loops;
    if (first?.stmt.kind !== "tiles") return;
    const same = first.stmt;
    for (const site of loops) {
      const { stmt } = site;
      if (stmt.kind !== "tiles" || stmt.loop === null) continue;
      const { turn, of, by } = stmt.loop;
      if (!site.parents.some((p) => p.kind === "role"))
        yield {
          at: site,
          message: "a block without roles has one tile",
          hint: "remove persistent, or put the tiles into roles",
        };
      if (turn >= of)
        yield { at: site, message: `pingPong ${turn} of ${of}`, hint: `roles are numbered 0 to ${of - 1}` };
      const order = (t: Tiles): string =>
        JSON.stringify([
          ...[t.extents, t.split?.extent ?? 1, t.streamK ?? null],
          ...[t.raster, t.descending ?? false, t.loop?.by ?? null, t.loop?.batch ?? null],
        ]);
      if (order(stmt) !== order(same))
        yield {
          at: site,
          message: "visits other tiles, or the same in another order, than the first role",
          hint: "give all roles the same extents, split and raster, and the same way to get tiles",
        };
      const { buffers, problem } = subject.program;
      const strides =
        of > 1 || problem.batch.kind === "grouped" || buffers.some(({ space }) => space === "tensor");
      if (by === "zigzag" && strides)
        yield {
          at: site,
          message:
            "ping-pong roles, lists of groups and accumulators in tensor memory go through tiles by stride",
          hint: "write by stride",
        };
      yield* listed(subject, site, stmt, stmt.loop);
    }
  },
};

/** Tiles of all problems of a batch in one list: their number is known, and nothing else says which problem a CTA works on. */
function* listed(
  { program }: Subject,
  site: Site,
  { symbolic }: Tiles,
  { batch, by, ring }: TileLoop,
): Iterable<Fault> {
  if (batch === undefined) return;
  const { problem, rings, buffers } = program;
  const count =
    problem.batch.kind === "strided" && problem.symbolic?.batch === undefined && symbolic === undefined
      ? problem.batch.count
      : null;
  if (count === null || count % batch !== 0)
    yield {
      at: site,
      message:
        count === null
          ? "takes problems of a batch in turn, and their number, or that of their tiles, is none that the text knows"
          : `takes ${batch} problems at a time, which do not divide ${count}`,
      hint: count === null ? "remove batch" : `write batch ${largestDivisor(count, batch)}`,
    };
  const tensor = buffers.some(({ space }) => space === "tensor");
  const control = rings.some(({ name, transport }) => name === ring && transport === "clc");
  if (by === "streamk" || tensor || control)
    yield {
      at: site,
      message:
        "shares of K chunks, CLC responses and accumulators in tensor memory are of one problem's work tiles",
      hint: "remove batch",
    };
}
