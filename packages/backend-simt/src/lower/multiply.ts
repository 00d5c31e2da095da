/** The multiply-adds of one K step over a register tile, in the order of the walk. */
import type { OwnedRegister, Stmt, Walk } from "@tilewright/ir";
import { CannotLower, type Context } from "./context.ts";
import { ownedTile } from "./registers.ts";

type Mma = Extract<Stmt, { kind: "mma" }>;

/** `outer`: axis of the runs' index; `snake`: every other run is walked backwards, so that its first operand is the last one's. */
const orders: Readonly<Record<Walk, { readonly outer: "row" | "col"; readonly snake: boolean }>> = {
  rows: { outer: "row", snake: false },
  cols: { outer: "col", snake: false },
  "snake-rows": { outer: "row", snake: true },
  "snake-cols": { outer: "col", snake: true },
};

export function lowerMultiply(ctx: Context, mma: Mma): void {
  if (mma.atom !== "fma") throw new CannotLower("mma", `atom ${mma.atom} is not one of: fma`);
  const acc = ownedTile(ctx, mma.acc.buffer, ctx.constant(mma.acc.slot, "slot of the accumulator"));
  const a = ownedTile(ctx, mma.a.buffer, ctx.constant(mma.a.slot, "slot of the A fragment"));
  const b = ownedTile(ctx, mma.b.buffer, ctx.constant(mma.b.slot, "slot of the B fragment"));
  const aAt = new Map(a.elements.map((e) => [`${e.row},${e.col}`, a.at(e.register)]));
  const bAt = new Map(b.elements.map((e) => [`${e.row},${e.col}`, b.at(e.register)]));
  const walk = walkOrder(acc.elements, mma.walk);
  for (let k = 0; k < mma.a.extent[1]; k++)
    for (const element of walk) {
      const [x, y] = [aAt.get(`${element.row},${k}`), bAt.get(`${k},${element.col}`)];
      if (!x || !y)
        throw new CannotLower("mma", "the fragments' owners do not hold what the accumulator's owner needs");
      const d = acc.at(element.register);
      ctx.emit(null, "fma.rn.f32", d, x, y, d);
    }
}

/** The elements of a register tile in walking order; `elements` come rows outermost, ascending. */
export function walkOrder(elements: readonly OwnedRegister[], walk: Walk): readonly OwnedRegister[] {
  const { outer, snake } = orders[walk];
  const runs = new Map<number, OwnedRegister[]>();
  for (const e of elements) {
    const run = runs.get(e[outer]) ?? [];
    run.push(e);
    runs.set(e[outer], run);
  }
  return [...runs.values()].flatMap((run, i) => (snake && i % 2 === 1 ? [...run].reverse() : run));
}
