/** Rows of the statement tables: how a statement is written and read back, from one form of its line. */

import { printExpr } from "../printExpr.ts";
import type { Expr, Stmt, StmtKind, View } from "../types.ts";
import { type Buffers, type Clause, type Clauses, parseClauses, printClauses } from "./clause.ts";
import type { Cursor } from "./cursor.ts";
import { parseExpr, parseView, printView } from "./expressions.ts";

/** Parses `{ … }` with these loop variables in scope. */
export type ParseBlock = (vars: readonly string[]) => Stmt[];

export interface StatementSyntax<S extends Stmt> {
  /** The line without the braces. */
  print(s: S, buffers: Buffers): string;
  /** Called after the keyword. */
  parse(c: Cursor, block: ParseBlock): S;
}

export type Of<K extends StmtKind> = Extract<Stmt, { readonly kind: K }>;

/** A field between the words of a form: how its value is written, and read at the cursor. */
export interface Field<T> {
  /** What it is, for messages: `the bytes`. */
  readonly what: string;
  /** The value is a name that the statement declares: for its body, or where it has none for what follows. */
  readonly declares?: true;
  print(value: T, buffers: Buffers): string;
  parse(c: Cursor): T;
}

/** Every field of a statement that no clause writes. */
type Parts<S, C> = { readonly [F in Exclude<keyof S, "kind" | "body" | keyof C>]-?: Field<S[F]> };
type ClausesOf<S, C> = { readonly [F in keyof C]: F extends keyof S ? Clause<S[F]> : never };

/**
 * The row of a statement: its keyword, a form (`{dst} = {value}`: fields in braces, and the words around them), and clauses.
 * `body`: whether statements in braces stand behind it; `optional` may lack them.
 */
export function line<K extends StmtKind, C extends Clauses>(
  kind: K,
  form: string,
  parts: Parts<Of<K>, C>,
  clauses: C & ClausesOf<Of<K>, C>,
  body: "none" | "braces" | "optional" = "none",
): StatementSyntax<Of<K>> {
  const rows: Readonly<Record<string, Field<unknown>>> = parts;
  // Words stand at even places, fields at odd ones.
  const pieces = form === "" ? [] : ` ${form}`.split(/\{(\w+)\}/);
  const partAt = (i: number): Field<unknown> | undefined => (i % 2 === 1 ? rows[pieces[i] ?? ""] : undefined);
  return {
    print: (s, buffers) => {
      const fields = s as unknown as Readonly<Record<string, unknown>>;
      const text = pieces.map((piece, i) => partAt(i)?.print(fields[piece], buffers) ?? piece).join("");
      return `${kind}${text}${printClauses<Clauses>(clauses, fields, buffers)}`;
    },
    parse: (c, block) => {
      const fields: Record<string, unknown> = { kind };
      const declared: string[] = [];
      pieces.forEach((piece, i) => {
        const part = partAt(i);
        if (part === undefined) {
          const next = partAt(i + 1);
          for (const word of piece.split(" "))
            if (word !== "") c.expect(word, next === undefined ? `in '${kind}'` : `before ${next.what}`);
          return;
        }
        const value = part.parse(c);
        if (part.declares && typeof value === "string") declared.push(value);
        fields[piece] = value;
      });
      Object.assign(fields, parseClauses<Clauses>(c, clauses, kind));
      if (body === "none") c.vars.push(...declared.filter((name) => !c.vars.includes(name)));
      else fields.body = body === "braces" || c.at("{") ? block(declared) : [];
      return fields as unknown as Of<K>;
    },
  };
}

/** Statements without fields. */
type BareKind = { [K in StmtKind]: keyof Of<K> extends "kind" ? K : never }[StmtKind];

/** A statement of one word. */
export const bare = <K extends BareKind>(kind: K): StatementSyntax<Of<K>> =>
  line<K, Clauses>(kind, "", {} as Parts<Of<K>, Clauses>, {} as ClausesOf<Of<K>, Clauses>);

export const view = (what: string): Field<View> => ({ what, print: printView, parse: parseView });

export const expr = (what: string): Field<Expr> => ({ what, print: printExpr, parse: parseExpr });

export const integer = (what: string, min: number): Field<number> => ({
  what,
  print: String,
  parse: (c) => c.integer(what, min),
});

/** One of some words. */
export const oneOf = <T extends string>(words: readonly T[], what: string): Field<T> => ({
  what,
  print: String,
  parse: (c) => c.oneOf(words, what),
});

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
