/** Rows of the statement tables: how a statement is written and read back, from one form of its line. */

import type { Stmt, StmtKind } from "../types.ts";
import { type Buffers, type Clause, type Clauses, parseClauses, printClauses } from "./clause.ts";
import type { Cursor } from "./cursor.ts";
import { type Field, formOf } from "./fields.ts";

/** Parses `{ … }` with these loop variables in scope. */
export type ParseBlock = (vars: readonly string[]) => Stmt[];

export interface StatementSyntax<S extends Stmt> {
  /** The line without the braces. */
  print(s: S, buffers: Buffers): string;
  /** Called after the keyword. */
  parse(c: Cursor, block: ParseBlock): S;
}

export type Of<K extends StmtKind> = Extract<Stmt, { readonly kind: K }>;

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
  const written = formOf(form === "" ? "" : ` ${form}`, parts as Readonly<Record<string, Field<unknown>>>);
  return {
    print: (s, buffers) => {
      const fields = s as unknown as Readonly<Record<string, unknown>>;
      return `${kind}${written.print(fields, buffers)}${printClauses<Clauses>(clauses, fields, buffers)}`;
    },
    parse: (c, block) => {
      const fields: Record<string, unknown> = { kind };
      const declared = written.parse(c, fields, `'${kind}'`);
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
