/** Bring C, and what steps of the epilogue read, into shared memory by bulk copies while the tile is multiplied. */
import { stepMatrix, upFactor, WARP } from "@tilewright/core";
import { lit, simplify, sub, substituteExpr } from "../tile/expr.ts";
import { stepInput } from "../tile/gemm.ts";
import { bufferOf, eachStmt, rewriteStmts, takeDirective, wholeView, withBody } from "../tile/rewrite.ts";
import type { Buffer, Edge, Epilogue, Expr, Ring, Role, Stmt, TileProgram, View } from "../tile/types.ts";
import type { Pass } from "./pass.ts";
import { halvesOf } from "./stageEpilogue.ts";

/** The shared tiles, of C and of steps by their position, their ring and the role that fills it where no other is to. */
const TILE = "sC";
const stepTile = (step: number): string => `sE${step}`;
const ADDEND = "addend";
const LOADER = "loader";

/** Bulk copies write shared memory at multiples of 128 bytes (PTX ISA, cp.async.bulk.tensor), and read global memory at multiples of 16. */
const BULK_ALIGN = 128;
const GLOBAL_ALIGN = 16;
/**
 * Directive `epilogueLoad way=tma steps=0|1 in=ROLE`: a role of one warp copies C's tile into a ring of one slot, from which the epilogue reads it: the copy runs while the tile is multiplied, and
 * the slot is free again when the epilogue has read all of it. With `steps=1` the matrices and vectors that steps read come with it, each in a tile of its own. With `in` that
 * role copies them behind all else that it copies for the tile, and the epilogue waits for them only when it begins. Edges are mbarriers: one arrival with the bytes of the block's own part, one of each warp of the
 * epilogue. Off, or with nothing to bring: the epilogue's threads load for themselves.
 */
export const loadSource: Pass = {
  name: "loadSource",
  summary: "C, and what steps read, come through shared memory, by bulk copies of a role",
  from: "specialised",
  to: "specialised",
  run(program) {
    const taken = takeDirective(program, "epilogueLoad");
    if (taken?.args.way !== "tma") return taken?.program ?? program;
    const input = taken.program;
    const role = eachStmt(input.body).find((s): s is Role => s.kind === "role" && epiloguesOf(s).length > 0);
    const [first] = role === undefined ? [] : epiloguesOf(role);
    if (role === undefined || first === undefined) return input;
    const brought = broughtBy(input, role, first, taken.args.steps === 1);
    const by = taken.args.in;
    return brought.length === 0 ? input : bring(input, role, brought, by);
  },
};

const epiloguesOf = (role: Role): readonly Epilogue[] =>
  eachStmt(role.body).filter((s): s is Epilogue => s.kind === "epilogue");

/** A matrix or vector, and the tile into which it comes. */
interface Brought {
  readonly tile: Buffer;
  readonly from: Buffer;
  /** The tile's place in it. */
  readonly origin: readonly [Expr, Expr];
  readonly guard: readonly [boolean, boolean];
  /** The step that reads it; null: it is C. */
  readonly step: number | null;
}

function broughtBy(program: TileProgram, role: Role, first: Epilogue, steps: boolean): readonly Brought[] {
  const sums = eachStmt(program.body).find((s) => s.kind === "mma");
  if (sums?.kind !== "mma") return [];
  // Parts count from the first: what is left of its place without its loop is the tile's.
  const starts = new Map<string, Expr>();
  for (const s of eachStmt(role.body)) if (s.kind === "for") starts.set(s.var, s.from);
  const [row, col] = first.dst.origin;
  const origin = [substituteExpr(row, starts), substituteExpr(col, starts)] as const;
  const tileOf = (name: string, from: Buffer, shape: readonly [number, number]): Buffer => ({
    name,
    space: "shared",
    dtype: from.dtype,
    shape,
    slots: 1,
    layout: null,
    own: null,
    align: BULK_ALIGN,
    ...halvesOf(program, first),
  });
  const out: Brought[] = [];
  if (first.c !== null) {
    const from = bufferOf(program, first.c.buffer);
    const tile = tileOf(TILE, from, sums.acc.extent);
    out.push({ tile, from, origin, guard: first.guard, step: null });
  }
  for (const [step] of steps ? first.steps.entries() : []) {
    const matrix = stepMatrix(program.problem, step);
    if (matrix === null || step === upFactor(program.problem)) continue;
    // A vector has one row, or one column, for all tiles.
    const { across } = matrix;
    const from = stepInput(program.problem, step, GLOBAL_ALIGN);
    const alone = (axis: 0 | 1): boolean => axis === across;
    const extent = sums.acc.extent;
    out.push({
      tile: tileOf(stepTile(step), from, [alone(0) ? 1 : extent[0], alone(1) ? 1 : extent[1]]),
      from,
      origin: [alone(0) ? lit(0) : origin[0], alone(1) ? lit(0) : origin[1]],
      guard: [!alone(0) && first.guard[0], !alone(1) && first.guard[1]],
      step,
    });
  }
  return out;
}

/** The part of a tile that belongs to a part of D. */
function inTile({ tile, origin }: Brought, { origin: [row, col], extent }: View): View {
  const [rows, cols] = tile.shape;
  return {
    buffer: tile.name,
    slot: lit(0),
    origin: [
      rows === 1 ? lit(0) : simplify(sub(row, origin[0])),
      cols === 1 ? lit(0) : simplify(sub(col, origin[1])),
    ],
    extent: [Math.min(rows, extent[0]), Math.min(cols, extent[1])],
  };
}

function bring(program: TileProgram, role: Role, brought: readonly Brought[], by: string): TileProgram {
  const event = (kind: "acquire" | "commit" | "release"): Stmt => ({ kind, ring: ADDEND, at: lit(0) });
  const wait: Stmt = { kind: "wait", ring: ADDEND, at: lit(0), pending: 0 };
  const reads = rewriteStmts(role.body, (s): Stmt => (s.kind === "epilogue" ? reading(s, brought) : s));
  const stores = (s: Stmt): boolean => eachStmt([s]).some(({ kind }) => kind === "epilogue");
  const fill: readonly Stmt[] = [
    event("acquire"),
    ...brought.map(
      ({ tile, from, origin, guard }): Stmt => ({
        kind: "copy",
        dst: wholeView(tile),
        src: { buffer: from.name, slot: lit(0), origin, extent: tile.shape },
        transport: "tma",
        guard,
        when: null,
        dist: null,
        vector: [1, 1],
        multicast: null,
      }),
    ),
    event("commit"),
  ];
  const own = by === LOADER;
  const reader: Role = {
    ...role,
    body: own
      ? [wait, ...reads, event("release")]
      : reads.flatMap((s) => (stores(s) ? [wait, s, event("release")] : [s])),
  };
  const loader: Role = {
    kind: "role",
    name: LOADER,
    first: program.launch.threads / WARP,
    warps: 1,
    registers: null,
    body: fill,
  };
  const ring: Ring = {
    name: ADDEND,
    slots: 1,
    buffers: brought.map(({ tile }) => tile.name),
    transport: "tma",
    full: arrivals(1),
    empty: arrivals(role.warps),
  };
  const body = rewriteStmts(program.body, (stmt) => {
    if (stmt.kind !== "tiles" || !stmt.body.includes(role)) return stmt;
    const roles = stmt.body.map((s): Stmt => {
      if (s === role) return reader;
      return s.kind === "role" && s.name === by ? { ...s, body: [...s.body, ...fill] } : s;
    });
    return { ...stmt, body: own ? [...roles, loader] : roles };
  });
  const known = new Set(program.buffers.map(({ name }) => name));
  return {
    ...withBody(program, body),
    launch: { ...program.launch, threads: program.launch.threads + (own ? WARP : 0) },
    buffers: [
      ...program.buffers,
      ...brought.flatMap(({ tile, from }) => (known.has(from.name) ? [tile] : [from, tile])),
    ],
    rings: [...program.rings, ring],
  };
}

/** The epilogue with tiles in the places of matrices and vectors. */
function reading(stmt: Epilogue, brought: readonly Brought[]): Epilogue {
  const c = brought.find(({ step }) => step === null);
  const inputs = brought.flatMap((one) =>
    one.step === null ? [] : [{ step: one.step, view: inTile(one, stmt.dst) }],
  );
  return {
    ...stmt,
    c: stmt.c === null || c === undefined ? stmt.c : inTile(c, stmt.c),
    ...(inputs.length === 0 ? {} : { inputs }),
  };
}

const arrivals = (count: number): Edge => ({ kind: "mbarrier", arrivals: count });
