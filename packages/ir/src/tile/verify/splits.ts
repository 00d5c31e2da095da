/** Blocks that share a tile meet exactly once, and only one of them stores it. */

import { withSum } from "../dsmemReduction.ts";
import { freeVars } from "../expr.ts";
import { eachStmt } from "../rewrite.ts";
import { MOST_SLICES, reached, type Stmt, type StreamK, type Tiles } from "../types.ts";
import { bufferAt, type Fault, type Site, type Subject, type Verifier } from "./verifier.ts";

export const splits: Verifier = {
  name: "splits",
  code: "TW3122",
  property:
    "tiles with a split or a share have one combine, outside loops and conditions, without events of rings, and their epilogues inside it, from registers where another kernel or blocks of slices run them; others have none, but for that kernel's; shares are of tiles that are there, roles visit theirs, and loops run over their chunks; blocks that meet in a cluster are those of a split, and each has a slice of the rows or columns",
  from: "nest",
  *check(subject) {
    const { program, sites } = subject;
    for (const site of sites) {
      const { stmt } = site;
      if (stmt.kind === "reduce") {
        yield* placed(site, split(site) || isBehind(site));
        yield* sliced(subject, site, stmt);
        const event = eachStmt(stmt.body).find((s) => "ring" in s);
        if (event !== undefined && "ring" in event)
          yield {
            at: site,
            message: `${event.kind} of %${event.ring} in a combine, to which blocks that leave do not come`,
            hint: "put it in front of the combine or behind it",
          };
        const stored = withSum(stmt);
        if (stmt.by === "kernel" && stored.some((s) => s.kind !== "epilogue" || s.via !== null))
          yield {
            at: site,
            message: "a second kernel has nothing but the sum in registers",
            hint: "leave one epilogue without `via` in the combine, or write `by last`",
          };
        if (
          stmt.by === "slices" &&
          (stored.length !== 1 || stored.some((s) => s.kind !== "epilogue" || s.via !== null))
        )
          yield {
            at: site,
            message: "slices of a tile are stored from registers, by one epilogue",
            hint: "leave one epilogue without `via` in the combine, or write `by last`",
          };
      }
      if (stmt.kind === "reduce" && stmt.by === "slices")
        for (const tiles of sites)
          if (tiles.stmt.kind === "tiles" && (tiles.stmt.split?.extent ?? 0) > MOST_SLICES)
            yield {
              at: tiles,
              message: `${tiles.stmt.split?.extent} blocks of a tile, and the word in which they count themselves has ${MOST_SLICES} bits for them`,
              hint: `split among at most ${MOST_SLICES}, or write by last`,
            };
      if (stmt.kind === "tiles" && stmt.split !== null && stmt.loop !== null)
        yield {
          at: site,
          message: "persistent CTAs go on to other tiles, and a split's CTAs have one",
          hint: "write streamk in place of split, or leave persistent out",
        };
      if (stmt.kind === "tiles" && stmt.streamK !== undefined && (stmt.loop?.of ?? 1) > 1)
        yield {
          at: site,
          message: "ping-pong roles take whole tiles, and streamk parts of them",
          hint: "leave pingPong or streamk out",
        };
      if (stmt.kind === "tiles" && stmt.streamK !== undefined)
        yield* shared(site, stmt, stmt.streamK, reached(program.stage, "bound"));
      if (stmt.kind === "tiles" && sharers(stmt) !== null) {
        // Of tiles that several roles visit, those who hold the sums meet.
        const inRole = site.parents.some((p) => p.kind === "role");
        const meetings = sites.filter(
          (s) => s.stmt.kind === "reduce" && !isBehind(s) && (inRole || s.parents.includes(stmt)),
        );
        if (meetings.length !== 1)
          yield {
            at: site,
            message: `${meetings.length} combines for ${stmt.streamK ? "the blocks that share" : `the ${sharers(stmt)} blocks of`} a tile`,
            hint: "write one combine around the epilogue",
          };
      }
      if (stmt.kind === "epilogue" && split(site) && !site.parents.some((p) => p.kind === "reduce"))
        yield {
          at: site,
          message: "every block of the tile stores its part as if it were the whole",
          hint: "put the epilogue into a combine",
        };
    }
  },
};

/** Matrices that are copied chunk by chunk. */
const operands: ReadonlySet<string> = new Set(["A", "B"]);

/** How many blocks may have parts of one tile; null where each has a block. */
const sharers = ({ split, streamK: share }: Tiles): number | null =>
  share === undefined ? (split?.extent ?? null) : Math.ceil((share.tiles * share.chunks) / share.each);

const split = (site: Site): boolean =>
  site.parents.some((p): p is Tiles => p.kind === "tiles" && sharers(p) !== null);

/** Whether another kernel does it with what CTAs that share a tile have left. */
const isBehind = ({ parents }: Site): boolean => parents[0]?.kind === "kernel";

/** Shares are of the tiles that there are, and a part's chunks are run through once. */
function* shared(site: Site, tiles: Tiles, share: StreamK, bound: boolean): Iterable<Fault> {
  const count = tiles.extents[0] * tiles.extents[1];
  if (share.tiles > count)
    yield {
      at: site,
      message: `shares ${share.tiles} tiles, and there are ${count}`,
      hint: `write tiles ${count}`,
    };
  if (tiles.split !== null || (tiles.loop !== null && tiles.loop.by !== "streamk"))
    yield {
      at: site,
      message: "blocks that have shares neither split tiles nor visit them otherwise",
      hint: "remove the split, or write persistent %vt by streamk",
    };
  if (tiles.loop !== null && share.blocks === undefined)
    yield {
      at: site,
      message: "roles visit shares, and nothing says how many blocks stay",
      hint: "write `on BLOCKS` behind the share",
    };
  // Until visits are bound, a share says only what they will be.
  if (
    bound &&
    tiles.loop === null &&
    (share.blocks !== undefined || tiles.body.some((s) => s.kind === "role"))
  )
    yield {
      at: site,
      message: "blocks stay, or have roles, and no role visits their tiles",
      hint: "put the tiles into the roles with persistent %vt by streamk, or remove `on BLOCKS` and let all warps do everything",
    };
  const inside = eachStmt(tiles.body);
  // Roles that hold nothing but sums go over no chunks.
  const chunked = inside.some((s) => s.kind === "mma" || (s.kind === "copy" && operands.has(s.src.buffer)));
  if (chunked && !inside.some((s) => s.kind === "for" && freeVars(s.to).has(share.count)))
    yield {
      at: site,
      message: `no loop runs over the %${share.count} chunks of a part`,
      hint: `write for %kt = 0 .. %${share.count}`,
    };
}

/** A cluster's blocks divide the rows or columns between them, and only those do. */
function* sliced(subject: Subject, site: Site, stmt: Extract<Stmt, { kind: "reduce" }>): Iterable<Fault> {
  const { into, by } = stmt;
  if ((by === "cluster") !== (into !== null)) {
    yield {
      at: site,
      message:
        into === null
          ? "blocks of a cluster have no tile for their slices"
          : `a slice of the sum, combined by ${by}`,
      hint:
        into === null
          ? "write into VIEW, a register tile with some of the rows or columns"
          : "remove into, or write by cluster",
    };
    return;
  }
  if (into === null) return;
  const tiles = site.parents.find((p): p is Tiles => p.kind === "tiles");
  const blocks = tiles?.split?.extent ?? 1;
  if (tiles?.split === null || subject.program.launch.cluster.some((extent) => extent > 1))
    yield {
      at: site,
      message: "the blocks that meet in a cluster are not those of a split alone",
      hint: "write split behind the tiles, and cluster 1x1",
    };
  const [rows, columns] = stmt.acc.extent;
  const target = bufferAt(subject, into.buffer);
  const slices = [rows / into.extent[0], columns / into.extent[1]];
  if (
    target.space !== "register" ||
    target.dtype !== bufferAt(subject, stmt.acc.buffer).dtype ||
    !slices.every((count) => Number.isInteger(count) && count <= blocks) ||
    !slices.includes(1)
  )
    yield {
      at: site,
      message: `${rows} x ${columns} of %${stmt.acc.buffer} in slices of ${into.extent.join(" x ")} of %${into.buffer}, for ${blocks} blocks`,
      hint: "a register tile of the same dtype that divides the tile's rows or its columns into no more slices than blocks",
    };
}

function* placed(site: Site, shared: boolean): Iterable<Fault> {
  if (!shared)
    yield {
      at: site,
      message: "one block works on the tile: there is nothing to combine",
      hint: "write `split %st < BLOCKS` behind the tiles, or remove the combine",
    };
  if (site.parents.some((p) => p.kind === "for" || p.kind === "if" || p.kind === "reduce"))
    yield {
      at: site,
      message: "blocks meet in a loop, a condition or another combine",
      hint: "the combine stands behind the loop over K chunks",
    };
}
