/** How `tiles` says that CTAs share work tiles: split-K, and stream-K. */
import type { CountedStreamK, Split, StreamK } from "../types.ts";
import { behind, expr, integer, name, record } from "./fields.ts";

/** `split %st < BLOCKS` */
export const splitField = record<Split>("the split", "split {var} < {extent}", {
  var: name("the variable of the split"),
  extent: integer("the number of blocks a tile", 1),
});

/** Behind `among`: `BLOCKS chunks EXPR`. */
const counted = record<CountedStreamK>("the blocks that cut the line", "{blocks} chunks {chunks}", {
  blocks: integer("the number of blocks that cut the line", 1),
  chunks: expr("the chunks of a tile in sizes of the launch"),
});

/** `streamk %first, %count < CHUNKS by EACH tiles TILES on BLOCKS among BLOCKS chunks EXPR` */
export const streamKField = record<StreamK>(
  "the shares",
  "streamk {first}, {count} < {chunks} by {each} tiles {tiles}{blocks}{counted}",
  {
    first: name("the variable of a part's first chunk"),
    count: name("the variable of a part's chunks"),
    chunks: integer("the number of chunks a tile", 1),
    each: integer("the number of chunks a block", 1),
    tiles: integer("the number of tiles that are shared", 1),
    blocks: behind("on", integer("the number of persistent CTAs", 1)),
    counted: behind("among", counted),
  },
);
