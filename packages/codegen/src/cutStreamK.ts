/** The next part of a share of K chunks: what is left of its tile, or of the share. */
import type { StreamK } from "@tilewright/ir";
import type { Reg } from "./code.ts";
import type { Context } from "./context.ts";
import { type Count, countOperand } from "./sizes.ts";

type U32 = Reg<"u32">;

interface Place {
  readonly tile: U32;
  /** The part's first chunk, counted from the first tile's. */
  readonly within: U32;
  /** The part's first chunk and the share's end, in the line that shares are cut from. */
  readonly at: U32;
  readonly end: U32;
  /** Chunks of this tile, and of any. */
  readonly chunks: Count;
  readonly most: number;
}

/** First chunk of the part in its tile, and chunks: emitted to the prologue, and bound to the share's variables. */
export function cutStreamK(
  ctx: Context,
  share: StreamK,
  { tile, within, at, end, chunks, most }: Place,
): { readonly first: U32; readonly count: U32 } {
  const { entry, prologue } = ctx;
  const [first, count, rest] = [
    entry.reg("u32", "first"),
    entry.reg("u32", "count"),
    entry.reg("u32", "rest"),
  ];
  prologue.emit(null, "mul.lo.u32", first, tile, countOperand(chunks));
  prologue.emit(null, "sub.u32", first, within, first);
  prologue.emit(null, "sub.u32", count, end, at);
  prologue.emit(null, "sub.u32", rest, countOperand(chunks), first);
  prologue.emit(null, "min.u32", count, count, rest);
  ctx.tileVars.set(share.first, { reg: first, extent: most });
  ctx.tileVars.set(share.count, { reg: count, extent: most + 1, least: 1 });
  return { first, count };
}
