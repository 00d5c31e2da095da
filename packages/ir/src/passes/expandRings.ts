/** Rings as what the machine has: barriers with phases, groups of copies, fences. */
import { gathersRows } from "../tile/launches/tensorMaps.ts";
import { behindPrologue, type PrologueChunk, prologueOf } from "../tile/prologue.ts";
import { bufferOf, eachStmt, rewriteStmts } from "../tile/rewrite.ts";
import type { Ring, Role, Stmt, TileProgram } from "../tile/types.ts";
import { blockRingStmts, readByEngines } from "./expandRings/blockRings.ts";
import { isOne } from "./expandRings/ringReaders.ts";
import { RoleRings } from "./expandRings/roleRings.ts";
import type { Pass } from "./pass.ts";

/** Throws where a role works on chunks in an order that no pipeline follows: in programs edited by hand only. */
export const expandRings: Pass = {
  name: "expandRings",
  summary: "Rings become barriers with phases, the pipelines of roles, groups of copies and fences",
  from: "bound",
  to: "machine",
  // Barriers have no places yet.
  unfinished: true,
  run(program) {
    // Maps of groups are made by the role itself.
    const lead = program.problem.batch.kind === "grouped" ? null : prologueOf(program);
    const body = drained(fenced(program, expand(program, program.body, lead)));
    return { ...program, stage: "machine", body };
  },
};

/** What threads compute and tensor engines read through the asynchronous proxy stands behind a fence, which they meet behind. */
const fenced = (program: TileProgram, stmts: readonly Stmt[]): readonly Stmt[] =>
  rewriteStmts(stmts, (stmt) =>
    stmt.kind === "map" &&
    bufferOf(program, stmt.dst.buffer).space === "shared" &&
    readByEngines(program, { buffers: [stmt.dst.buffer] })
      ? [stmt, { kind: "fence", what: "async" }]
      : stmt,
  );

/**
 * Who fills a ring whose slots other blocks of the cluster give back, or matrix instructions when they are done, stays until they have: an arrival on its way to a block that has ended is a fault
 * (CUDA_ERROR_LAUNCH_FAILED on an H200, where blocks only met by a relaxed arrival of `barrier.cluster`).
 */
function drained(stmts: readonly Stmt[]): readonly Stmt[] {
  const later = new Set(
    eachStmt(stmts).flatMap((s) =>
      (s.kind === "tcgen05.commit" || (s.kind === "mbar.arrive" && s.to !== "own")) &&
      s.barrier.edge === "empty"
        ? [s.barrier.ring]
        : [],
    ),
  );
  if (later.size === 0) return stmts;
  return rewriteStmts(stmts, (stmt) =>
    stmt.kind === "role" ? { ...stmt, body: [...stmt.body, ...drains(stmt.body, later)] } : stmt,
  );
}

/** For each pipeline that waits for slots of these rings; of the leader alone what the leader alone waits for. */
function drains(stmts: readonly Stmt[], rings: ReadonlySet<string>): readonly Stmt[] {
  const found = new Map<string, Stmt>();
  for (const stmt of eachStmt(stmts)) {
    const waits = (s: Stmt): s is Extract<Stmt, { kind: "mbar.wait" }> =>
      s.kind === "mbar.wait" && s.barrier.edge === "empty" && rings.has(s.barrier.ring);
    if (waits(stmt) && !found.has(stmt.barrier.pipeline))
      found.set(stmt.barrier.pipeline, { kind: "mbar.drain", barrier: stmt.barrier });
    if (stmt.kind === "leader")
      for (const { barrier } of stmt.body.filter(waits))
        found.set(barrier.pipeline, { ...stmt, body: [{ kind: "mbar.drain", barrier }] });
  }
  return [...found.values()];
}

/** Statements of the block. */
function expand(program: TileProgram, stmts: readonly Stmt[], lead: PrologueChunk | null): readonly Stmt[] {
  return stmts.flatMap((stmt): readonly Stmt[] => {
    if (stmt.kind === "role") return [expandRole(program, stmt, lead)];
    if ("body" in stmt) return [{ ...stmt, body: expand(program, stmt.body, lead) }];
    return "ring" in stmt ? blockRingStmts(program, ringOf(program, stmt.ring), stmt) : [stmt];
  });
}

function expandRole(program: TileProgram, role: Role, lead: PrologueChunk | null): Role {
  const leads = lead?.role === role;
  const rings = new RoleRings(program, role, leads ? { ring: lead.ring.name, chunks: 1 } : null);
  const body = rings.expand(leads ? behindPrologue(lead) : role.body);
  return {
    ...role,
    ...(isOne(program, role) ? { elected: true } : {}),
    ...(eachStmt(role.body).some((stmt) => stmt.kind === "copy" && gathersRows(program, stmt))
      ? { gathers: true }
      : {}),
    body: [...(leads ? [leading(program, lead)] : []), ...rings.pipelines(), ...body],
  };
}

/** The copies of the first chunk; the slot is free, and its empty barrier is not there yet. */
function leading(program: TileProgram, { role, loop }: PrologueChunk): Stmt {
  const rings = new RoleRings(program, role, null, "lead_");
  const [body] = rings.expand([{ ...loop, to: { kind: "const", value: 1 } }]);
  if (body?.kind !== "for") throw new RangeError("a chunk that leads is a turn of a loop");
  return {
    kind: "prologue",
    body: [...rings.pipelines(), { ...body, body: body.body.filter(({ kind }) => kind !== "mbar.wait") }],
  };
}

function ringOf(program: TileProgram, name: string): Ring {
  const ring = program.rings.find((r) => r.name === name);
  if (ring === undefined) throw new RangeError(`no ring %${name}`);
  return ring;
}
