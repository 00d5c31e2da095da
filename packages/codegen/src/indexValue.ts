/** Indices as instructions take them: registers or constants, from expressions over tile variables and the open loop's counter. */
import { type Expr, must } from "@tilewright/ir";
import { type IntegerOperand, imm } from "@tilewright/ptx";
import type { Reg } from "./code.ts";
import type { Context } from "./context.ts";

type U32 = Reg<"u32">;

/**
 * An index as a register or a constant: tile variables, the open loop's counter, a constant, and `by`, which no loop changes. `per`: divided by it, where
 * every term but `by` is a multiple. `kept`: in a register of its own; off: computed where it is used.
 */
export function indexValue(
  ctx: Context,
  e: Expr,
  extra = 0,
  by: U32 | null = null,
  per = 1,
  kept = true,
): U32 | IntegerOperand {
  const folded = ctx.fold(e);
  const [whole, beyond] =
    folded.kind === "add" && folded.rhs.kind === "const" ? [folded.lhs, folded.rhs.value] : [folded, 0];
  if (whole.kind === "div") {
    const at = quotientValue(ctx, indexValue(ctx, whole.lhs), whole.divisor);
    const offset = beyond + extra;
    if (at.kind !== "register") return imm(Number(at.value) + offset);
    return offset === 0 ? at : moved(ctx, at, offset);
  }
  const { constant, terms } = ctx.linear(folded);
  const quotient = (value: number): number =>
    must(value % per === 0 ? value / per : null, "boxes begin with a run of rows (bulkTiles)");
  const fixed = quotient(constant + extra);
  let sum: U32 | null = by;
  const { loop } = ctx;
  for (const [name, factor] of terms) {
    if (loop?.var === name) continue;
    const tile = must(ctx.tileVars.get(name), `%${name} is counted here (expressions)`);
    if (tile.reg === null) continue;
    const term = ctx.values.scale(tile.reg, quotient(factor));
    sum = sum === null ? term : ctx.values.sum(sum, term);
  }
  const base: U32 | IntegerOperand =
    sum === null
      ? imm(fixed)
      : fixed === 0
        ? sum
        : kept
          ? ctx.values.sum(sum, imm(fixed))
          : moved(ctx, sum, fixed);
  const factor = loop === null ? 0 : quotient(terms.get(loop.var) ?? 0);
  if (loop === null || factor === 0) return base;
  const key = `${base.kind === "register" ? base.name : fixed}+${loop.counter.name}*${factor}`;
  return ctx.perIteration(key, (code) => {
    const d = ctx.entry.reg("u32", "at");
    code.emit(null, "mad.lo.u32", d, loop.counter, imm(factor), base);
    return d;
  });
}

/** An index divided, without its remainder. */
function quotientValue(ctx: Context, index: U32 | IntegerOperand, divisor: number): U32 | IntegerOperand {
  if (index.kind !== "register") return imm(Math.floor(Number(index.value) / divisor));
  const [d, log] = [ctx.entry.reg("u32", "at"), Math.log2(divisor)];
  if (Number.isInteger(log)) ctx.body.emit(null, "shr.u32", d, index, imm(log));
  else ctx.body.emit(null, "div.u32", d, index, imm(divisor));
  return d;
}

/** So far on, as a value that nothing after it asks for again. */
function moved(ctx: Context, from: U32, by: number): U32 {
  const d = ctx.entry.reg("u32", "at");
  ctx.body.emit(null, "add.u32", d, from, imm(by));
  return d;
}
