/** Expressions of a launch, and the lines that say what kernels beside the main one do. */
import { dtypeNames, type LaunchExpr } from "@tilewright/core";
import type { KernelStep } from "../types.ts";
import { type Clause, type Clauses, integerClause, printClauses, wordClause } from "./clause.ts";
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

const ofBuffer: Clause<string> = {
  keyword: "of",
  syntax: "%NAME",
  default: undefined,
  print: (name) => `%${name}`,
  parse: (c) => c.buffer().name,
};

const count = (keyword: string, min = 1): Clause<number> => integerClause(keyword, min, undefined);

/** What kernels beside the main one do, a line each. */
export const stepClauses = {
  transpose: {
    buffer: ofBuffer,
    first: count("first", 0),
    ctas: count("ctas"),
    lines: count("lines"),
    run: count("run"),
    pitch: count("pitch"),
    vector: {
      ...count("vector"),
      syntax: "1|2|4",
      parse: (c) => Number(mixedWord(c, ["1", "2", "4"], "number of elements")),
    },
  },
  result: {
    step: count("step", 0),
    dtype: wordClause("dtype", dtypeNames, undefined),
    count: {
      keyword: "count",
      syntax: "N|m|n",
      default: undefined,
      print: String,
      parse: (c) =>
        c.peek().kind === "number" ? c.integer("the results", 1) : c.oneOf(["m", "n"] as const, "size"),
    },
  },
} satisfies {
  readonly [K in KernelStep["kind"]]: {
    readonly [F in Exclude<keyof Extract<KernelStep, { kind: K }>, "kind">]: Clause<
      Extract<KernelStep, { kind: K }>[F]
    >;
  };
};

/** `result step 0 dtype bf16 count 128 at 0 every 128` */
export const printStep = (step: KernelStep): string =>
  step.kind + printClauses<Clauses>(stepClauses[step.kind], { ...step }, new Map());
