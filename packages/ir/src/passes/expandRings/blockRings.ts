/** Rings whose edges are barriers of all threads: copies through registers, and groups of cp.async. */
import { eachStmt } from "../../tile/rewrite.ts";
import type { Edge, Ring, Stmt, TileProgram } from "../../tile/types.ts";

type RingEvent = Extract<Stmt, { readonly ring: string }>;

/** The block meets at an edge; nothing where other edges imply it. */
const meet = (edge: Edge | null): readonly Stmt[] =>
  edge?.kind === "barrier" ? [{ kind: "barrier", id: edge.id }] : [];

/** Whether matrix instructions read the ring's tiles where they lie, through the asynchronous proxy. */
export const readByEngines = ({ body }: TileProgram, { buffers }: Pick<Ring, "buffers">): boolean =>
  eachStmt(body).some(
    (s) => s.kind === "mma" && (buffers.includes(s.a.buffer) || buffers.includes(s.b.buffer)),
  );

/** What a statement of such a ring stands for. Threads that store a tile show it to the asynchronous proxy before the others may multiply it. */
export function blockRingStmts(program: TileProgram, ring: Ring, stmt: RingEvent): readonly Stmt[] {
  const groups = ring.transport === "cp.async";
  switch (stmt.kind) {
    case "acquire":
      return meet(ring.empty);
    case "commit":
      return [
        ...(groups ? [{ kind: "cp.async.commit" } as const] : []),
        ...(!groups && readByEngines(program, ring) ? [{ kind: "fence", what: "async" } as const] : []),
      ];
    case "wait":
      return [
        ...(groups ? [{ kind: "cp.async.wait", pending: stmt.pending } as const] : []),
        ...meet(ring.full),
      ];
    case "release":
      return [];
    default:
      throw new RangeError(`${stmt.kind} of %${ring.name}, which no role fills`);
  }
}
