/** Fragments: each thread loads what it owns, in vectors along its register run, and widens it for the arithmetic. */
import {
  type Context,
  elementGuard,
  freshRun,
  globalAddress,
  groupAlong,
  loadGuarded,
  loadRun,
  loadStaged,
  ownedPosition,
  ownedTile,
  ownerOf,
  type Reg,
  type StmtOf,
  sharedAddress,
  widenRun,
} from "@tilewright/codegen";
import { bufferOf, vectorAxis } from "@tilewright/ir";

/** From shared memory, or from global memory where an operand is not staged. A copy with a distribution fills a staging tile instead. */
export function loadFragment(ctx: Context, copy: StmtOf<"copy">): void {
  if (copy.dist) {
    loadStaged(ctx, copy);
    return;
  }
  const [src, dst] = [bufferOf(ctx.program, copy.src.buffer), bufferOf(ctx.program, copy.dst.buffer)];
  const own = ownerOf(dst);
  const position = ownedPosition(ctx.values, own);
  const tile = ownedTile(ctx, dst.name, ctx.constant(copy.dst.slot, `slot of %${dst.name}`));
  const width = copy.vector[0];
  for (const group of groupAlong(tile.elements, vectorAxis(own), width)) {
    const [first] = group;
    if (!first) continue;
    const fragment = group.map((e) => tile.at(e.register) as Reg<"f32">);
    const run: readonly Reg[] = src.dtype === "f32" ? fragment : freshRun(ctx, src.dtype, width, "t");
    if (src.space === "shared") {
      const address = sharedAddress(ctx, copy.src, position, first.row, first.col);
      loadRun(ctx, null, "shared", src.dtype, width, run, address);
    } else {
      const guard = elementGuard(ctx, copy.src, copy.guard, position, first.row, first.col);
      const address = globalAddress(ctx, copy.src, position, first.row, first.col);
      loadGuarded(ctx, src.dtype, width, run, address, guard, null);
    }
    if (run !== fragment) widenRun(ctx, null, src.dtype, run, fragment);
  }
}
