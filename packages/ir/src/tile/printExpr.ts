/** Text of expressions, conditions. Parentheses only where the tree needs them, so that parsing gives the same tree. */
import type { Cond, Expr } from "./types.ts";

const level = { sum: 1, product: 2, leaf: 3 } as const;

/** `%kt * 8 + %i % 2`: the usual precedence, left associative. */
export const printExpr = (e: Expr): string => at(e, level.sum);

function at(e: Expr, min: number): string {
  const [text, own] = render(e);
  return own < min ? `(${text})` : text;
}

function render(e: Expr): readonly [text: string, level: number] {
  switch (e.kind) {
    case "const":
      return [String(e.value), level.leaf];
    case "var":
      return [`%${e.name}`, level.leaf];
    case "add":
      return [`${at(e.lhs, level.sum)} + ${at(e.rhs, level.product)}`, level.sum];
    case "sub":
      return [`${at(e.lhs, level.sum)} - ${at(e.rhs, level.product)}`, level.sum];
    case "mul":
      return [`${at(e.lhs, level.product)} * ${e.factor}`, level.product];
    case "div":
      return [`${at(e.lhs, level.product)} / ${e.divisor}`, level.product];
    case "mod":
      return [`${at(e.lhs, level.product)} % ${e.divisor}`, level.product];
  }
}

/** `%kt + 1 < 10` */
export const printCond = (c: Cond): string => `${printExpr(c.lhs)} ${c.op} ${printExpr(c.rhs)}`;
