/**
 * What is written for ptxas alone, each with the messages (ptxas 13.0) that it avoids. They say that matrix instructions of warpgroups are serialised, which costs
 * the overlap of products with all else.
 */

import { must } from "@tilewright/ir";
import { addr, imm, special, sym } from "@tilewright/ptx";
import type { Context } from "./context.ts";
import type { StmtOf } from "./engine.ts";
import { ownedTile } from "./registers.ts";
import { SMEM } from "./smem.ts";

/**
 * C7517, C7519: accumulators that lie outside of D for all threads are read by nobody; ptxas gives such registers of straight code away while the products still
 * write them, and waits for them there. So all get a reader that never runs.
 */
export function lowerPin(ctx: Context, { tile: name }: StmtOf<"pin">): void {
  const { body, entry } = ctx;
  const [blocks, never] = [entry.reg("u32", "blocks"), entry.reg("pred", "p")];
  body.emit(null, "mov.u32", blocks, special("%nctaid.x"));
  body.emit(null, "setp.eq.u32", never, blocks, imm(0));
  const tile = ownedTile(ctx, name, 0);
  const bits = tile.type === "s32" ? "s32" : tile.type === "f32" ? "f32" : "b32";
  for (const register of tile.registers)
    body.emitAny(never, `st.shared.${bits}`, [addr(sym(SMEM)), register]);
}

/**
 * C7511: an accumulator that instructions of fewer columns go on with gets other registers. They are the same to ptxas, which moves nothing, but where it sees the
 * registers of one wide instruction in several narrow ones it may find no places for them. `back`: the next work tile's products begin in the registers that the
 * accumulator had; where they may add to them, ptxas has to see that these hold nothing else.
 */
export function lowerRename(ctx: Context, { tile: name, back }: StmtOf<"rename">): void {
  const { registers, type } = ownedTile(ctx, name, 0);
  const before = ctx.renamed.get(name);
  const to = back
    ? must(before, `%${name} has been renamed (context)`)
    : registers.map(() => ctx.entry.reg(type, "apart"));
  registers.forEach((register, i) => {
    const other = to[i];
    if (other) ctx.body.emitAny(null, `mov.${type}`, [other, register]);
  });
  ctx.registers.set(name, to);
  if (back) ctx.renamed.delete(name);
  else ctx.renamed.set(name, registers);
}

/** C7514: under a predicate ptxas branches between products and the wait for them. A barrier on which nobody waits here therefore stands under none. */
export function arriveAtBarrier(ctx: Context, id: number, threads: number): void {
  ctx.body.emit(null, "bar.arrive", imm(id), imm(threads));
}
