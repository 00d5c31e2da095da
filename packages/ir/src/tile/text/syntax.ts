/** What a row of the statement tables says. */
import type { Stmt, StmtKind } from "../types.ts";
import type { Buffers } from "./clause.ts";
import type { Cursor } from "./cursor.ts";

/** Parses `{ … }` with these loop variables in scope. */
export type ParseBlock = (vars: readonly string[]) => Stmt[];

export interface StatementSyntax<S extends Stmt> {
  /** The form, for the README and for hints. */
  readonly syntax: string;
  /** The line without the braces. */
  print(s: S, buffers: Buffers): string;
  /** Called after the keyword. */
  parse(c: Cursor, block: ParseBlock): S;
}

export type Of<K extends StmtKind> = Extract<Stmt, { readonly kind: K }>;
