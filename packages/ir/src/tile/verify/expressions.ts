/** Indices, slots, bounds and conditions are such as a kernel has in registers: sums of multiples of variables that it keeps. */
import { findWarpgroupAtom } from "../../atoms/warpgroup.ts";
import { condVars } from "../cond.ts";
import { isElementStmt } from "../elements.ts";
import { asLinear, freeVars, type Linear, namedRemainders, substituteExpr } from "../expr.ts";
import { holdsLoops } from "../loops.ts";
import { pipelineNames, rangeOf } from "../ranges.ts";
import { childrenOf } from "../rewrite.ts";
import { declaredRuns, namesRows } from "../runs.ts";
import { launchRanges } from "../sizes.ts";
import type { Cond, Expr, Of, Stmt, View } from "../types.ts";
import { exprsOf, viewsOf } from "../views.ts";
import { bufferAt, type Fault, type Subject, type Verifier } from "./verifier.ts";

/**
 * What a variable is where it is used: a constant of an unrolled loop, the counter of the one loop that runs, a size of the launch, a pipeline's slot, or a coordinate in a register: of
 * a work tile, of a loop around loops, of a run.
 */
type Variable = "constant" | "running" | "size" | "slot" | "coordinate";

interface Scope {
  readonly vars: ReadonlyMap<string, Variable>;
  /** The loop that runs is open. */
  readonly running: boolean;
  /** Some threads or turns take no part. */
  readonly predicated: boolean;
}

export const expressions: Verifier = {
  name: "expressions",
  code: "TW3171",
  property:
    "indices are sums of multiples of variables that are counted, or remainders of one of them, those of tiles in shared memory and registers constant once loops are unrolled; slots are constants, pipelines, or go round with the chunks of the loop; one loop runs at a time, around it only such with bounds of their tile or that hold loops; waits for mbarriers and products of warpgroups stand in no condition that differs from turn to turn",
  from: "machine",
  *check(subject) {
    const { problem } = subject.program;
    const vars = new Map<string, Variable>([
      ...[...launchRanges(problem).keys()].map((name) => [name, "size"] as const),
      ...declaredRuns(problem).flatMap(({ first, count }) => [
        [first, "coordinate"] as const,
        [count, "coordinate"] as const,
      ]),
    ]);
    yield* list(subject, subject.program.body, { vars, running: false, predicated: false });
  },
};

function* list(subject: Subject, stmts: readonly Stmt[], scope: Scope): Iterable<Fault> {
  for (const stmt of stmts) {
    const found = [...faultsOf(subject, stmt, scope)];
    const at = found.length === 0 ? null : subject.sites.find((site) => site.stmt === stmt);
    for (const [message, hint] of found) yield { at: at ?? stmt.kind, message, hint };
    const inner = inside(subject, stmt, scope);
    if (found.length === 0 && inner !== null) yield* list(subject, childrenOf(stmt), inner);
  }
}

type Reason = readonly [message: string, hint: string];

/** The scope of a statement's body. */
function inside(subject: Subject, stmt: Stmt, scope: Scope): Scope | null {
  const binding = (kind: Variable, ...names: readonly string[]): Scope => ({
    ...scope,
    vars: new Map([...scope.vars, ...names.map((name) => [name, kind] as const)]),
  });
  switch (stmt.kind) {
    case "role":
      return binding("slot", ...pipelineNames(stmt.body));
    case "tiles": {
      const { split, streamK, loop, scheduler } = stmt;
      const counted = loop !== null && scheduler?.counts === true && streamK === undefined;
      return binding(
        "coordinate",
        ...stmt.vars,
        ...(split === null ? [] : [split.var]),
        ...(streamK === undefined ? [] : [streamK.first, streamK.count]),
        ...(counted ? [loop.var] : []),
      );
    }
    case "for": {
      const form = loopForm(subject, stmt, scope);
      if (typeof form !== "string") return null;
      return { ...binding(form, stmt.var), running: scope.running || form === "running" };
    }
    case "if":
      return { ...scope, predicated: scope.predicated || predicates(stmt, scope) };
    default:
      return scope;
  }
}

/** The linear form of an expression, in variables whose value a register has; constants of unrolled loops are any number. */
function linearIn(e: Expr, { vars }: Scope): Linear | null {
  const constants = new Map([...vars].flatMap(([name, kind]) => (kind === "constant" ? [[name, 0]] : [])));
  const folded = substituteExpr(e, constants as ReadonlyMap<string, number>);
  const named = (name: string, constant: number, divisor: number): string | null =>
    vars.get(name) === "coordinate" ? `(${name} + ${constant}) % ${divisor}` : null;
  return asLinear(folded) ?? asLinear(namedRemainders(folded, named));
}

const unknownIn = ({ terms }: Linear, { vars }: Scope): string | undefined =>
  [...terms.keys()].find(
    (name) => !name.startsWith("(") && !["coordinate", "running"].includes(vars.get(name) ?? ""),
  );

const isConstant = (e: Expr, scope: Scope): boolean => linearIn(e, scope)?.terms.size === 0;

const SUM = "a sum of multiples of variables, or the remainder of a coordinate";

function* faultsOf(subject: Subject, stmt: Stmt, scope: Scope): Iterable<Reason> {
  if (stmt.kind === "for") {
    const form = loopForm(subject, stmt, scope);
    if (typeof form !== "string") yield form;
    for (const bound of stmt.within?.bounds ?? []) yield* bounded(bound, scope);
  }
  if (stmt.kind === "tiles" && stmt.until !== undefined) yield* bounded(stmt.until, scope);
  if (stmt.kind === "if") yield* condition(stmt.cond, scope);
  if (stmt.kind === "copy" && stmt.when !== null) yield* condition(stmt.when, scope);
  if (stmt.kind === "mma" && stmt.keep) {
    const sides = [linearIn(stmt.keep.lhs, scope), linearIn(stmt.keep.rhs, scope)];
    const used = sides.flatMap((side) => [...(side?.terms.entries() ?? [])]);
    if (sides.includes(null) || used.length > 1 || used.some(([, factor]) => factor !== 1))
      yield ["keeps sums by more than one variable", "compare one variable with a constant"];
  }
  const group = stmt.kind === "mma" && findWarpgroupAtom(stmt.atom) !== null;
  if (scope.predicated && (group || stmt.kind === "mbar.wait"))
    yield [
      "stands in a condition that differs from turn to turn, and every role meets every chunk",
      "put it outside of the condition",
    ];
  if (stmt.kind === "partial.stage" || stmt.kind === "bulk.reduce")
    if (![stmt.from, stmt.slot].every((e) => isConstant(e, scope)))
      yield ["takes registers or a slot that no constant says", "unroll the loop around it"];
  for (const view of viewsOf(stmt)) yield* viewFaults(subject, stmt, view, scope);
  if (isElementStmt(stmt)) yield* countedFrom(stmt, scope);
}

/** A bound of a loop, or of work tiles: a coordinate's multiple, or its quotient. */
function* bounded(e: Expr, scope: Scope): Iterable<Reason> {
  const form = linearIn(e.kind === "div" ? e.lhs : e, scope);
  if (form === null || unknownIn(form, scope) !== undefined)
    yield ["has a bound that no register holds", `${SUM}, or their quotient`];
}

/** Rows and columns that are counted from somewhere. */
function* countedFrom(stmt: Of<"map"> | Of<"reduce.row">, scope: Scope): Iterable<Reason> {
  const views = new Set(viewsOf(stmt).flatMap(({ slot, origin }) => [slot, ...origin]));
  for (const e of exprsOf(stmt)) {
    if (views.has(e)) continue;
    const form = linearIn(e, scope);
    const unknown =
      form === null ? "" : [...form.terms.keys()].find((name) => scope.vars.get(name) === "running");
    if (unknown !== undefined)
      yield ["counts rows or columns from where a loop is", "count them from the work tile's first"];
  }
}

function* viewFaults(subject: Subject, stmt: Stmt, view: View, scope: Scope): Iterable<Reason> {
  const buffer = bufferAt(subject, view.buffer);
  const { space, slots, paged } = buffer;
  const name = `%${view.buffer}`;
  const bulk = stmt.kind === "copy" && stmt.transport === "tma";
  for (const [axis, e] of view.origin.entries()) {
    if (space === "shared" || space === "register") {
      if (!isConstant(e, scope))
        yield [`begins in ${name} where no constant says`, "a number, or the variable of an unrolled loop"];
      continue;
    }
    // Coordinates of boxes may be quotients.
    const whole = e.kind === "add" && e.rhs.kind === "const" ? e.lhs : e;
    const form = linearIn((bulk || isElementStmt(stmt)) && whole.kind === "div" ? whole.lhs : e, scope);
    const unknown = form === null ? null : unknownIn(form, scope);
    if (form === null) yield [`begins in ${name} at no sum of variables`, SUM];
    else if (typeof unknown === "string")
      yield [
        `begins in ${name} by %${unknown}, and nothing counts it`,
        "write counts behind the scheduler, or another variable",
      ];
    const rows = axis === 0 && paged !== undefined && namesRows(subject.program, paged);
    const moves = [...(form?.terms.keys() ?? [])].some((term) => scope.vars.get(term) === "running");
    if (rows && moves && !bulk)
      yield [`goes along rows of ${name} that an index names`, "rows by the work tile, columns by the loop"];
  }
  if (space === "global" || (view.slot.kind === "var" && scope.vars.get(view.slot.name) === "slot")) return;
  if (isConstant(view.slot, scope)) return;
  const form =
    view.slot.kind === "mod" && view.slot.divisor === slots ? linearIn(view.slot.lhs, scope) : null;
  const [term, more] = [...(form?.terms ?? [])];
  if (
    space === "shared" &&
    term !== undefined &&
    more === undefined &&
    term[1] === 1 &&
    scope.vars.get(term[0]) === "running"
  )
    return;
  yield [
    `takes a slot of ${name} that is no constant and no pipeline, and does not go round with the chunks`,
    space === "shared" ? `(%CHUNK + NUMBER) % ${slots} of the loop around` : "a number",
  ];
}

function* condition(cond: Cond, scope: Scope): Iterable<Reason> {
  const { vars } = scope;
  const used = [...condVars(cond)];
  const sized = used.filter((name) => vars.get(name) === "size");
  const [lhs, rhs] = [linearIn(cond.lhs, scope), linearIn(cond.rhs, scope)];
  if (sized.length > 0) {
    const moving = used.filter((name) => !["size", "constant"].includes(vars.get(name) ?? ""));
    const alone = lhs !== null && [...lhs.terms.values()].every((factor) => factor === 1);
    const sizesOnly = [...freeVars(cond.rhs)].every((name) =>
      ["size", "constant"].includes(vars.get(name) ?? ""),
    );
    if (moving.length > 1 || (moving.length > 0 && !(alone && sizesOnly)))
      yield ["compares more than one variable with sizes of the launch", "write %VARIABLE < SIZES"];
    return;
  }
  for (const side of [lhs, rhs]) {
    const unknown = side === null ? null : unknownIn(side, scope);
    if (side === null) yield ["compares no sums of variables", SUM];
    else if (typeof unknown === "string")
      yield [`asks for %${unknown}, and nothing counts it`, "write counts behind the scheduler"];
  }
}

/** Whether threads or turns go by an `if` one by one rather than together. */
function predicates({ cond, body }: Of<"if">, { vars, running, predicated }: Scope): boolean {
  const used = [...condVars(cond)].filter((name) => vars.get(name) !== "constant");
  if (used.length === 0) return false;
  const computes = body.every(({ kind }) => kind === "map");
  const together = used.every(
    (name) => vars.get(name) === "size" || (computes && vars.get(name) === "coordinate"),
  );
  return running || predicated || !together;
}

/** What the variable of a loop is to its body; or why there is no such loop. */
function loopForm(
  { program }: Subject,
  stmt: Of<"for">,
  scope: Scope,
): "constant" | "running" | "coordinate" | Reason {
  const { vars, running } = scope;
  const from = linearIn(stmt.from, scope);
  if (from === null || from.terms.size > 0) return ["begins where no constant says", "begin at a number"];
  const end = linearIn(stmt.to, scope);
  const names = [...freeVars(stmt.to)].filter((name) => vars.get(name) !== "constant");
  const sized = names.length > 0 && names.every((name) => vars.get(name) === "size");
  const counted = stmt.to.kind === "var" && vars.get(stmt.to.name) === "coordinate";
  const fixed = end !== null && end.terms.size === 0;
  if (!fixed && !sized && !counted)
    return [
      "ends where no constant, size or count of the work tile says",
      "end at a number, or at one of these",
    ];
  if (!fixed && stmt.unroll) return ["is unrolled, and only the launch knows its end", "leave out 'unroll'"];
  if (stmt.unroll && stmt.within === undefined) return "constant";
  const [low, high] = fixed
    ? [end.constant, end.constant]
    : sized
      ? rangeOf(stmt.to, launchRanges(program.problem))
      : [0, Number.POSITIVE_INFINITY];
  if (high - from.constant <= 1 && (fixed || low > from.constant)) return "constant";
  if (!running && fixed && (stmt.within !== undefined || holdsLoops(stmt))) return "coordinate";
  if (stmt.within !== undefined)
    return [
      "takes some of its turns, inside another loop or up to what the launch says",
      "put it outside, or end at a number",
    ];
  return running
    ? [
        "stands inside another loop that is not unrolled",
        "unroll one of them, or let the outer one hold loops only",
      ]
    : "running";
}
