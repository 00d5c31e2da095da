/**
 * Tiles that a counter in memory hands out. The first tile of a cluster is that of its own number; from then on it asks, until it is told a number beyond the
 * last tile. So all clusters together ask once for every tile: as many as there are, and once in vain each, in place of the one that it began with. A counter
 * that wraps behind that many is 0 again when the launch ends, where the next one needs it, and nobody has to be the one who resets it.
 */
import { clusterSize, must, WORKSPACE } from "@tilewright/ir";
import { addr, imm, special } from "@tilewright/ptx";
import type { Reg } from "./code.ts";
import type { Context } from "./context.ts";
import { batchIndex, pointer } from "./globalAddress.ts";

/** Numbers that the loop at hand hands out: work tiles, or the rectangles of those that a cluster takes at a time. */
export const tileNumbers = ({ tileLoop }: Context): number =>
  must(tileLoop?.below, "a counter hands out as many tiles as the text says (schedulers)");

/** The next number, at `ctx.body`; `tileNumbers` or more says that there is none. One thread of a cluster asks. */
export function takeNumber(ctx: Context): Reg<"u32"> {
  const { entry, body, program } = ctx;
  const base = pointer(ctx, WORKSPACE);
  const { at, stride } = ctx.region("counters");
  // Of a list of all problems there is one counter.
  const batch = ctx.tileLoop?.loop.batch === undefined ? batchIndex(ctx) : null;
  let counter = base;
  if (batch !== null) {
    counter = entry.reg("u64", "counter");
    body.emit(
      null,
      "mad.wide.u32",
      counter,
      batch,
      imm(must(stride, "region %counters has a stride (launches)")),
      base,
    );
  }
  const number = entry.reg("u32", "number");
  const clusters = entry.reg("u32", "clusters");
  const last = tileNumbers(ctx) - 1;
  const place = addr(
    counter,
    must(typeof at === "number" ? at : null, "region %counters has a fixed place (launches)"),
  );
  body.emit(null, "atom.relaxed.gpu.global.inc.u32", number, place, imm(last));
  body.emit(null, "mov.u32", clusters, special("%nctaid.x"));
  const size = clusterSize(program);
  // ptxas 13.0 divides by constants with five registers of this thread, powers of two, too.
  const log = Math.log2(size);
  if (size > 1 && Number.isInteger(log)) body.emit(null, "shr.u32", clusters, clusters, imm(log));
  else if (size > 1) body.emit(null, "div.u32", clusters, clusters, imm(size));
  body.emit(null, "add.u32", number, number, clusters);
  return number;
}

/** The same address of shared memory in another block of the cluster. */
function inBlock(ctx: Context, address: Reg<"u32">, rank: number): Reg<"u32"> {
  const [d, number] = [ctx.entry.reg("u32", "there"), ctx.entry.reg("u32", "rank")];
  ctx.body.emit(null, "mov.u32", number, imm(rank));
  ctx.body.emit(null, "mapa.shared::cluster.u32", d, address, number);
  return d;
}

/** Write a number into a slot, at the same address in every block of the cluster. */
export function putNumber(ctx: Context, slot: Reg<"u32">, number: Reg<"u32">): void {
  const size = clusterSize(ctx.program);
  if (size === 1) ctx.body.emit(null, "st.shared.u32", addr(slot), number);
  else
    for (let rank = 0; rank < size; rank++)
      ctx.body.emit(null, "st.shared::cluster.u32", addr(inBlock(ctx, slot, rank)), number);
}
