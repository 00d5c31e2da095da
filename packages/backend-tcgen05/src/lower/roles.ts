/** Roles: which warps run what, and what they begin with. */

import { CannotLower, type Context, isLeader, lowerStmts, type StmtOf } from "@tilewright/codegen";
import { clusterSize } from "@tilewright/ir";
import { imm } from "@tilewright/ptx";
import { elect, syncWarp } from "./barriers.ts";

type Role = StmtOf<"role">;

/** A role of one thread: copies, matrix instructions and requests are all issued by one. */
export function lowerRole(ctx: Context, role: Role): void {
  if (role.registers !== null)
    throw new CannotLower(`role ${role.name}`, "register budgets are not served by this backend");
  const { entry } = ctx;
  const end = entry.label(`end_${role.name}`);
  skipUnlessOurs(ctx, role, end);
  const single = role.elected === true;
  ctx.restartInvariants();
  if (single) {
    const others = entry.reg("pred", "el");
    ctx.body.emit(null, "not.pred", others, elect(ctx));
    ctx.body.emit(others, "bra", end);
  }
  ctx.crewScope({ first: role.first, warps: role.warps }, () => {
    ctx.role = role.name;
    ctx.solo = single;
    // What the role computes at its beginning stands inside it.
    ctx.restartInvariants();
    lowerStmts(ctx, role.body);
    ctx.role = null;
    ctx.solo = false;
  });
  ctx.body.label(end);
  syncWarp(ctx);
  ctx.restartInvariants();
}

function skipUnlessOurs(ctx: Context, role: Role, end: ReturnType<Context["entry"]["label"]>): void {
  const { body, entry } = ctx;
  const warp = uniformWarp(ctx);
  const skip = entry.reg("pred", "skip");
  const place = entry.reg("u32", "t");
  body.emit(null, "sub.u32", place, warp, imm(role.first));
  body.emit(null, "setp.ge.u32", skip, place, imm(role.warps));
  body.emit(skip, "bra", end);
  if (role.leader !== undefined && clusterSize(ctx.program) > 1) {
    const follows = entry.reg("pred", "skip");
    body.emit(null, "not.pred", follows, isLeader(ctx, role.leader));
    body.emit(follows, "bra", end);
  }
}

/** The warp's number by a shuffle, so that ptxas sees that it is the same in all lanes. */
function uniformWarp(ctx: Context): ReturnType<typeof ctx.values.warp> {
  return ctx.invariant("uniform warp", (code) => {
    const d = ctx.entry.reg("u32", "warp");
    code.emit(null, "shfl.sync.idx.b32", d, ctx.values.warp(), imm(0), imm(31), imm(0xffffffff));
    return d;
  });
}
