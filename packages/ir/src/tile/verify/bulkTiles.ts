/** Tiles that bulk tensor copies fill and bulk stores empty. */

import { dtypes, SCALE_WORDS } from "@tilewright/core";
import { elementBytes } from "../elementBytes.ts";
import { isMultiple } from "../expr.ts";
import { bulkAccessesOf, bulkStoreOf, loadCutOf } from "../launches/tensorMaps.ts";
import { blockShape, bufferOf } from "../rewrite.ts";
import type { Buffer, View } from "../types.ts";
import { beginsAtMultiple } from "./vectors.ts";
import type { Fault, Site, Subject, Verifier } from "./verifier.ts";

const NEAREST =
  "rows as long as the swizzle's span, at most 256 elements a box, parts of whole swizzle patterns";

export const bulkTiles: Verifier = {
  name: "bulkTiles",
  code: "TW3164",
  property:
    "bulk copies and stores can make the layouts of their tiles, in the parts of a cluster's CTAs or of warpgroups that store by themselves; blocks of scale factors that tcgen05.cp reads lie one behind the other",
  from: "bound",
  *check({ program, sites }) {
    for (const site of sites)
      if (site.stmt.kind === "copy" && site.stmt.transport === "tcgen05.cp")
        yield* factorBlocks(bufferOf(program, site.stmt.src.buffer), site);
    for (const { stmt, warps } of bulkAccessesOf(program)) {
      const site = sites.find((one) => one.stmt === stmt);
      const at = site ?? "program";
      const [matrix, tile] = stmt.kind === "copy" ? [stmt.src, stmt.dst] : [stmt.dst, stmt.via];
      const buffer = tile === null ? null : bufferOf(program, tile.buffer);
      if (site !== undefined) yield* whereItBegins(program, site, matrix, buffer);
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

/** A block has a word of factors for each of 128 rows, and those of one K lie first (PTX ISA, tcgen05.cp). */
function* factorBlocks({ name, layout, ...tile }: Buffer, at: Site): Iterable<Fault> {
  if (layout === null) return;
  const [rows] = blockShape(tile);
  const { extent, step } = layout.panels ?? { extent: SCALE_WORDS, step: SCALE_WORDS * rows };
  if (layout.stride[0] !== SCALE_WORDS || extent !== SCALE_WORDS || step !== SCALE_WORDS * rows)
    yield {
      at,
      message: `blocks of factors in %${name} do not lie one behind the other, those of one K first`,
      hint: `(${rows},${SCALE_WORDS}):(${SCALE_WORDS},1), in panels of ${SCALE_WORDS} where there are more words`,
    };
}

/** Boxes begin at a multiple of so many bytes along the contiguous axis of the matrix. */
const BOX_STEP = 16;
/** Of elements under 8 bits, in elements: 16 bytes of packed ones, and whole groups of those that are spread. */
const PACKED_STEP = 32;
const SPREAD_STEP = 128;

function* whereItBegins(
  program: Subject["program"],
  site: Site,
  view: View,
  tile: Buffer | null,
): Iterable<Fault> {
  const packed = tile?.packed === true;
  const matrix = bufferOf(program, view.buffer);
  if (matrix.space !== "global" || matrix.layout === null) return;
  // Of a single line both strides are 1: the tile says along which its boxes lie.
  const own = site.stmt.kind === "copy" ? loadCutOf(program, site.stmt)?.contiguous : undefined;
  const axis = own ?? (matrix.layout.stride[1] === 1 ? 1 : 0);
  const { bits } = dtypes[matrix.dtype];
  const step = bits < 8 ? (packed ? PACKED_STEP : SPREAD_STEP) : Math.ceil(BOX_STEP / elementBytes(matrix));
  const { axis: across = 0, runs = 1 } = tile?.layout?.interleaved ?? {};
  if (runs > 1 && !isMultiple(view.origin[across], runs))
    yield {
      at: site,
      message: `boxes of %${matrix.name} begin inside ${runs} rows or columns that lie in runs of their own`,
      hint: `write multiples of ${runs}`,
    };
  if (!beginsAtMultiple(site, view, axis, step))
    yield {
      at: site,
      message: `boxes of %${matrix.name} begin inside ${BOX_STEP} bytes`,
      hint: `a first ${axis === 0 ? "row" : "column"} that is a multiple of ${step}`,
    };
}

const isLaidOut = (program: Subject["program"], tile: string): boolean =>
  bufferOf(program, tile).layout !== null;

function* copied(
  program: Subject["program"],
  at: Fault["at"],
  copy: Parameters<typeof loadCutOf>[1],
): Iterable<Fault> {
  if (isLaidOut(program, copy.dst.buffer) && loadCutOf(program, copy) === null)
    yield { at, message: `%${copy.dst.buffer} has a layout that bulk copies cannot make`, hint: NEAREST };
}
