/** Roles: which warps run what, with what registers. */
import { clusterSize } from "@tilewright/ir";
import { imm, pair, sink, special } from "@tilewright/ptx";
import { isLeader } from "./clusters.ts";
import type { Pred, Reg } from "./code.ts";
import type { Context } from "./context.ts";
import type { StmtOf } from "./engine.ts";

/** Registers of a thread are given out in units of 8 (PTX ISA, setmaxnreg). */
const REGISTER_UNIT = 8;

/** Registers that a block of all a kernel's threads leaves each of them. */
const launchedRegisters = ({ target, program }: Context): number =>
  Math.floor(target.limits.registersPerBlock / program.launch.threads / REGISTER_UNIT) * REGISTER_UNIT;

/** Registers of a thread of the role at hand. */
export const registersOf = (ctx: Context): number =>
  Math.min(
    ctx.values.role.registers ?? launchedRegisters(ctx),
    ctx.kernel.maxnreg ?? ctx.target.limits.maxRegistersPerThread,
  );

/** Number of the warp in its block, as a value that is the same for all its lanes and known to be. */
const warpNumber = (ctx: Context): Reg<"u32"> =>
  ctx.invariant("warp of the block", (code) => {
    const d = ctx.entry.reg("u32", "warp");
    code.emit(null, "mov.u32", d, special("%tid.x"));
    code.emit(null, "shr.u32", d, d, imm(5));
    code.emit(null, "shfl.sync.idx.b32", d, d, imm(0), imm(31), imm(0xffffffff));
    return d;
  });

/**
 * The role's warps run its code, the others go round it. What one thread can do is done by one thread: the first warp elects it, so that the others
 * of the role are done at once. Where it gathers rows the others of its warp go with it.
 */
export function lowerRole(
  ctx: Context,
  stmt: StmtOf<"role">,
  lower: (stmts: StmtOf<"role">["body"]) => void,
): void {
  const { entry } = ctx;
  const end = entry.label(`end_${stmt.name}`);
  const warp = warpNumber(ctx);
  ctx.emit(othersThan(ctx, stmt), "bra", end);
  if (stmt.leader !== undefined && clusterSize(ctx.program) > 1) {
    const follows = entry.reg("pred", "p");
    ctx.emit(null, "not.pred", follows, isLeader(ctx, stmt.leader));
    ctx.emit(follows, "bra", end);
  }
  if (stmt.registers !== null) {
    const way = stmt.registers < launchedRegisters(ctx) ? "dec" : "inc";
    ctx.emitAny(null, `setmaxnreg.${way}.sync.aligned.u32`, imm(stmt.registers));
  }
  if (stmt.elected === true) {
    if (stmt.warps > 1) {
      const idle = entry.reg("pred", "p");
      ctx.emit(null, "setp.ne.u32", idle, warp, imm(stmt.first));
      ctx.emit(idle, "bra", end);
    }
    const [elected, rest] = [entry.reg("pred", "p"), entry.reg("pred", "p")];
    ctx.emitAny(null, "elect.sync", pair(sink, elected), imm(0xffffffff));
    if (stmt.gathers === true) ctx.acting = elected;
    else {
      ctx.emit(null, "not.pred", rest, elected);
      ctx.emit(rest, "bra", end);
    }
  }
  const { first, warps, registers } = stmt;
  ctx.roleScope({ first, warps, ...(registers === null ? {} : { registers }) }, () => lower(stmt.body));
  ctx.acting = null;
  ctx.body.label(end);
  // Tensor memory is given back behind the roles, by whole warps.
  if (ctx.tensor !== null) ctx.body.emit(null, "bar.warp.sync", imm(0xffffffff));
}

/** Whether a warp is none of a role's, the same for all its lanes and known to be. */
export function othersThan(ctx: Context, { first, warps }: Pick<StmtOf<"role">, "first" | "warps">): Pred {
  const others = ctx.entry.reg("pred", "p");
  const warp = warpNumber(ctx);
  if (first === 0) ctx.emit(null, "setp.ge.u32", others, warp, imm(warps));
  else if (first + warps === ctx.program.launch.threads / 32)
    ctx.emit(null, "setp.lt.u32", others, warp, imm(first));
  else {
    const within = ctx.entry.reg("u32", "warp");
    ctx.emit(null, "sub.u32", within, warp, imm(first));
    ctx.emit(null, "setp.ge.u32", others, within, imm(warps));
  }
  return others;
}

/** The first thread of each group of `threads` of the role. */
export const firstOf = (ctx: Context, threads: number): Pred =>
  ctx.roleValue(`first of ${threads}`, (code) => {
    const p = ctx.entry.reg("pred", "p");
    code.emit(null, "setp.eq.u32", p, placeIn(ctx, threads), imm(0));
    return p;
  });

/** Number of a thread in its group of `threads` (a power of two) of the role; groups begin at warpgroups of the block. */
export const placeIn = (ctx: Context, threads: number): Reg<"u32"> =>
  ctx.roleValue(`place in ${threads}`, (code) => {
    const d = ctx.entry.reg("u32", "place");
    code.emit(null, "mov.u32", d, special("%tid.x"));
    code.emit(null, "and.b32", d, d, imm(threads - 1));
    return d;
  });
