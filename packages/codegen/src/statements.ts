/** The table of statements: which lowering each kind takes. The backend's own come first. */
import { type Expr, freeVars, holdsLoops, rangeOf, type Stmt } from "@tilewright/ir";
import { imm, type Operand } from "@tilewright/ptx";
import { isBranch, lowerBranch, lowerVote } from "./branches.ts";
import { CannotLower } from "./cannotLower.ts";
import { lowerNext, lowerTileRequest } from "./clcResponses.ts";
import { Code, type Reg } from "./code.ts";
import type { Context } from "./context.ts";
import { lowerCopy } from "./copyRoutes.ts";
import { lowerMap, lowerRowReduction } from "./elements.ts";
import type { OwnKind, Statements, StmtOf } from "./engine.ts";
import { lowerEpilogue } from "./epilogue.ts";
import { fillTile, lowerFill } from "./fills.ts";
import { iterationsTaken } from "./iterations.ts";
import { located } from "./located.ts";
import { machineStatements } from "./machine.ts";
import { forgetSlots } from "./pipelines.ts";
import { lowerPrologue } from "./prologueChunk.ts";
import { arriveAtBarrier, lowerPin, lowerRename } from "./quirks.ts";
import { resultStatements } from "./results.ts";
import { lowerRole } from "./roles.ts";
import type { LoopState } from "./scopes.ts";
import { barrierAhead, setupStatements } from "./setup.ts";
import { countOf, isSizeOnly } from "./sizes.ts";
import { lowerReduction, reductionStatements } from "./splitReduction.ts";
import { lowerTiles } from "./tiles.ts";
import { lowerTranspose } from "./transpose.ts";

/** Lower a list at `ctx.body`, in program order. */
export function lowerStmts(ctx: Context, stmts: readonly Stmt[]): void {
  for (const stmt of stmts) lowerStmt(ctx, stmt);
}

const shared: Omit<Statements, OwnKind> = {
  tiles: (ctx, stmt) => lowerTiles(ctx, stmt, (stmts) => lowerStmts(ctx, stmts)),
  for: lowerFor,
  if: lowerIf,
  vote: (ctx, { factor, body }) => lowerVote(ctx, factor.buffer, () => lowerStmts(ctx, body)),
  fill: lowerFill,
  copy: lowerCopy,
  map: lowerMap,
  "reduce.row": lowerRowReduction,
  epilogue: lowerEpilogue,
  reduce: (ctx, stmt) => lowerReduction(ctx, stmt, (stmts) => lowerStmts(ctx, stmts)),
  barrier(ctx, stmt) {
    const { id, threads = ctx.values.warps * 32, arrive = false, ahead } = stmt;
    if (ahead !== undefined) barrierAhead(ctx, stmt, ahead);
    else if (arrive) arriveAtBarrier(ctx, id, threads);
    else if (threads === ctx.program.launch.threads) ctx.emit(null, "bar.sync", imm(id));
    else ctx.emit(null, "bar.sync", imm(id), imm(threads));
  },
  role: (ctx, stmt) => lowerRole(ctx, stmt, (stmts) => lowerStmts(ctx, stmts)),
  ...machineStatements(lowerStmts),
  ...reductionStatements(lowerStmts),
  ...setupStatements(lowerStmts),
  ...resultStatements,
  transpose: lowerTranspose,
  pin: lowerPin,
  rename: lowerRename,
  prologue: (ctx, { body }) => lowerPrologue(ctx, () => lowerStmts(ctx, body)),
  request: lowerTileRequest,
  next: lowerNext,
};

function lowerStmt(ctx: Context, stmt: Stmt): void {
  const table: Partial<Statements> = { ...shared, ...ctx.engine.statements };
  // The key picks the lowering of the statement's own kind, which a union of functions cannot say.
  const own = table[stmt.kind] as ((ctx: Context, stmt: Stmt) => void) | undefined;
  if (own === undefined) throw new CannotLower(stmt.kind, "is no statement of this backend");
  located(ctx, stmt, () => own(ctx, stmt));
}

/** The threads go by together where there are loops inside, else the statements inside are predicated. */
function lowerIf(ctx: Context, stmt: StmtOf<"if">): void {
  const zeros = (): void => {
    for (const name of stmt.zeros ?? []) fillTile(ctx, name, 0);
  };
  if (isBranch(ctx, stmt)) {
    lowerBranch(ctx, stmt.cond, () => lowerStmts(ctx, stmt.body), stmt.zeros && zeros);
    return;
  }
  const condition = ctx.condition(stmt.cond);
  if (condition === false) {
    zeros();
    return;
  }
  const outer = ctx.active;
  if (condition !== true) ctx.active = ctx.both(outer, condition);
  lowerStmts(ctx, stmt.body);
  ctx.active = outer;
  if (condition === true || stmt.zeros === undefined) return;
  const not = ctx.entry.reg("pred", "p");
  ctx.body.emit(null, "not.pred", not, condition);
  ctx.active = ctx.both(outer, not);
  zeros();
  ctx.active = outer;
}

function lowerFor(ctx: Context, stmt: StmtOf<"for">): void {
  const from = ctx.constant(stmt.from, `start of loop %${stmt.var}`);
  const counted = endOf(ctx, stmt);
  const to = typeof counted === "number" ? counted : counted.most;
  if (
    (stmt.unroll && stmt.within === undefined) ||
    (to - from <= 1 && (typeof counted === "number" || counted.least > from))
  ) {
    for (let i = from; i < to; i++) {
      ctx.constants.set(stmt.var, i);
      lowerStmts(ctx, stmt.body);
    }
    ctx.constants.delete(stmt.var);
    return;
  }
  const around = stmt.within !== undefined || holdsLoops(stmt);
  if (ctx.loop === null && typeof counted === "number" && around) {
    lowerAround(ctx, stmt, from, counted);
    return;
  }
  const outer = ctx.body;
  const skip =
    typeof counted !== "number" && counted.least <= from ? ctx.entry.label(`no_${stmt.var}`) : null;
  if (skip !== null && typeof counted !== "number") {
    const none = ctx.entry.reg("pred", "p");
    outer.emit(null, "setp.le.u32", none, counted.reg, imm(from));
    outer.emit(none, "bra", skip);
  }
  const pre = outer.nest();
  const counter = ctx.entry.reg("u32", `${stmt.var}_`);
  pre.emit(null, "mov.u32", counter, imm(from));
  const state: LoopState = {
    var: stmt.var,
    counter,
    from,
    to,
    end: typeof counted === "number" ? null : ctx.fold(stmt.to),
    ahead: 0,
    pre,
    // Stands behind every turn; filled by all of them.
    latch: new Code(outer.origin),
    running: new Map(),
    iteration: new Map(),
  };
  const apart = apartOf(stmt, to - from);
  if (apart > 0) lowerSteady(ctx, stmt, state, counted, apart);
  const end = typeof counted === "number" ? imm(to) : counted.reg;
  lowerTurns(ctx, stmt, { ...state, iteration: new Map() }, end);
  state.latch.emit(null, "add.u32", counter, counter, imm(1));
  if (skip !== null) outer.label(skip);
}

/** A loop around loops: its variable is to them what a tile's coordinate is, and each turn has invariants of its own. */
function lowerAround(ctx: Context, stmt: StmtOf<"for">, from: number, to: number): void {
  const { entry } = ctx;
  const counter = entry.reg("u32", `${stmt.var}_`);
  const label = entry.label(`loop_${stmt.var}`);
  const turns = stmt.within === undefined ? null : iterationsTaken(ctx, stmt.within, [from, to]);
  const end = turns?.end ?? imm(to);
  const once = stmt.within?.take === "first" || stmt.within?.take === "last";
  const none = stmt.within?.take === "rest" ? entry.label(`no_${stmt.var}`) : null;
  const more = entry.reg("pred", "p");
  ctx.body.emitAny(null, "mov.u32", [counter, turns?.first ?? imm(from)]);
  if (none !== null) {
    ctx.body.emitAny(null, "setp.ge.u32", [more, counter, end]);
    ctx.body.emit(more, "bra", none);
  }
  if (!once) ctx.body.label(label);
  forgetSlots(ctx);
  ctx.tileVars.set(stmt.var, { reg: counter, extent: to, least: from });
  ctx.scope(() => lowerStmts(ctx, stmt.body));
  ctx.tileVars.delete(stmt.var);
  if (!once) {
    ctx.body.emit(null, "add.u32", counter, counter, imm(1));
    ctx.body.emitAny(null, "setp.lt.u32", [more, counter, end]);
    ctx.body.emit(more, "bra", label);
  }
  if (none !== null) ctx.body.label(none);
  forgetSlots(ctx);
}

/** Last turns that a loop makes apart; none where it may have no others. */
const apartOf = ({ apart = 0 }: StmtOf<"for">, most: number): number => (apart < most ? apart : 0);

/** The turns before the last `apart` ones, if there are any: more of them follow each. */
function lowerSteady(
  ctx: Context,
  stmt: StmtOf<"for">,
  state: LoopState,
  counted: number | End,
  apart: number,
): void {
  const steady = { ...state, to: state.to - apart, ahead: apart };
  if (typeof counted === "number") {
    lowerTurns(ctx, stmt, steady, imm(steady.to));
    return;
  }
  const [few, limit] = [ctx.entry.reg("pred", "p"), ctx.entry.reg("u32", "steady")];
  const last = ctx.entry.label(`last_${stmt.var}`);
  ctx.body.emit(null, "setp.le.u32", few, counted.reg, imm(state.from + apart));
  ctx.body.emit(few, "bra", last);
  ctx.body.emit(null, "sub.u32", limit, counted.reg, imm(apart));
  lowerTurns(ctx, stmt, steady, limit);
  ctx.body.label(last);
}

/** Turns of a loop up to `end`, one at least. */
function lowerTurns(ctx: Context, stmt: StmtOf<"for">, state: LoopState, end: Operand): void {
  const outer = ctx.body;
  const label = ctx.entry.label(`loop_${stmt.var}`);
  outer.label(label);
  ctx.loop = state;
  ctx.body = outer.nest();
  ctx.recent.clear();
  forgetSlots(ctx);
  lowerStmts(ctx, stmt.body);
  ctx.recent.clear();
  ctx.body = outer;
  ctx.loop = null;
  const more = ctx.entry.reg("pred", "p");
  outer.adopt(state.latch);
  outer.emitAny(null, "setp.lt.u32", [more, state.counter, end]);
  outer.emit(more, "bra", label);
  forgetSlots(ctx);
}

/** End of a loop that is known when the kernel runs, and its range. */
interface End {
  readonly reg: Reg<"u32">;
  readonly least: number;
  readonly most: number;
}

/** An end that the launch supplies. */
function sizeEnd(ctx: Context, e: Expr): number | End {
  const [least, most] = rangeOf(e, ctx.sizes);
  const reg = countOf(ctx, e);
  return typeof reg === "number" ? reg : { reg, least, most };
}

/** End of a loop: a constant, or a count that the tiles bind. */
function endOf(ctx: Context, { var: name, to, unroll }: StmtOf<"for">): number | End {
  const e = ctx.fold(to);
  const counted = e.kind === "var" ? ctx.tileVars.get(e.name) : undefined;
  if (isSizeOnly(ctx, e) && freeVars(e).size > 0) return sizeEnd(ctx, e);
  if (counted?.reg == null || unroll) return ctx.constant(to, `end of loop %${name}`);
  return { reg: counted.reg, least: counted.least ?? 0, most: counted.extent - 1 };
}
