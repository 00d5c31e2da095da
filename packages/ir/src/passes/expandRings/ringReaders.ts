/** Who reads the slots of a ring, and when it releases them. */
import { isElected } from "../../tile/elected.ts";
import { asLinear, sub } from "../../tile/expr.ts";
import { eachStmt } from "../../tile/rewrite.ts";
import { substituteStmt } from "../../tile/streamK.ts";
import type { Ring, Role, Stmt, TileProgram } from "../../tile/types.ts";
import { readsOf } from "../../tile/views.ts";

/** Whether slots of a ring are released behind the wait for a later chunk (delayed release), anywhere in the program: all roles then keep to it. */
export function delaysRelease(program: TileProgram, ring: Ring): boolean {
  return eachStmt(program.body).some((loop) => {
    if (loop.kind !== "for") return false;
    const events = inTurn(loop.body);
    const waits = events.flatMap((s) => (s.kind === "wait" && s.ring === ring.name ? [s] : []));
    return events.some(
      (s) =>
        s.kind === "release" &&
        s.ring === ring.name &&
        waits.some((w) => asLinear(sub(w.at, s.at))?.constant === 1),
    );
  });
}

/** Statements of a turn, with those of loops that take one turn themselves. */
const inTurn = (stmts: readonly Stmt[]): readonly Stmt[] =>
  stmts.flatMap((stmt): readonly Stmt[] => {
    if (stmt.kind !== "for" || stmt.from.kind !== "const" || stmt.to.kind !== "const") return [stmt];
    if (stmt.within !== undefined || stmt.to.value - stmt.from.value !== 1) return [stmt];
    const value = new Map([[stmt.var, stmt.from]]);
    return inTurn(stmt.body).map((each) => substituteStmt(each, value));
  });

/** Axes along which blocks of the cluster share the copies into a ring. */
export function sharedAxes(program: TileProgram, ring: Ring): ReadonlySet<"m" | "n"> {
  const axes = new Set<"m" | "n">();
  for (const s of eachStmt(program.body))
    if (s.kind === "copy" && s.multicast !== null && ring.buffers.includes(s.dst.buffer))
      axes.add(s.multicast);
  return axes;
}

/** Whether threads load from a ring's slots, where the others are read by matrix instructions, which have ended when a slot is released. */
export function loadedByThreads(program: TileProgram, ring: Ring): boolean {
  return eachStmt(program.body).some((s) => s.kind === "copy" && ring.buffers.includes(s.src.buffer));
}

export function readByTensorCores(program: TileProgram, ring: Ring): boolean {
  return eachStmt(program.body).some(
    (s) =>
      s.kind === "mma" &&
      isTensor(program, s.acc.buffer) &&
      readsOf(s).some(({ buffer }) => ring.buffers.includes(buffer)),
  );
}

function isTensor(program: TileProgram, name: string): boolean {
  return program.buffers.some((b) => b.name === name && b.space === "tensor");
}

export function usesTensorMemory(program: TileProgram): boolean {
  return program.buffers.some(({ space }) => space === "tensor");
}

/** Whether one thread runs a role: what it does is issued by one, or it has one warp beside tensor memory. */
export const isOne = (program: TileProgram, role: Role): boolean =>
  isElected(program, role.body) ||
  (role.warps === 1 && program.buffers.some(({ space }) => space === "tensor"));
