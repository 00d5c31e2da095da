/** Fields of lines: how a value is written, and read at the cursor; and forms, which say both of several values at once. */
import { printCond, printExpr } from "../printExpr.ts";
import type { Cond, Expr, View } from "../types.ts";
import type { Buffers, Clause } from "./clause.ts";
import type { Cursor } from "./cursor.ts";
import { parseCond, parseExpr, parseView, printView } from "./expressions.ts";

export interface Field<T> {
  /** What it is, for messages: `the bytes`. */
  readonly what: string;
  /** The value is a name that the statement declares: for its body, or where it has none for what follows. */
  readonly declares?: true;
  print(value: T, buffers: Buffers): string;
  /** Undefined where it is left out, and its owner has no such field then. */
  parse(c: Cursor): T;
}

export type Fields<T> = { readonly [F in keyof T]-?: Field<T[F]> };

type Values = Record<string, unknown>;

/** Words that stand around fields: `(threads`, `..`. */
const words = /\+=|<-|[\w.]+|\S/g;

interface Form {
  print(values: Readonly<Values>, buffers: Buffers): string;
  /** Reads the fields into `values`; names that they declare. */
  parse(c: Cursor, values: Values, where: string): readonly string[];
}

/** The form `{from} .. {to} of {of}`: fields in braces, and the words around them. */
export function formOf(text: string, fields: Readonly<Record<string, Field<unknown>>>): Form {
  // Words stand at even places, fields at odd ones.
  const pieces = text.split(/\{(\w+)\}/);
  const at = (i: number): Field<unknown> | undefined => (i % 2 === 1 ? fields[pieces[i] ?? ""] : undefined);
  return {
    print: (values, buffers) =>
      pieces.map((piece, i) => at(i)?.print(values[piece], buffers) ?? piece).join(""),
    parse: (c, values, where) => {
      const declared: string[] = [];
      for (const [i, piece] of pieces.entries()) {
        const field = at(i);
        if (field === undefined) {
          const next = at(i + 1);
          for (const word of piece.match(words) ?? [])
            c.expect(word, next === undefined ? `in ${where}` : `before ${next.what}`);
          continue;
        }
        const value = field.parse(c);
        if (field.declares && typeof value === "string") declared.push(value);
        if (value !== undefined) values[piece] = value;
      }
      return declared;
    },
  };
}

/** A value of several fields, written as `text` says; a list where `fields` is one. */
export function record<T extends object>(what: string, text: string, fields: Fields<T>): Field<T> {
  const form = formOf(text, fields as Readonly<Record<string, Field<unknown>>>);
  return {
    what,
    print: (value, buffers) => form.print(value as Readonly<Values>, buffers),
    parse: (c) => {
      const values = Array.isArray(fields) ? [] : {};
      form.parse(c, values as Values, what);
      return values as T;
    },
  };
}

/** A clause whose value is written as the field is. */
export const clauseOf = <T>(
  keyword: string,
  syntax: string,
  { print, parse }: Field<NonNullable<T>>,
  fallback: T | undefined,
): Clause<T> => ({
  ...{ keyword, syntax, default: fallback, parse },
  print: (value, buffers) => (value === null || value === undefined ? "" : print(value, buffers)),
});

/** A field behind a word, both left out where the value is `absent`: ` on 132`, ` keep(sums)`. */
export const behind = <T>(
  word: string,
  { what, print, parse }: Field<NonNullable<T>>,
  absent?: T,
): Field<T> => ({
  what,
  print(value, buffers) {
    if (value === undefined || value === null || (Array.isArray(value) && value.length === 0)) return "";
    const text = print(value, buffers);
    return text.startsWith("(") ? ` ${word}${text}` : ` ${word} ${text}`;
  },
  parse: (c) => (c.eat(word) ? parse(c) : absent) as T,
});

/** A word that stands there or not: ` exact`. */
export const flag = <T extends boolean>(word: string, absent?: T): Field<T> => ({
  what: `'${word}'`,
  print: (value) => (value ? ` ${word}` : ""),
  parse: (c) => (c.eat(word) || absent) as T,
});

/** `(x, y)` */
export const list = <T>({ what, print, parse }: Field<T>, of = what): Field<readonly T[]> => ({
  what: of,
  print: (values, buffers) => `(${values.map((value) => print(value, buffers)).join(", ")})`,
  parse: (c) => c.list(of, () => parse(c)),
});

export const view = (what: string): Field<View> => ({ what, print: printView, parse: parseView });

export const expr = (what: string): Field<Expr> => ({ what, print: printExpr, parse: parseExpr });

export const cond: Field<Cond> = { what: "the condition", print: printCond, parse: parseCond };

export const integer = (what: string, min: number): Field<number> => ({
  what,
  print: String,
  parse: (c) => c.integer(what, min),
});

/** `@name` of a kernel. */
export const entry: Field<string> = {
  what: "the kernel's name",
  print: (of) => `@${of}`,
  parse: (c) => c.entry(),
};

/** `@16384`: where something begins. */
export const place: Field<number> = {
  what: "the place",
  print: (offset) => `@${offset}`,
  parse: (c) => c.place(),
};

/** One of some words. */
export const oneOf = <T extends string>(words: readonly T[], what: string): Field<T> => ({
  what,
  print: String,
  parse: (c) => c.oneOf(words, what),
});

const axisWords = ["rows", "cols"] as const;

/** An axis by its word. */
export const axis: Field<0 | 1> = {
  what: "axis",
  print: (value) => axisWords[value],
  parse: (c) => (c.oneOf(axisWords, "axis") === "rows" ? 0 : 1),
};

/** Any word. */
export const word = (what: string): Field<string> => ({ what, print: String, parse: (c) => c.word(what) });

/** `%name`, read as the row says. */
export const name = (what: string, parse = (c: Cursor): string => c.name(what)): Field<string> => ({
  what,
  print: (value) => `%${value}`,
  parse,
});

/** `%name` that the statement declares. */
export const declared = (what: string): Field<string> => ({ ...name(what), declares: true });

export const tile = name("a tile", (c) => c.buffer().name);
export const ring = name("the ring", (c) => c.ring().name);
/** `(%A, %B)` */
export const tiles = list(tile, "the tiles");
