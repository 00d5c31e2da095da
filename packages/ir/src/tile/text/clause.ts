/**
 * Clauses: `keyword value` pairs behind a statement or declaration. One row drives the printer and the parser.
 * A clause whose value equals its default is not printed; one without a default is always printed and required.
 */
import type { Scalar } from "@tilewright/core";
import type { Buffer } from "../types.ts";
import { type Cursor, describe, parseCodes } from "./cursor.ts";
import { nearestHint } from "./nearest.ts";

export type Buffers = ReadonlyMap<string, Buffer>;

export interface Clause<T> {
  readonly keyword: string;
  /** How the value is written, for messages and the README. */
  readonly syntax: string;
  /** Value when absent; `undefined`: the clause is required. */
  readonly default: T | undefined;
  /** Text of the value: empty for a flag; "(…)" follows the keyword without a blank unless the text begins with one. */
  print(value: T, buffers: Buffers): string;
  parse(c: Cursor): T;
}

/** A clause without which the statement has no such field. */
export interface OptionalClause<T> extends Clause<T> {
  readonly absent: true;
}

export type Clauses = Readonly<Record<string, Clause<unknown>>>;

type ValueOf<C> = C extends Clause<infer T> ? T : never;
type Absent = Pick<OptionalClause<unknown>, "absent">;

export type ValuesOf<C extends Clauses> = {
  readonly [K in keyof C as C[K] extends Absent ? never : K]: ValueOf<C[K]>;
} & { readonly [K in keyof C as C[K] extends Absent ? K : never]?: ValueOf<C[K]> };

/** The clause of an optional field. */
export const optional = <T>(clause: Clause<T | null>): OptionalClause<T> => ({
  ...(clause as Clause<T>),
  absent: true,
});

const same = (a: unknown, b: unknown): boolean => JSON.stringify(a) === JSON.stringify(b);

/** ` keyword value …` of every clause that differs from its default, in the table's order. */
export function printClauses<C extends Clauses>(clauses: C, values: ValuesOf<C>, buffers: Buffers): string {
  let text = "";
  const given: Readonly<Record<string, unknown>> = values;
  for (const [field, clause] of Object.entries(clauses)) {
    const value = given[field];
    if (
      "absent" in clause ? value === undefined : clause.default !== undefined && same(value, clause.default)
    )
      continue;
    const printed = clause.print(value, buffers);
    text += ` ${clause.keyword}${printed === "" || printed.startsWith("(") || printed.startsWith(" ") ? printed : ` ${printed}`}`;
  }
  return text;
}

/** Clauses in any order up to the line's end, `{` or `}`. */
export function parseClauses<C extends Clauses>(c: Cursor, clauses: C, context: string): ValuesOf<C> {
  const start = c.peek();
  const values: Record<string, unknown> = {};
  for (;;) {
    const token = c.peek();
    if (token.kind === "end" || token.startsLine || c.at("{") || c.at("}")) break;
    const entry = Object.entries(clauses).find(
      ([, row]) => token.kind === "word" && row.keyword === token.text,
    );
    if (entry === undefined) return unknownClause(c, clauses, context);
    const [field, clause] = entry;
    if (Object.hasOwn(values, field))
      c.fail(token, parseCodes.repeated, `${context} says '${clause.keyword}' twice`, "keep one");
    c.next();
    values[field] = clause.parse(c);
  }
  for (const [field, clause] of Object.entries(clauses)) {
    if (Object.hasOwn(values, field) || "absent" in clause) continue;
    if (clause.default === undefined)
      c.fail(
        start,
        parseCodes.syntax,
        `${context} lacks '${clause.keyword}'`,
        `add: ${clause.keyword} ${clause.syntax}`,
      );
    values[field] = clause.default;
  }
  return values as ValuesOf<C>;
}

function unknownClause(c: Cursor, clauses: Clauses, context: string): never {
  const token = c.peek();
  const words = Object.values(clauses).map((row) => row.keyword);
  if (token.kind !== "word")
    c.fail(
      token,
      parseCodes.syntax,
      `unexpected ${describe(token)} in ${context}`,
      "one statement a line; // starts a comment",
    );
  return c.fail(
    token,
    parseCodes.unknownWord,
    `${context} has no attribute '${token.text}'`,
    nearestHint(token.text, words) ??
      (words.length > 0 ? `attributes: ${words.join(", ")}` : "it takes no attributes"),
  );
}

export const integerClause = (
  keyword: string,
  min: number,
  fallback: number | undefined,
  max?: number,
): Clause<number> => ({
  keyword,
  syntax: "N",
  default: fallback,
  print: String,
  parse: (c) => c.integer(`'${keyword}'`, min, max),
});

export const flagClause = (keyword: string): Clause<boolean> => ({
  keyword,
  syntax: "",
  default: false,
  print: () => "",
  parse: () => true,
});

/** A word that stands there, or no such field. */
export const optionalFlag = (keyword: string): OptionalClause<true> => ({
  ...(flagClause(keyword) as Clause<true>),
  absent: true,
});

export const wordClause = <T extends string>(
  keyword: string,
  words: readonly T[],
  fallback: T | undefined,
): Clause<T> => ({
  keyword,
  syntax: words.join("|"),
  default: fallback,
  print: (value) => value,
  parse: (c) => c.oneOf(words, keyword),
});

/** Any word, such as the name of an atom, which only the backend can check. */
export const freeWordClause = (keyword: string): Clause<string> => ({
  keyword,
  syntax: "NAME",
  default: undefined,
  print: (value) => value,
  parse: (c) => c.word(`a name after '${keyword}'`),
});

export const scalarClause = (keyword: string): Clause<Scalar> => ({
  keyword,
  syntax: "NUMBER|runtime",
  default: undefined,
  print: (s) => (s === "runtime" ? s : printNumber(s)),
  parse: (c) => (c.eat("runtime") ? "runtime" : c.number(`'${keyword}'`)),
});

/** A number that parses back to the same bits, -0 included. */
export const printNumber = (value: number): string => {
  if (Number.isNaN(value)) return "nan";
  if (!Number.isFinite(value)) return value < 0 ? "-inf" : "inf";
  return Object.is(value, -0) ? "-0" : String(value);
};

/** Warps of a block from one to before another, or none. */
export const warpsClause = (
  keyword: string,
): Clause<{ readonly first: number; readonly warps: number } | null> => ({
  keyword,
  syntax: "FIRST .. END",
  default: null,
  print: (value) => (value === null ? "" : `${value.first} .. ${value.first + value.warps}`),
  parse: (c) => {
    const first = c.integer("the first warp", 0);
    c.expect("..", "between the first warp and the end");
    return { first, warps: c.integer("the warp behind the last", first + 1) - first };
  },
});
