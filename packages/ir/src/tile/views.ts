/**
 * What stands in statements beside words and numbers: views that they read and write, expressions, conditions. One row a kind; whatever visits or replaces them goes through it,
 * so that a new statement or field is one line here.
 */
import { mapLeaves } from "@tilewright/core";
import { equalExpr } from "./expr.ts";
import type { Cond, ElementExpr, Expr, Of, StepView, Stmt, StmtKind, View, Within } from "./types.ts";

/** What becomes of the parts of a statement; a part that comes back as it was leaves the statement as it is. */
interface Change {
  readonly reads: (view: View) => View;
  readonly writes: (view: View) => View;
  readonly expr: (e: Expr) => Expr;
}

type Part<T> = (value: T, change: Change) => T;
/** Parts that may be absent: null, undefined or, of a condition, false. */
type Present<T> = Exclude<T, null | undefined | false>;
type Parts<T> = { readonly [F in keyof T]?: Part<Present<T[F]>> };

/** The value with its parts changed; itself where none is. */
function changed<T extends object>(value: T, parts: Parts<T>, change: Change): T {
  let own: Partial<T> | null = null;
  for (const field in parts) {
    const part = parts[field];
    const old = value[field];
    if (part === undefined || old === null || old === undefined || old === false) continue;
    const now = part(old as Present<T[typeof field]>, change);
    if (now !== old) own = { ...own, [field]: now } as Partial<T>;
  }
  return own === null ? value : { ...value, ...own };
}

const within =
  <T extends object>(parts: Parts<T>): Part<T> =>
  (value, change) =>
    changed(value, parts, change);

const all =
  <T>(part: Part<T>): Part<readonly T[]> =>
  (values, change) => {
    const now = values.map((value) => part(value, change));
    return now.every((value, i) => value === values[i]) ? values : now;
  };

const reads: Part<View> = (view, change) => change.reads(view);
const writes: Part<View> = (view, change) => change.writes(view);
const expr: Part<Expr> = (e, change) => change.expr(e);
const pair = all(expr) as unknown as Part<readonly [Expr, Expr]>;
const cond: Part<Cond> = within<Cond>({ lhs: expr, rhs: expr });
const scales = <T extends { readonly a: View; readonly b?: View }>(): Part<T> =>
  within<T>({ a: reads, b: reads, beside: reads } as Parts<{ a: View; b: View; beside: View }> as Parts<T>);

const element: Part<ElementExpr> = (value, change) => {
  let same = true;
  const now = mapLeaves(value, (leaf) => {
    const own =
      leaf.kind === "view"
        ? changed(leaf, { view: reads }, change)
        : changed<typeof leaf>(leaf, { from: expr }, change);
    same &&= own === leaf;
    return own;
  });
  return same ? value : now;
};

/** Expressions of a view: the slot, and where its rectangle begins. */
const ofView: Parts<View> = { slot: expr, origin: pair };

const stored = { via: reads };
const added = { acc: writes };
const run = { acc: reads, from: expr, slot: expr };
const event = { at: expr };

const rows: { readonly [K in StmtKind]?: Parts<Of<K>> } = {
  tiles: { until: expr },
  for: { from: expr, to: expr, within: within<Within>({ bounds: pair }) },
  if: { cond },
  vote: { factor: reads },
  fill: { dst: writes },
  map: { dst: writes, value: element },
  // Threads of a row meet through `via`, which they fill before they read it.
  "reduce.row": { dst: writes, value: element, via: writes },
  copy: { dst: writes, src: reads, when: cond },
  mma: {
    ...added,
    twoLevel: within<NonNullable<Of<"mma">["twoLevel"]>>({ sum: writes }),
    a: reads,
    b: reads,
    beside: reads,
    scales: scales(),
    keep: cond,
  },
  accumulate: { ...added, sum: reads, scales: scales() },
  acquire: event,
  commit: event,
  wait: event,
  release: event,
  request: event,
  next: event,
  reduce: { ...added, into: reads },
  epilogue: {
    dst: writes,
    acc: reads,
    c: reads,
    via: writes,
    inputs: all(within<StepView>({ view: reads })),
  },
  stage: { via: writes },
  "bulk.store": stored,
  "warp.store": stored,
  reduction: { unless: cond },
  "partial.store": { acc: reads },
  "partial.reduce": { acc: reads },
  "partial.stage": run,
  "bulk.reduce": run,
  "partial.load": added,
  "partial.clear": added,
  "partial.add": added,
  "counter.add": { by: expr },
  "counter.leave": { unless: expr },
  "dsmem.send": { acc: reads, into: writes },
  "dsmem.add": { into: writes },
};

const same = <T>(value: T): T => value;

const change = <S extends Stmt>(stmt: S, by: Change): S => {
  const parts: Parts<S> | undefined = rows[stmt.kind] as Parts<S> | undefined;
  return parts === undefined ? stmt : changed(stmt, parts, by);
};

/** The statement itself, without its nested lists, with other views in the places of what it reads, and of what it writes or adds to (the same unless given). */
export const withViews = <S extends Stmt>(stmt: S, reads: (view: View) => View, writes = reads): S =>
  change(stmt, { reads, writes, expr: same });

/** The same of what it reads alone. */
export const withReads = <S extends Stmt>(stmt: S, reads: (view: View) => View): S =>
  withViews(stmt, reads, same);

/** The same with what `expr` makes of its expressions: bounds, conditions, chunks, slots and origins of views. */
export function withExprs<S extends Stmt>(stmt: S, expr: (e: Expr) => Expr): S {
  const by: Change = { expr, reads: (view) => changed(view, ofView, by), writes: (view) => by.reads(view) };
  return change(stmt, by);
}

/** Expressions of a statement, as `withExprs` meets them. */
export function exprsOf(stmt: Stmt): readonly Expr[] {
  const found: Expr[] = [];
  withExprs(stmt, (e) => {
    found.push(e);
    return e;
  });
  return found;
}

const collect = (stmt: Stmt, which: "reads" | "writes" | "all"): readonly View[] => {
  const found: View[] = [];
  const keep = (view: View): View => {
    found.push(view);
    return view;
  };
  withViews(stmt, which === "writes" ? same : keep, which === "reads" ? same : keep);
  return found;
};

/** The views of a statement itself, not of its body. */
export const viewsOf = (stmt: Stmt): readonly View[] => collect(stmt, "all");

/** Those that it reads. */
export const readsOf = (stmt: Stmt): readonly View[] => collect(stmt, "reads");

/** Those that it writes or adds to. */
export const writesOf = (stmt: Stmt): readonly View[] => collect(stmt, "writes");

/** Whether two views begin at the same element of one slot. */
export const sameView = (a: View, b: View): boolean =>
  a.buffer === b.buffer &&
  equalExpr(a.slot, b.slot) &&
  equalExpr(a.origin[0], b.origin[0]) &&
  equalExpr(a.origin[1], b.origin[1]);
