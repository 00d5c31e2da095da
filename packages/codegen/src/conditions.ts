/** Conditions of the program as predicates: decided here where the ranges of variables allow it. */
import { asLinear, type Cond, freeVars, must, rangeOf, sameValue, simplify, sub, v } from "@tilewright/ir";
import { imm } from "@tilewright/ptx";
import type { Code, Pred } from "./code.ts";
import type { Context } from "./context.ts";
import { countOf, countOperand } from "./sizes.ts";

/** PTX names of signed comparisons. */
export const comparisons: Readonly<Record<Cond["op"], string>> = {
  "<": "lt",
  "<=": "le",
  "==": "eq",
  "!=": "ne",
  ">=": "ge",
  ">": "gt",
};

/** The same with its sides exchanged. */
const turned: Readonly<Record<Cond["op"], Cond["op"]>> = {
  "<": ">",
  "<=": ">=",
  "==": "==",
  "!=": "!=",
  ">=": "<=",
  ">": "<",
};

/** Whether `difference op 0` holds for all, none or some values of the range. */
function decide(op: Cond["op"], [low, high]: readonly [number, number]): boolean | null {
  switch (op) {
    case "<":
      return high < 0 ? true : low >= 0 ? false : null;
    case "<=":
      return high <= 0 ? true : low > 0 ? false : null;
    case ">":
      return low > 0 ? true : high <= 0 ? false : null;
    case ">=":
      return low >= 0 ? true : high < 0 ? false : null;
    case "==":
      return low === 0 && high === 0 ? true : low > 0 || high < 0 ? false : null;
    case "!=":
      return low > 0 || high < 0 ? true : low === 0 && high === 0 ? false : null;
  }
}

/** Truth of a uniform condition: known, or a predicate register. */
export function truthOf(ctx: Context, cond: Cond): boolean | Pred {
  if (ctx.sizes.size > 0) {
    const used = freeVars(cond.rhs, freeVars(cond.lhs));
    if ([...used].some((name) => ctx.sizes.has(name))) return sizeCondition(ctx, cond);
  }
  const { constant, terms } = ctx.linear(sub(cond.lhs, cond.rhs));
  const range = rangeOfForm(ctx, terms, constant);
  const known = range && decide(cond.op, range);
  if (known !== null && known !== undefined) return known;
  const counted = countedCondition(ctx, cond.op, terms, constant);
  if (counted !== null) return counted;
  const [term, more] = [...terms];
  if (!term || more || term[1] !== 1) return sumCondition(ctx, cond.op, terms, constant);
  const reg = ctx.variable(term[0]);
  const key = `${reg.name}${cond.op}${-constant}`;
  const make = (code: Code): Pred => {
    const p = ctx.entry.reg("pred", "p");
    code.emitAny(null, `setp.${comparisons[cond.op]}.s32`, [p, reg, imm(-constant)]);
    return p;
  };
  return ctx.loop?.var === term[0] ? ctx.perIteration(key, make) : ctx.invariant(key, make);
}

/** A sum of variables compared with 0. */
function sumCondition(
  ctx: Context,
  op: Cond["op"],
  terms: ReadonlyMap<string, number>,
  constant: number,
): Pred {
  const moving = [...terms].filter(([name]) => ctx.tileVars.get(name)?.reg !== null);
  const key = `${moving.map(([name, factor]) => `${ctx.variable(name).name}*${factor}`).join("+")}${op}${-constant}`;
  const turns = ctx.loop !== null && terms.has(ctx.loop.var);
  const make = (code: Code): Pred => {
    const [p, sum] = [ctx.entry.reg("pred", "p"), ctx.entry.reg("u32", "sum")];
    code.emit(null, "mov.u32", sum, imm(constant));
    for (const [name, factor] of moving)
      code.emit(null, "mad.lo.u32", sum, ctx.variable(name), imm(factor), sum);
    code.emitAny(null, `setp.${comparisons[op]}.s32`, [p, sum, imm(0)]);
    return p;
  };
  return turns ? ctx.perIteration(key, make) : ctx.invariant(key, make);
}

/** A condition that compares at most one loop or tile variable with an expression in sizes of the launch. */
function sizeCondition(ctx: Context, { lhs, op, rhs }: Cond): boolean | Pred {
  const ranges = new Map(ctx.sizes);
  for (const [name, tile] of ctx.tileVars) ranges.set(name, [0, tile.extent - 1]);
  if (ctx.loop) ranges.set(ctx.loop.var, [ctx.loop.from, ctx.loop.to - 1]);
  const difference = simplify(sub(lhs, rhs));
  const used = [...freeVars(difference)];
  const known = used.every((name) => ranges.has(name)) ? decide(op, rangeOf(difference, ranges)) : null;
  if (known !== null) return known;
  const { loop } = ctx;
  // In its own loop a variable is below the loop's end.
  const beyond = loop === null ? null : simplify(sub(lhs, v(loop.var)));
  if (
    op === "<" &&
    loop?.end &&
    beyond?.kind === "const" &&
    beyond.value <= loop.ahead &&
    sameValue(rhs, loop.end)
  )
    return true;
  const [name] = used.filter((each) => !ctx.sizes.has(each));
  // x + c < e is x < e - c: what moves stays alone on the left.
  const side = must(asLinear(lhs), "one variable is compared with sizes (expressions)");
  const limit = countOf(ctx, sub(rhs, side.constant));
  const end = countOperand(limit);
  const at = name === undefined ? imm(0) : ctx.variable(name);
  const key = `${at.kind === "register" ? at.name : 0}${op}${end.kind === "register" ? end.name : limit}`;
  const make = (code: Code): Pred => {
    const p = ctx.entry.reg("pred", "p");
    // The first source may be a constant nowhere: the comparison is turned round.
    if (at.kind !== "register") code.emitAny(null, `setp.${comparisons[turned[op]]}.s32`, [p, end, at]);
    else code.emitAny(null, `setp.${comparisons[op]}.s32`, [p, at, end]);
    return p;
  };
  return ctx.loop !== null && ctx.loop.var === name ? ctx.perIteration(key, make) : ctx.invariant(key, make);
}

/** `loop variable + constant - count op 0`, for a count that the tiles bind; `count + constant op 0` as well as its negative. Null for others. */
function countedCondition(
  ctx: Context,
  op: Cond["op"],
  terms: ReadonlyMap<string, number>,
  constant: number,
): true | Pred | null {
  const ends = [...terms].filter(([name, factor]) => factor === -1 && ctx.tileVars.has(name));
  const others = [...terms].filter(([name]) => name !== ends[0]?.[0]);
  const [end] = ends;
  if (end === undefined || others.length > 1 || others.some(([, factor]) => factor !== 1)) return null;
  const { loop } = ctx;
  // In its own loop a variable is below the loop's end.
  const within = loop?.end?.kind === "var" && loop.end.name === end[0];
  if (op === "<" && within && constant <= loop.ahead && others[0]?.[0] === loop.var) return true;
  const count = ctx.variable(end[0]);
  const limit = constant === 0 ? count : ctx.values.sum(count, imm(-constant));
  const [name] = others[0] ?? [];
  const make = (code: Code): Pred => {
    const p = ctx.entry.reg("pred", "p");
    // Zero stands on the left where nothing else does: the comparison is turned round.
    if (name === undefined) code.emitAny(null, `setp.${comparisons[turned[op]]}.s32`, [p, limit, imm(0)]);
    else code.emitAny(null, `setp.${comparisons[op]}.s32`, [p, ctx.variable(name), limit]);
    return p;
  };
  const key = `${name ?? 0}${op}${limit.name}`;
  return ctx.loop !== null && ctx.loop.var === name ? ctx.perIteration(key, make) : ctx.invariant(key, make);
}

/** Least and greatest value of an affine form; null where it has a variable that is not in scope. */
export function rangeOfForm(
  ctx: Context,
  terms: ReadonlyMap<string, number>,
  constant: number,
): readonly [number, number] | null {
  let [low, high] = [constant, constant];
  for (const [name, factor] of terms) {
    const tile = ctx.tileVars.get(name);
    const range: readonly [number, number] | null = tile
      ? [tile.least ?? 0, tile.extent - 1]
      : ctx.loop?.var === name
        ? [ctx.loop.from, ctx.loop.to - 1]
        : null;
    if (!range) return null;
    low += Math.min(range[0] * factor, range[1] * factor);
    high += Math.max(range[0] * factor, range[1] * factor);
  }
  return [low, high];
}
