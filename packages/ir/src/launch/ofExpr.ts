/** Expressions of a tile program in sizes of the launch, as the launcher evaluates them. */
import type { LaunchExpr } from "@tilewright/core";
import type { Expr } from "../tile/types.ts";

/** The launch expression of an expression whose variables are `m`, `n` and `k`; `(m + 127) / 128` becomes `ceilDiv(m, 128)`. */
export function launchExprOf(e: Expr): LaunchExpr {
  switch (e.kind) {
    case "const":
      return e.value;
    case "var":
      return e.name;
    case "add":
      return ["add", launchExprOf(e.lhs), launchExprOf(e.rhs)];
    case "sub":
      return ["sub", launchExprOf(e.lhs), launchExprOf(e.rhs)];
    case "mul":
      return ["mul", launchExprOf(e.lhs), e.factor];
    case "mod":
      return ["mod", launchExprOf(e.lhs), e.divisor];
    case "div": {
      const { lhs, divisor } = e;
      return lhs.kind === "add" && lhs.rhs.kind === "const" && lhs.rhs.value === divisor - 1
        ? ["ceilDiv", launchExprOf(lhs.lhs), divisor]
        : ["div", launchExprOf(lhs), divisor];
    }
  }
}
