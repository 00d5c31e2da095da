/** Walking and rebuilding statement lists: what every pass needs, in one place. */
import type { Target } from "@tilewright/core";
import { type ArgumentsOf, type DirectiveName, withDefaults } from "./directives.ts";
import type { Boundary, Buffer, Launch, Stmt, TileProgram, View } from "./types.ts";

const none: readonly Stmt[] = [];

/** The statement's nested list, or none. */
export const childrenOf = (stmt: Stmt): readonly Stmt[] => ("body" in stmt ? stmt.body : none);

/** What a loop over work tiles does at its bounds. */
export const boundaryOf = ({ body }: Extract<Stmt, { kind: "tiles" }>, at: Boundary): readonly Stmt[] =>
  body.flatMap((stmt) => (stmt.kind === "boundary" && stmt.bound === at ? stmt.body : []));

const withChildren = (stmt: Stmt, children: readonly Stmt[]): Stmt =>
  "body" in stmt ? { ...stmt, body: children } : stmt;

/**
 * Rebuild a list bottom-up: `persistent` sees each statement after its children and answers with what stands in its place
 * (itself, another, several, or nothing). Lists that do not change keep their identity.
 */
export function rewriteStmts(
  stmts: readonly Stmt[],
  rewrite: (stmt: Stmt) => Stmt | readonly Stmt[],
): readonly Stmt[] {
  let changed = false;
  const out: Stmt[] = [];
  for (const stmt of stmts) {
    const before = childrenOf(stmt);
    const after = rewriteStmts(before, rewrite);
    const current = after === before ? stmt : withChildren(stmt, after);
    const result = rewrite(current);
    const list: readonly Stmt[] = Array.isArray(result) ? result : [result as Stmt];
    if (list.length !== 1 || list[0] !== stmt) changed = true;
    out.push(...list);
  }
  return changed ? out : stmts;
}

/** Every statement of a list and its nested lists, outermost first, in program order. */
export function eachStmt(stmts: readonly Stmt[]): readonly Stmt[] {
  const all: Stmt[] = [];
  collect(stmts, all);
  return all;
}

function collect(stmts: readonly Stmt[], into: Stmt[]): void {
  for (const stmt of stmts) {
    into.push(stmt);
    const children = childrenOf(stmt);
    if (children.length > 0) collect(children, into);
  }
}

/** The program with another body; the same object when the body is the same. */
export const withBody = (program: TileProgram, body: readonly Stmt[]): TileProgram =>
  body === program.body ? program : { ...program, body };

/** The buffer of a name. Throws (a bug: the verifier resolves names) when there is none. */
export function bufferOf(program: TileProgram, name: string): Buffer {
  const buffer = program.buffers.find((b) => b.name === name);
  if (!buffer) throw new RangeError(`no buffer %${name}`);
  return buffer;
}

/** Units of a cluster along m and n that work on a tile each: its blocks, or pairs of neighbours along m. */
export const clusterUnits = ({ cluster, pair }: Launch): readonly [m: number, n: number] => [
  cluster[0] / (pair ? 2 : 1),
  cluster[1],
];

/** Rows and columns of a slot of a tile in one block: half of a tile that a pair of blocks shares out. */
export const blockShape = ({
  shape,
  halves,
}: Pick<Buffer, "shape" | "halves">): readonly [number, number] => [
  halves === 0 ? shape[0] / 2 : shape[0],
  halves === 1 ? shape[1] / 2 : shape[1],
];

/** The view of all of slot 0 of a buffer. */
export const wholeView = (buffer: Buffer): View => ({
  buffer: buffer.name,
  slot: { kind: "const", value: 0 },
  origin: [
    { kind: "const", value: 0 },
    { kind: "const", value: 0 },
  ],
  extent: buffer.shape,
});

/** A directive's arguments, defaults included, and the program without it; null when the program has none of that name. */
export function takeDirective<N extends DirectiveName>(
  program: TileProgram,
  name: N,
): { readonly args: ArgumentsOf<N>; readonly program: TileProgram } | null {
  const directive = program.directives.find((d) => d.name === name);
  if (!directive) return null;
  return {
    args: withDefaults(name, directive.args as Partial<ArgumentsOf<N>>),
    program: { ...program, directives: program.directives.filter((d) => d !== directive) },
  };
}

/** What a pass does that a directive asks for: it has the program without the directive, and its arguments. Programs without one stay as they are. */
export const directed =
  <N extends DirectiveName>(
    name: N,
    make: (program: TileProgram, args: ArgumentsOf<N>, target: Target) => TileProgram,
  ) =>
  (program: TileProgram, target: Target): TileProgram => {
    const taken = takeDirective(program, name);
    return taken === null ? program : make(taken.program, taken.args, target);
  };

/** The same elements under another name, with rows and columns exchanged. */
export function exchanged(buffer: Buffer, name: string): Buffer {
  const [rows, columns] = buffer.shape;
  const [down = 1, across = 1] = buffer.layout?.stride ?? [];
  const shape = [columns, rows] as const;
  const layout = buffer.layout && { ...buffer.layout, shape, stride: [across, down] };
  return { ...buffer, name, shape, layout };
}
