/** Give copying and multiplying to different warps: one role fills the ring, the other empties it. */
import { WARP } from "@tilewright/core";
import { childrenOf, eachStmt, takeDirective, withBody } from "../tile/rewrite.ts";
import type { Edge, Ring, Stmt, TileProgram, Tiles, Transport } from "../tile/types.ts";
import { bindEdges } from "./bindEdges.ts";
import { syncAtTiles } from "./handOverTiles.ts";
import type { Pass } from "./pass.ts";

/** Names of the roles. */
export const PRODUCER = "producer";
export const MATH = "math";

/**
 * Directive `roles producer=W math=M registersP=R registersM=R release=W`: M warps multiply (they come first), W warps behind them copy; budgets of
 * 0 (or none) leave the registers as launched. Of every statement list the producer keeps what fills rings (acquire, copies into their
 * buffers, commit), the math role all else; loops and conditions around go to both where both have something in them.
 *
 * The ring's edges become mbarriers. `full`: one arrival, that of the thread which issues the copies; with transport tma the bytes of the
 * chunk (`transactionBytes`) have to arrive too; with cp.async one of every thread that copies, with direct one of every warp. `empty`: one arrival of each `release` warps of the math role that have read the slot, a warpgroup unless told otherwise
 * (`multicastCopies` raises it where neighbours write into it). Without the directive one set of threads does everything, and the edges are those of `bindEdges`.
 */
export const specialiseRoles: Pass = {
  name: "specialiseRoles",
  summary: "Warps that copy and warps that multiply become roles; ring edges become mbarriers",
  from: "pipelined",
  to: "specialised",
  run(program, target) {
    const taken = takeDirective(program, "roles");
    if (!taken) return bindEdges.run(program, target);
    const input: TileProgram = { ...taken.program, stage: "specialised" };
    const { math, producer, registersM, registersP } = taken.args;
    const roles: Roles = {
      math,
      producer,
      registers: { math: registersM || null, producer: registersP || null },
    };
    const arrivals = Math.max(1, Math.ceil(math / taken.args.release));
    const body = input.body.map((stmt) => (stmt.kind === "tiles" ? specialise(input, stmt, roles) : stmt));
    return {
      ...syncAtTiles(withBody(input, body)),
      rings: input.rings.map((ring) => edgesOf(ring, roles.producer, arrivals)),
    };
  },
};

interface Roles {
  readonly math: number;
  readonly producer: number;
  readonly registers: { readonly math: number | null; readonly producer: number | null };
}

function edgesOf(ring: Ring, producers: number, arrivals: number): Ring {
  const fills: Readonly<Partial<Record<Transport, number>>> = {
    "cp.async": producers * WARP,
    direct: producers,
  };
  const full: Edge = { kind: "mbarrier", arrivals: fills[ring.transport] ?? 1 };
  const empty: Edge = { kind: "mbarrier", arrivals };
  return { ...ring, full: ring.full ?? full, empty: ring.empty ?? empty };
}

function specialise(program: TileProgram, tiles: Tiles, roles: Roles): Tiles {
  const filled = new Set(program.rings.flatMap((ring) => ring.buffers));
  const fills = (stmt: Stmt): boolean =>
    stmt.kind === "acquire" ||
    stmt.kind === "commit" ||
    (stmt.kind === "copy" && filled.has(stmt.dst.buffer));
  const role = (
    name: string,
    first: number,
    warps: number,
    registers: number | null,
    body: readonly Stmt[],
  ) => ({ kind: "role", name, first, warps, registers, body }) as const;
  return {
    ...tiles,
    body: [
      role(
        MATH,
        0,
        roles.math,
        roles.registers.math,
        onlyStmts(tiles.body, (s) => !fills(s)),
      ),
      role(PRODUCER, roles.math, roles.producer, roles.registers.producer, onlyStmts(tiles.body, fills)),
    ],
  };
}

/** The statements that `keep` names, with the loops and conditions around them; what is left empty goes. */
export function onlyStmts(stmts: readonly Stmt[], keep: (stmt: Stmt) => boolean): readonly Stmt[] {
  return stmts.flatMap((stmt): readonly Stmt[] => {
    if (stmt.kind !== "for" && stmt.kind !== "if") return keep(stmt) ? [stmt] : [];
    // A combine belongs to those who multiply, with all that is in it.
    const body = onlyStmts(childrenOf(stmt), keep);
    return body.length > 0 ? [{ ...stmt, body }] : [];
  });
}

/** The roles of a program, in the order of their warps; empty where all warps do everything. */
export const rolesOf = (program: TileProgram): readonly Extract<Stmt, { kind: "role" }>[] =>
  eachStmt(program.body)
    .filter((s): s is Extract<Stmt, { kind: "role" }> => s.kind === "role")
    .sort((a, b) => a.first - b.first);
