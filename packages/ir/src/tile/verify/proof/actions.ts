/** The actions that the statements of roles stand for. */
import { dtypes } from "../../../dtype.ts";
import { transactionBytes } from "../../../launch/tensor-copies.ts";
import { takesColumn } from "../../columns.ts";
import { add, mod } from "../../expr.ts";
import { feedsEpilogue, ownBytes } from "../../operandRings.ts";
import { clusterUnits, eachStmt } from "../../rewrite.ts";
import { operandViews } from "../../scaleTiles.ts";
import { holdsAnswers, isSolo } from "../../solo.ts";
import { fillsOnce, storesInBulk } from "../../staged.ts";
import { broughtViews } from "../../stepViews.ts";
import type { Expr, Ring, Stmt, TileProgram, View } from "../../types.ts";
import type { Action, Reach } from "./plan.ts";

type Role = Extract<Stmt, { kind: "role" }>;
type Copy = Extract<Stmt, { kind: "copy" }>;

/** Threads of a warp, each of which arrives for its own copies. */
const WARP = 32;
/** Warps of a warpgroup, which arrives once. */
const WARPGROUP = 4;
/** Bytes of an answer of the launch control (PTX ISA, clusterlaunchcontrol.try_cancel). */
const ANSWER_BYTES = 16;

/** What the actions of a program are made with. */
export interface Context {
  readonly program: TileProgram;
  readonly pair: boolean;
  readonly ringOf: ReadonlyMap<string, Ring>;
  readonly rings: ReadonlyMap<string, Ring>;
}

/** The chunk that a view of a ring's buffer is in, as its slot says; null where there is one slot only. */
const chunkOf = (view: View): Expr | null => (view.slot.kind === "mod" ? view.slot.lhs : null);

/** What a statement of a role stands for. */
export function actionsOf(ctx: Context, role: Role, stmt: Stmt, within: readonly Stmt[]): readonly Action[] {
  switch (stmt.kind) {
    case "acquire":
      return asked(ctx, stmt, [mark(stmt), ...acquire(ctx, stmt)]);
    case "commit":
      return asked(ctx, stmt, [...commit(ctx, role, stmt), mark(stmt)]);
    case "wait":
      return [
        mark(stmt),
        { stmt, lanes: "warps", kind: "wait", edge: "full", lag: 0, ring: stmt.ring, at: stmt.at },
        ...fenceAfter(ctx, stmt, role),
      ];
    case "release":
      return [...release(ctx, role, stmt), mark(stmt)];
    case "copy":
      return copy(ctx, stmt, within);
    case "mma":
      return multiply(ctx, stmt, stmt.acc, operandViews(stmt));
    case "fill":
      // The first matrix instruction of a tile overwrites: to the protocol that is a write like any other.
      return isTensor(ctx, stmt.dst.buffer) ? multiply(ctx, stmt, stmt.dst, []) : [];
    case "fetch": {
      const on = { stmt, ring: stmt.ring, at: stmt.at, lanes: "one" } as const;
      const reach: Reach = "cluster";
      if (ctx.rings.get(stmt.ring)?.transport === "atomic")
        return asked(ctx, stmt, [{ ...on, kind: "put", reach }]);
      return asked(ctx, stmt, [
        { ...on, kind: "expect", bytes: ANSWER_BYTES, reach },
        { ...on, kind: "copy", bytes: ANSWER_BYTES, reach, signal: "destination" },
      ]);
    }
    case "next":
      return [
        {
          stmt,
          lanes: "warps",
          kind: "read",
          proxy: "generic",
          pending: false,
          ring: stmt.ring,
          at: stmt.at,
        },
        ...(ctx.rings.get(stmt.ring)?.transport === "clc"
          ? [{ stmt, lanes: "warps", kind: "fence", what: "async" } as const]
          : []),
      ];
    case "epilogue":
      return [
        ...(isLoaded(ctx, stmt.acc.buffer) ? [{ stmt, lanes: "warps", kind: "use" } as const] : []),
        ...addend(ctx, stmt),
        ...(stmt.via === null ? [] : staged(ctx, stmt, stmt.via)),
      ];
    default:
      return [];
  }
}

/** What concerns a ring of answers is done by the cluster's leading block. */
function asked(
  ctx: Context,
  stmt: Extract<Stmt, { kind: "acquire" | "commit" | "fetch" }>,
  actions: readonly Action[],
): readonly Action[] {
  if (!isAnswers(ctx, stmt.ring)) return actions;
  return actions.map((action) => ({ ...action, leader: "cluster" }));
}

/** C and what steps read from a ring's slot: one read of the slot, of however many tiles. */
function addend({ ringOf }: Context, stmt: Extract<Stmt, { kind: "epilogue" }>): readonly Action[] {
  const read = new Map<string, Action>();
  for (const view of broughtViews(stmt)) {
    const ring = ringOf.get(view.buffer);
    if (ring === undefined || read.has(ring.name)) continue;
    const on = { ring: ring.name, at: chunkOf(view) };
    read.set(ring.name, { stmt, lanes: "warps", kind: "read", proxy: "generic", pending: false, ...on });
  }
  return [...read.values()];
}

const mark = (stmt: Extract<Stmt, { kind: "acquire" | "commit" | "wait" | "release" }>): Action => ({
  stmt,
  lanes: "warps",
  kind: "mark",
  event: stmt.kind,
  ring: stmt.ring,
  at: stmt.at,
});

const usesTensorMemory = (ctx: Context, role: Role): boolean =>
  eachStmt(role.body).some(
    (s) =>
      (s.kind === "mma" && isTensor(ctx, s.acc.buffer)) || (s.kind === "copy" && isTensor(ctx, s.src.buffer)),
  );

const isTensor = ({ program }: Context, buffer: string): boolean =>
  program.buffers.some(({ name, space }) => name === buffer && space === "tensor");

/** Whether a register tile is loaded from tensor memory. */
const isLoaded = (ctx: Context, buffer: string): boolean =>
  eachStmt(ctx.program.body).some(
    (s) => s.kind === "copy" && s.dst.buffer === buffer && isTensor(ctx, s.src.buffer),
  );

const isAnswers = (ctx: Context, name: string): boolean => {
  const ring = ctx.rings.get(name);
  return ring !== undefined && holdsAnswers(ring);
};

/** What comes behind a wait of a role that then touches tensor memory, or shared memory that matrix instructions read. */
function fenceAfter(ctx: Context, stmt: Extract<Stmt, { kind: "wait" }>, role: Role): readonly Action[] {
  const ring = ctx.rings.get(stmt.ring);
  const other = isAnswers(ctx, stmt.ring) || (ring !== undefined && feedsEpilogue(ctx.program, ring));
  if (usesTensorMemory(ctx, role) && !other)
    return [{ stmt, lanes: "warps", kind: "fence", what: "tensor after" }];
  // What threads have copied is not there for the proxy through which matrix instructions read shared memory.
  return ring?.transport === "cp.async" && multiplies(ctx, role, ring)
    ? [{ stmt, lanes: "warps", kind: "fence", what: "async" }]
    : [];
}

/** Whether matrix instructions of a role read slots of a ring. */
const multiplies = (ctx: Context, role: Role, ring: Ring): boolean =>
  eachStmt(role.body).some(
    (s) => s.kind === "mma" && operandViews(s).some(({ buffer }) => ctx.ringOf.get(buffer) === ring),
  );

function acquire(ctx: Context, stmt: Extract<Stmt, { kind: "acquire" }>): readonly Action[] {
  const ring = ctx.rings.get(stmt.ring);
  const on = { stmt, ring: stmt.ring, at: stmt.at } as const;
  const free: Action = { ...on, lanes: "warps", kind: "wait", edge: "empty", lag: 1 };
  if (ring?.transport === "tcgen05.mma")
    return [free, { stmt, lanes: "warps", kind: "fence", what: "tensor after" }];
  if (ring?.transport !== "tma") return [free];
  // Each block reads its own part of C.
  if (feedsEpilogue(ctx.program, ring))
    return [free, { ...on, lanes: "one", kind: "expect", bytes: ownBytes(ctx.program, ring), reach: "own" }];
  // Of a pair the leader expects the bytes of both blocks.
  const bytes = transactionBytes(ctx.program, ring);
  return [free, { ...on, lanes: "one", leader: "pair", kind: "expect", bytes, reach: "own" }];
}

function commit(ctx: Context, role: Role, stmt: Extract<Stmt, { kind: "commit" }>): readonly Action[] {
  const ring = ctx.rings.get(stmt.ring);
  const on = { stmt, ring: stmt.ring, at: stmt.at, lanes: "one", edge: "full", count: 1 } as const;
  switch (ring?.transport) {
    case "tcgen05.mma":
      return [{ ...on, kind: "commit", reach: ctx.pair ? "pair" : "own", group: ctx.pair ? 2 : 1 }];
    case "tma":
    case "clc":
      return [];
    case "atomic":
      return [{ ...on, kind: "arrive", reach: "cluster" }];
    default: {
      const count = ring?.transport === "cp.async" ? role.warps * WARP : 1;
      return [{ ...on, kind: "arrive", reach: "own", count }];
    }
  }
}

function release(ctx: Context, role: Role, stmt: Extract<Stmt, { kind: "release" }>): readonly Action[] {
  const ring = ctx.rings.get(stmt.ring);
  const on = { stmt, ring: stmt.ring, at: stmt.at, edge: "empty" } as const;
  const stmts = eachStmt(role.body);
  const reads = (space: "tensor" | "register"): boolean =>
    stmts.some(
      (s) =>
        s.kind === "mma" &&
        isTensor(ctx, s.acc.buffer) === (space === "tensor") &&
        [s.a.buffer, s.b.buffer].some((b) => ctx.ringOf.get(b) === ring),
    );
  if (reads("tensor"))
    return [
      {
        ...on,
        lanes: "one",
        kind: "commit",
        count: 1,
        reach: "peers",
        group: ctx.pair ? 2 : 1,
      },
    ];
  if (ring?.transport === "tcgen05.mma")
    return [
      { stmt, lanes: "warps", kind: "fence", what: "tensor before" },
      { ...on, lanes: "one", kind: "arrive", count: role.warps, reach: "leader" },
    ];
  if (stmts.some((s) => s.kind === "next" && s.ring === stmt.ring)) {
    const count = isSolo(ctx.program, role.body) ? 1 : role.warps;
    const answered: Action = { ...on, lanes: "one", kind: "arrive", count, reach: "first" };
    // Columns that accumulators do not share are loaded behind the accumulators' own release.
    return loadsLapped(ctx, stmts)
      ? [{ stmt, lanes: "warps", kind: "fence", what: "tensor before" }, answered]
      : [answered];
  }
  if (ring !== undefined && feedsEpilogue(ctx.program, ring))
    return [{ ...on, lanes: "one", kind: "arrive", count: role.warps, reach: "own" }];
  const count = Math.max(1, Math.ceil(role.warps / WARPGROUP));
  const arrive: Action = { ...on, lanes: "one", kind: "arrive", count, reach: "peers" };
  // Matrix instructions that accumulate in registers are waited for by their warps.
  return reads("register")
    ? [{ stmt, lanes: "warps", kind: "drain", ring: stmt.ring, at: stmt.at }, arrive]
    : [arrive];
}

/** Bytes of a view that come to one block: a pair's halves go one to each. */
function bytesOf(ctx: Context, view: View): number {
  const buffer = ctx.program.buffers.find(({ name }) => name === view.buffer);
  if (buffer === undefined) return 0;
  const halves = buffer.halves === undefined ? 1 : 2;
  return (view.extent[0] * view.extent[1] * dtypes[buffer.dtype].bits) / 8 / halves;
}

function copy(ctx: Context, stmt: Copy, _within: readonly Stmt[]): readonly Action[] {
  const into = ctx.ringOf.get(stmt.dst.buffer);
  const from = ctx.ringOf.get(stmt.src.buffer);
  // Its arrival comes when it is complete: as if the threads had written the slot before they arrive.
  if (into?.transport === "cp.async") {
    const on = { stmt, lanes: "warps", ring: into.name, at: chunkOf(stmt.dst) } as const;
    return [{ ...on, kind: "put", reach: "own", bytes: bytesOf(ctx, stmt.dst) }];
  }
  if (into !== undefined) {
    const [m, n] = clusterUnits(ctx.program.launch);
    const peers = stmt.multicast === null ? 1 : stmt.multicast === "m" ? m : n;
    const bytes = bytesOf(ctx, stmt.dst) / peers;
    const on = { stmt, lanes: "one", ring: into.name, at: chunkOf(stmt.dst) } as const;
    return [
      {
        ...on,
        kind: "copy",
        bytes,
        reach: stmt.multicast ?? "own",
        signal: ctx.pair && !feedsEpilogue(ctx.program, into) ? "leader" : "destination",
      },
    ];
  }
  if (from === undefined) return [];
  if (stmt.transport === "tcgen05.cp") {
    const operands = [{ ring: from.name, at: chunkOf(stmt.src) }];
    return [{ stmt, lanes: "one", kind: "factors", operands, group: ctx.pair ? 2 : 1 }];
  }
  const tensor = isTensor(ctx, stmt.src.buffer);
  const on = { stmt, lanes: "warps", ring: from.name, at: chunkOf(stmt.src) } as const;
  return [
    {
      ...on,
      kind: "read",
      proxy: tensor ? "tensor" : "generic",
      pending: tensor,
      ...(from.lap === undefined ? {} : { columns: columnsOf(ctx, stmt.src) }),
    },
    ...(tensor ? [{ stmt, lanes: "warps", kind: "loaded" } as const] : []),
  ];
}

/** Whether accumulators that share columns are loaded. */
const loadsLapped = ({ ringOf }: Context, stmts: readonly Stmt[]): boolean =>
  stmts.some((s) => s.kind === "copy" && ringOf.get(s.src.buffer)?.lap !== undefined);

/** Columns of tensor memory of a view, from the first of its slot. */
function columnsOf({ program }: Context, view: View): { readonly from: Expr; readonly count: number } {
  const tile = program.buffers.find(({ name }) => name === view.buffer);
  const across = tile?.lanes === 1 ? 0 : 1;
  return { from: view.origin[across], count: view.extent[across] };
}

function multiply(ctx: Context, stmt: Stmt, acc: View, from: readonly View[]): readonly Action[] {
  const operands = from.flatMap((view) => {
    const ring = ctx.ringOf.get(view.buffer);
    return ring === undefined ? [] : [{ ring: ring.name, at: chunkOf(view) }];
  });
  const sums = ctx.ringOf.get(acc.buffer);
  if (operands.length === 0 && sums === undefined) return [];
  return [
    {
      stmt,
      lanes: sums === undefined ? "warps" : "one",
      kind: "multiply",
      operands,
      sums: sums === undefined ? null : { ring: sums.name, at: chunkOf(acc) },
      group: ctx.pair ? 2 : 1,
    },
  ];
}

/** D's columns go through the tile a few at a time, by turns through its slots. */
function staged(ctx: Context, stmt: Extract<Stmt, { kind: "epilogue" }>, via: View): readonly Action[] {
  const tile = ctx.program.buffers.find(({ name }) => name === via.buffer);
  // A warp stores what it has put there itself. Where the rings have been all warps meet first.
  if (!storesInBulk(stmt)) return tile?.late === true ? [{ stmt, lanes: "warps", kind: "gather" }] : [];
  const [width, slots] = [tile?.shape[1] ?? stmt.acc.extent[1], tile?.slots ?? 1];
  const passes = Math.max(1, Math.floor(stmt.acc.extent[1] / width));
  const all = { stmt, lanes: "warps" } as const;
  const fresh = tile !== undefined && fillsOnce(ctx.program, tile) ? slots : 0;
  // Of one of the warpgroups side by side a pass has these columns of its own.
  const each = stmt.columns === undefined ? 0 : stmt.columns.of / passes;
  return Array.from({ length: passes }, (_, pass): readonly Action[] => {
    if (!takesColumn(stmt.columns, pass * each)) return [];
    const into = { buffer: via.buffer, slot: mod(add(via.slot, pass), slots) };
    const before: readonly Action[] = [
      { ...all, kind: "stored", pending: slots - 1 },
      { ...all, kind: "gather" },
    ];
    return [
      ...(pass < fresh ? [] : before),
      { ...all, kind: "stage", ...into },
      { ...all, kind: "fence", what: "async" },
      { ...all, kind: "gather" },
      { stmt, lanes: "one", kind: "store", ...into },
    ];
  }).flat();
}
