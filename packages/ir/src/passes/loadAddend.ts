/** Give C a role of its own: bulk copies bring a tile of it into shared memory while the tile is multiplied. */
import { lit, simplify, sub, substituteExpr } from "../tile/expr.ts";
import {
  bufferOf,
  eachStmt,
  rewriteStmts,
  takeDirective,
  wholeView,
  withBody,
  wordArg,
} from "../tile/rewrite.ts";
import type { Buffer, Edge, Expr, Ring, Stmt, TileProgram, View } from "../tile/types.ts";
import type { Pass } from "./pass.ts";
import { halvesOf } from "./stageEpilogue.ts";

type Role = Extract<Stmt, { kind: "role" }>;
type Epilogue = Extract<Stmt, { kind: "epilogue" }>;

/** The shared tile, its ring and the role that fills it. */
const TILE = "sC";
const ADDEND = "addend";
const LOADER = "loader";

/** Bulk copies write shared memory at multiples of 128 bytes (PTX ISA, cp.async.bulk.tensor). */
const BULK_ALIGN = 128;
/** Lanes of a warp. */
const WARP = 32;

/**
 * Directive `addend way=tma`: a role of one warp copies C's tile into a ring of one slot, from which the epilogue reads it: the copy runs while the tile is multiplied, and
 * the slot is free again when the epilogue has read all of it. Edges are mbarriers: one arrival with the bytes of the block's own part, one of each warp of the
 * epilogue. Off, or without C: the epilogue's threads load C themselves.
 */
export const loadAddend: Pass = {
  name: "loadAddend",
  summary: "C comes through shared memory, by bulk copies of a role of its own",
  from: "specialised",
  to: "specialised",
  run(program) {
    const taken = takeDirective(program, "addend");
    if (!taken || wordArg(taken.args, "way", "direct") !== "tma") return taken?.program ?? program;
    const input = taken.program;
    const role = [...eachStmt(input.body)].find(
      (s): s is Role => s.kind === "role" && epiloguesOf(s).some(({ c }) => c !== null),
    );
    return role === undefined ? input : bringAddend(input, role);
  },
};

const epiloguesOf = (role: Role): readonly Epilogue[] =>
  [...eachStmt(role.body)].filter((s): s is Epilogue => s.kind === "epilogue");

function bringAddend(program: TileProgram, role: Role): TileProgram {
  const epilogues = epiloguesOf(role);
  const [first] = epilogues;
  const c = first?.c ?? null;
  const sums = [...eachStmt(program.body)].find((s) => s.kind === "mma");
  if (first === undefined || c === null || sums?.kind !== "mma") return program;
  const extent = sums.acc.extent;
  // Parts count from the first: what is left of its place without its loop is the tile's.
  const starts = new Map<string, Expr>();
  for (const s of eachStmt(role.body)) if (s.kind === "for") starts.set(s.var, s.from);
  const [row, col] = c.origin;
  const origin = [substituteExpr(row, starts), substituteExpr(col, starts)] as const;
  const tile: Buffer = {
    name: TILE,
    space: "shared",
    dtype: bufferOf(program, c.buffer).dtype,
    shape: extent,
    slots: 1,
    layout: null,
    own: null,
    align: BULK_ALIGN,
    ...halvesOf(program, first),
  };
  const inTile = (view: View): View => ({
    buffer: TILE,
    slot: lit(0),
    origin: [simplify(sub(view.origin[0], origin[0])), simplify(sub(view.origin[1], origin[1]))],
    extent: view.extent,
  });
  const event = (kind: "acquire" | "commit" | "release"): Stmt => ({ kind, ring: ADDEND, at: lit(0) });
  const reader: Role = {
    ...role,
    body: [
      { kind: "wait", ring: ADDEND, at: lit(0), pending: 0 },
      ...rewriteStmts(
        role.body,
        (s): Stmt => (s.kind === "epilogue" && s.c !== null ? { ...s, c: inTile(s.c) } : s),
      ),
      event("release"),
    ],
  };
  const loader: Role = {
    kind: "role",
    name: LOADER,
    first: program.launch.threads / WARP,
    warps: 1,
    registers: null,
    body: [
      event("acquire"),
      {
        kind: "copy",
        dst: wholeView(tile),
        src: { buffer: c.buffer, slot: lit(0), origin, extent },
        transport: "tma",
        guard: first.guard,
        when: null,
        dist: null,
        vector: [1, 1],
        multicast: null,
      },
      event("commit"),
    ],
  };
  const ring: Ring = {
    name: ADDEND,
    slots: 1,
    buffers: [TILE],
    transport: "tma",
    full: arrivals(1),
    empty: arrivals(role.warps),
  };
  const body = rewriteStmts(program.body, (stmt) => {
    if (stmt.kind !== "tiles" || !stmt.body.includes(role)) return stmt;
    return { ...stmt, body: [...stmt.body.map((s) => (s === role ? reader : s)), loader] };
  });
  return {
    ...withBody(program, body),
    launch: { ...program.launch, threads: program.launch.threads + WARP },
    buffers: [...program.buffers, tile],
    rings: [...program.rings, ring],
  };
}

const arrivals = (count: number): Edge => ({ kind: "mbarrier", arrivals: count });
