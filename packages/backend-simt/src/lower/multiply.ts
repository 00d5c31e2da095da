/** The multiply-adds of one K step over a register tile, in the order of the walk. */
import { type Context, ownedTile, type StmtOf, walkOrder } from "@tilewright/codegen";
import { must } from "@tilewright/ir";

export function lowerMultiply(ctx: Context, mma: StmtOf<"mma">): void {
  const acc = ownedTile(ctx, mma.acc.buffer, ctx.constant(mma.acc.slot, "slot of the accumulator"));
  const a = ownedTile(ctx, mma.a.buffer, ctx.constant(mma.a.slot, "slot of the A fragment"));
  const b = ownedTile(ctx, mma.b.buffer, ctx.constant(mma.b.slot, "slot of the B fragment"));
  const walk = walkOrder(acc.elements, mma);
  for (let k = 0; k < mma.a.extent[1]; k++) {
    const rows = new Map(a.elements.flatMap((e) => (e.col === k ? [[e.row, a.at(e.register)]] : [])));
    const cols = new Map(b.elements.flatMap((e) => (e.row === k ? [[e.col, b.at(e.register)]] : [])));
    for (const { row, col, register } of walk) {
      const held = "fragments lie with the sums' threads (ownership)";
      const [x, y] = [must(rows.get(row), held), must(cols.get(col), held)];
      const d = acc.at(register);
      if (mma.swap) ctx.emitAny(null, "fma.rn.f32", d, y, x, d);
      else ctx.emitAny(null, "fma.rn.f32", d, x, y, d);
    }
  }
}
