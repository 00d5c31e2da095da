/** Faults planted systematically in the ring statements of a bound program whose threads meet at barriers: the verifiers report every one. */
import type { Target } from "@tilewright/core";
import {
  add,
  eachStmt,
  labelOf,
  lit,
  rewriteStmts,
  type Stmt,
  type TileProgram,
  type View,
  verifyChunkCounts,
  verifyProgram,
} from "@tilewright/ir";
import { type Fault, frameFaults, withRing, withStmt } from "./faults.ts";

const protocolKinds: readonly Stmt["kind"][] = [
  "acquire",
  "commit",
  "wait",
  "release",
  "request",
  "next",
  "copy",
  "mma",
];

/** Statements that take part in the protocol: events, and what touches a ring's buffers. */
function protocol(program: TileProgram): readonly Stmt[] {
  const managed = new Set(program.rings.flatMap((ring) => ring.buffers));
  const touches = (view: View): boolean => managed.has(view.buffer);
  return eachStmt(program.body).filter((stmt) => {
    if (!protocolKinds.includes(stmt.kind)) return false;
    if (stmt.kind === "copy") return touches(stmt.dst) || touches(stmt.src);
    return stmt.kind !== "mma" || touches(stmt.a) || touches(stmt.b);
  });
}

const slotAfter = (view: View): View => ({ ...view, slot: nextSlot(view.slot) });
const nextSlot = (slot: View["slot"]): View["slot"] =>
  slot.kind === "mod" ? { ...slot, lhs: add(slot.lhs, 1) } : slot;

/** Faults in the statements, edges and rings. */
function ringFaults(program: TileProgram): readonly Fault<TileProgram>[] {
  const out: Fault<TileProgram>[] = [];
  const put = (name: string, it: TileProgram): void => void out.push({ name, it });
  for (const [n, stmt] of protocol(program).entries()) {
    const name = `${labelOf(stmt)} (statement ${n})`;
    if (stmt.kind !== "mma" && stmt.kind !== "copy") {
      put(
        `without ${name}`,
        withStmt(program, stmt, (list, i) => list.toSpliced(i, 1)),
      );
      put(
        `${name} twice`,
        withStmt(program, stmt, (list, i) => list.toSpliced(i, 0, stmt)),
      );
    }
    if (stmt.kind === "copy" && program.rings.some((ring) => ring.buffers.includes(stmt.dst.buffer))) {
      put(
        `without ${name}`,
        withStmt(program, stmt, (list, i) => list.toSpliced(i, 1)),
      );
      put(
        `${name} twice`,
        withStmt(program, stmt, (list, i) => list.toSpliced(i, 0, stmt)),
      );
    }
    put(
      `${name} after what follows it`,
      withStmt(program, stmt, (list, i) => {
        const next = list[i + 1];
        return next === undefined ? list : list.toSpliced(i, 2, next, stmt);
      }),
    );
    if ("at" in stmt)
      put(
        `${name} of the chunk after`,
        withStmt(program, stmt, (list, i) => list.with(i, { ...stmt, at: add(stmt.at, 1) })),
      );
    if (stmt.kind === "mma") {
      put(
        `${name} with A of the slot after`,
        withStmt(program, stmt, (list, i) => list.with(i, { ...stmt, a: slotAfter(stmt.a) })),
      );
      put(
        `${name} with B of the slot after`,
        withStmt(program, stmt, (list, i) => list.with(i, { ...stmt, b: slotAfter(stmt.b) })),
      );
    }
    if (stmt.kind === "copy" && program.rings.some((ring) => ring.buffers.includes(stmt.dst.buffer))) {
      put(
        `${name} into the slot after`,
        withStmt(program, stmt, (list, i) => list.with(i, { ...stmt, dst: slotAfter(stmt.dst) })),
      );
      const half = (view: View): View => ({ ...view, extent: [view.extent[0] / 2, view.extent[1]] });
      put(
        `${name}, half of it`,
        withStmt(program, stmt, (list, i) =>
          list.with(i, { ...stmt, dst: half(stmt.dst), src: half(stmt.src) }),
        ),
      );
      if (stmt.multicast !== null)
        put(
          `${name} without multicast`,
          withStmt(program, stmt, (list, i) => list.with(i, { ...stmt, multicast: null })),
        );
    }
  }
  for (const [name, it] of frameFaults(program, (stmt) => "at" in stmt)) put(name, it);
  for (const ring of program.rings)
    put(
      `%${ring.name} with ${ring.slots + 1} slots and tiles with ${ring.slots}`,
      withRing(program, ring, { slots: ring.slots + 1 }),
    );
  // Rings that begin anew with every tile.
  const restarted = rewriteStmts(program.body, (stmt) =>
    stmt.kind === "acquire" || stmt.kind === "commit" || stmt.kind === "wait" || stmt.kind === "release"
      ? { ...stmt, at: withoutVisits(stmt.at) }
      : stmt,
  );
  if (JSON.stringify(restarted) !== JSON.stringify(program.body))
    put("chunks numbered from 0 in every tile", { ...program, body: restarted });
  return out.filter(({ it }) => JSON.stringify(it) !== JSON.stringify(program));
}

type Expr = View["slot"];
/** `%vt * N + t` as `t`. */
const withoutVisits = (e: Expr): Expr =>
  e.kind === "add"
    ? add(withoutVisits(e.lhs), withoutVisits(e.rhs))
    : e.kind === "mul" && e.lhs.kind === "var" && e.lhs.name === "vt"
      ? lit(0)
      : e.kind === "var" && e.name === "vt"
        ? lit(0)
        : e;

/** Plant every fault in a program that has none; the names of those that nothing reports. */
export function plantRings(
  program: TileProgram,
  target: Target,
): { readonly count: number; readonly unseen: readonly string[] } {
  const list = ringFaults(program);
  const unseen = list.flatMap(({ name, it }) =>
    verifyProgram(it, target).length + verifyChunkCounts(it).length === 0 ? [name] : [],
  );
  return { count: list.length, unseen };
}
