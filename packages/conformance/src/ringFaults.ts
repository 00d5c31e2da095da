/** Faults planted systematically in the ring statements of a bound program whose threads meet at barriers: the verifiers report every one. */
import type { Target } from "@tilewright/core";
import {
  add,
  labelOf,
  lit,
  rewriteStmts,
  type Stmt,
  type TileProgram,
  type View,
  verifyChunkCounts,
  verifyProgram,
} from "@tilewright/ir";
import {
  changesOf,
  type Fault,
  frameFaults,
  movedFaults,
  protocolStmts,
  withRing,
  withStmt,
} from "./faults.ts";

const protocolKinds: ReadonlySet<Stmt["kind"]> = new Set<Stmt["kind"]>([
  "acquire",
  "commit",
  "wait",
  "release",
  "request",
  "next",
  "copy",
  "mma",
]);

const slotAfter = (view: View): View => ({ ...view, slot: nextSlot(view.slot) });
const nextSlot = (slot: View["slot"]): View["slot"] =>
  slot.kind === "mod" ? { ...slot, lhs: add(slot.lhs, 1) } : slot;

/** Faults in the statements, edges and rings. */
function ringFaults(program: TileProgram): readonly Fault<TileProgram>[] {
  const out: Fault<TileProgram>[] = [];
  const put = (name: string, it: TileProgram): void => void out.push({ name, it });
  for (const [n, stmt] of protocolStmts(program, program.body, protocolKinds).entries()) {
    const name = `${labelOf(stmt)} (statement ${n})`;
    for (const [how, it] of movedFaults(program, stmt, new Set())) put(`${name}, ${how}`, it);
    const changes: readonly (readonly [how: string, to: Stmt])[] = [
      ...("at" in stmt ? [["of the chunk after", { ...stmt, at: add(stmt.at, 1) }] as const] : []),
      ...(stmt.kind === "mma"
        ? ([
            ["with A of the slot after", { ...stmt, a: slotAfter(stmt.a) }],
            ["with B of the slot after", { ...stmt, b: slotAfter(stmt.b) }],
          ] as const)
        : []),
      ...(stmt.kind === "copy" && changesOf(program, stmt).length > 0
        ? [["into the slot after", { ...stmt, dst: slotAfter(stmt.dst) }] as const]
        : []),
      ...(stmt.kind === "copy" ? changesOf(program, stmt) : []),
    ];
    for (const [how, to] of changes)
      put(
        `${name}, ${how}`,
        withStmt(program, stmt, (list, i) => list.with(i, to)),
      );
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
