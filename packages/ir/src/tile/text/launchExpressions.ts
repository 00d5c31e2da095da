/** Expressions of a launch. */
import type { LaunchExpr } from "@tilewright/core";
import type { Clause } from "./clause.ts";
import { type Cursor, describe, parseCodes } from "./cursor.ts";

const operations = ["add", "sub", "mul", "div", "ceilDiv", "mod", "min", "max"] as const;

/** `min(512, numSms)`: names are those of a launch. */
export const printLaunch = (e: LaunchExpr): string =>
  typeof e === "object" ? `${e[0]}(${printLaunch(e[1])}, ${printLaunch(e[2])})` : String(e);

export function parseLaunch(c: Cursor): LaunchExpr {
  const token = c.peek();
  if (token.kind === "number" || c.at("-")) return c.integer("a number of the launch");
  const name = c.word("a number or name of the launch");
  if (!c.at("(")) return name;
  const op = operations.find((one) => one === name);
  if (op === undefined)
    return c.fail(
      token,
      parseCodes.unknownWord,
      `'${name}' is no operation of a launch`,
      `one of: ${operations.join(", ")}`,
    );
  const [left, right, ...more] = c.list(`the operands of '${name}'`, () => parseLaunch(c));
  if (left === undefined || right === undefined || more.length > 0)
    return c.fail(token, parseCodes.syntax, `'${name}' takes two operands`, `${name}(x, y)`);
  return [op, left, right];
}

/** A word of a list, digits first where it has them: `128B`. */
export function mixedWord<T extends string>(c: Cursor, words: readonly T[], what: string): T {
  const token = c.peek();
  const text = c.scanner.match(/\w+/y);
  return (
    words.find((word) => word === text) ??
    c.fail(
      token,
      parseCodes.unknownWord,
      `${text ?? describe(token)} is no ${what}`,
      `one of: ${words.join(", ")}`,
    )
  );
}

export const launchClause = (keyword: string): Clause<LaunchExpr> => ({
  keyword,
  syntax: "EXPRESSION",
  default: undefined,
  print: printLaunch,
  parse: parseLaunch,
});
