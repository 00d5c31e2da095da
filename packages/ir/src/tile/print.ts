/** Tile programs as text: deterministic, complete, and read back by parse.ts to an equal object. */
import type { Buffers } from "./text/clause.ts";
import { declarations } from "./text/declarations.ts";
import { type StatementSyntax, statementSyntax } from "./text/statements.ts";
import { versionLine } from "./text/version.ts";
import type { Stmt, TileProgram } from "./types.ts";

/** The text of a program, with a final newline. Programs that print the same are the same. */
export function printProgram(p: TileProgram): string {
  const buffers = new Map(p.buffers.map((b) => [b.name, b]));
  const head = Object.values(declarations).flatMap((row) => row.print(p));
  const lines = [
    versionLine,
    `tile.kernel @${p.name} stage ${p.stage} arch ${p.arch} {`,
    ...head.map((line) => `  ${line}`),
    ...(p.body.length > 0 ? [""] : []),
    ...p.body.flatMap((s) => printLines(s, buffers, "  ")),
    "}",
  ];
  return `${lines.join("\n")}\n`;
}

/** The first line of a statement: what messages show; buffers resolve the shorthand of whole views. */
export const printHead = (s: Stmt, buffers: Buffers = new Map()): string =>
  (statementSyntax[s.kind] as StatementSyntax<Stmt>).print(s, buffers);

/** Statements that have a body in some forms only. */
const sometimes: ReadonlySet<Stmt["kind"]> = new Set(["epilogue", "partial.reduce"]);

/** The statements inside a statement, or null where it has no body. */
export const bodyOf = (s: Stmt): readonly Stmt[] | null =>
  "body" in s && (!sometimes.has(s.kind) || s.body.length > 0) ? s.body : null;

function printLines(s: Stmt, buffers: Buffers, indent: string): string[] {
  const head = indent + printHead(s, buffers);
  const body = bodyOf(s);
  if (body === null) return [head];
  return [`${head} {`, ...body.flatMap((inner) => printLines(inner, buffers, `${indent}  `)), `${indent}}`];
}
