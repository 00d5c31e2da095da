/** Parts of a row that lanes have: which of its columns count, and how lanes join what they made of theirs. */
import { type Ownership, weighted } from "@tilewright/ir";
import { imm } from "@tilewright/ptx";
import type { F32 } from "./arithmetic.ts";
import type { Pred } from "./code.ts";
import type { Context } from "./context.ts";
import type { ThreadPosition } from "./threads.ts";

/** Lanes of a warp that take part in an exchange: all. */
const ALL_LANES = 0xffffffff;

/** Whether a column counts: always (null), never, or as a predicate says. */
export function insideColumns(
  ctx: Context,
  own: Ownership,
  position: ThreadPosition,
  col: number,
  below: number | null,
): Pred | null | "outside" {
  if (below === null) return null;
  const furthest = weighted(own.cols).reduce(
    (sum, f) => (f.tier === "register" ? sum : sum + (f.extent - 1) * f.weight),
    0,
  );
  if (col + furthest < below) return null;
  if (col >= below) return "outside";
  const { reg } = position.col;
  if (reg === null) return null;
  const p = ctx.entry.reg("pred", "p");
  ctx.emit(null, "setp.lt.s32", p, reg, imm(below - col));
  return p;
}

/** The lanes that hold parts of a row, by halves. */
export function amongLanes(ctx: Context, own: Ownership, join: string, from: F32): F32 {
  let sum = from;
  for (const { tier, extent, stride } of own.cols)
    for (let step = 1; tier === "thread" && step < extent; step *= 2) {
      const [other, next] = [ctx.entry.reg("f32", "rl"), ctx.entry.reg("f32", "rx")];
      ctx.emitAny(null, "shfl.sync.bfly.b32", other, sum, imm(step * stride), imm(31), imm(ALL_LANES));
      ctx.emitAny(null, join, next, sum, other);
      sum = next;
    }
  return sum;
}
