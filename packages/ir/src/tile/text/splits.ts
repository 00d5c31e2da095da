/** How `tiles` says that CTAs share work tiles: split-K, and stream-K. */
import { printExpr } from "../printExpr.ts";
import type { CountedStreamK, Split, StreamK } from "../types.ts";
import type { Cursor } from "./cursor.ts";
import { parseExpr } from "./expressions.ts";

export const printSplit = (split: Split | null): string =>
  split === null ? "" : `, split %${split.var} < ${split.extent}`;

export const printStreamK = (share: StreamK | undefined): string =>
  share === undefined
    ? ""
    : `, streamk %${share.first}, %${share.count} < ${share.chunks} by ${share.each} tiles ${share.tiles}${share.blocks === undefined ? "" : ` on ${share.blocks}`}${share.counted === undefined ? "" : ` among ${share.counted.blocks} chunks ${printExpr(share.counted.chunks)}`}`;

/** `, streamk %first, %count < CHUNKS by EACH tiles TILES on BLOCKS among BLOCKS chunks EXPR`, the comma read already. */
export function parseStreamK(c: Cursor): StreamK {
  c.expect("streamk", "after the second comma");
  const first = c.name("the variable of a part's first chunk");
  c.expect(",", "between the variables of a share");
  const count = c.name("the variable of a part's chunks");
  c.expect("<", "before the number of chunks a tile");
  const chunks = c.integer("the number of chunks a tile", 1);
  c.expect("by", "before the number of chunks a block");
  const each = c.integer("the number of chunks a block", 1);
  c.expect("tiles", "before the number of tiles that are shared");
  const tiles = c.integer("the number of tiles that are shared", 1);
  const blocks = c.eat("on") ? { blocks: c.integer("the number of persistent CTAs", 1) } : {};
  return {
    first,
    count,
    chunks,
    each,
    tiles,
    ...blocks,
    ...(c.eat("among") ? { counted: parseCounted(c) } : {}),
  };
}

/** Behind `among`: `BLOCKS chunks EXPR`. */
function parseCounted(c: Cursor): CountedStreamK {
  const blocks = c.integer("the number of blocks that cut the line", 1);
  c.expect("chunks", "before the chunks of a tile in sizes of the launch");
  return { blocks, chunks: parseExpr(c) };
}

/** `, split %st < BLOCKS`, the comma read already. */
export function parseSplit(c: Cursor): Split {
  c.expect("split", "after the second comma");
  const name = c.name("the variable of the split");
  c.expect("<", "before the number of blocks a tile");
  return { var: name, extent: c.integer("the number of blocks a tile", 1) };
}
