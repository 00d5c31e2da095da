/** The plan of a bound program: its rings, its frame, and the steps of its roles, whose statements `actions.ts` reads. */
import { transactionBytes } from "../../../launch/tensor-copies.ts";
import { freeVars, lit, substituteExpr } from "../../expr.ts";
import { behindLead, type Lead, leadOf } from "../../lead.ts";
import { childrenOf, eachStmt } from "../../rewrite.ts";
import { shareOf } from "../../share.ts";
import { codeOrder } from "../../solo.ts";
import { storesInBulk } from "../../staged.ts";
import { tensorColumns, tensorPlace } from "../../tensor.ts";
import { answering, turnPoints } from "../../turns.ts";
import type { Ring, Stmt, TileProgram } from "../../types.ts";
import { withExprs } from "../../withExprs.ts";
import { chunkCount, chunkCuts, multipliesChunks } from "../chunks.ts";
import { actionsOf, type Context } from "./actions.ts";
import type { Action, Plan, PlanRing, PlanRole, Step } from "./plan.ts";

type Role = Extract<Stmt, { kind: "role" }>;

/**
 * Null for programs whose rings have no mbarriers between roles: there all threads of the block meet at barriers, which `ringProtocol` proves.
 */
export function planOf(program: TileProgram): Plan | null {
  const roles = eachStmt(program.body).filter((stmt): stmt is Role => stmt.kind === "role");
  const edges = program.rings.flatMap((ring) => [ring.full, ring.empty]);
  if (roles.length === 0 || edges.length === 0 || edges.some((edge) => edge?.kind !== "mbarrier"))
    return null;
  const pair = program.launch.pair === true;
  const ctx: Context = {
    program,
    pair,
    rings: new Map(program.rings.map((ring) => [ring.name, ring])),
    ringOf: new Map(program.rings.flatMap((ring) => ring.buffers.map((b) => [b, ring] as const))),
  };
  const { columns } = tensorColumns(program);
  const blocks = program.launch.cluster[0] * program.launch.cluster[1];
  const chunks = shareOf(program) === null ? (chunkCount(program) ?? 0) : null;
  const lead = leadOf(program);
  return {
    cluster: program.launch.cluster,
    pair,
    chunks,
    ...(chunks === null ? {} : { cuts: chunkCuts(program, chunks) }),
    rings: program.rings.map((ring) => ringPlan(ctx, ring)),
    roles: codeOrder(program, roles).map((role) =>
      rolePlan(ctx, role, role === lead?.role ? behindLead(lead) : role.body),
    ),
    begin: lead === null ? beginning(columns, pair) : leading(ctx, lead),
    end: ending(columns, pair, blocks, stages(program)),
    columns,
  };
}

const frame = { stmt: null, lanes: "warps" } as const;
const meet: Action = { ...frame, kind: "meet" };

/** Barriers are there, and tensor memory is, before any role begins. */
function beginning(columns: number, pair: boolean): readonly Action[] {
  const group = pair ? 2 : 1;
  const init: readonly Action[] = [
    { ...frame, kind: "init", lanes: "one" },
    { ...frame, kind: "fence", what: "init", lanes: "one" },
  ];
  if (columns === 0) return [...init, meet];
  return [
    ...init,
    meet,
    { ...frame, kind: "alloc", columns, group },
    { ...frame, kind: "relinquish", group },
    { ...frame, kind: "fence", what: "tensor before" },
    meet,
    { ...frame, kind: "fence", what: "tensor after" },
  ];
}

/** The copies of the first chunk stand between the barrier on which they arrive and all others; no tenant of its slot is waited for. */
function leading(ctx: Context, { role, ring, loop }: Lead): readonly Action[] {
  const init = (own: boolean): readonly Action[] => [
    { ...frame, kind: "init", lanes: "one", lead: { ring: ring.name, own } },
    { ...frame, kind: "fence", what: "init", lanes: "one" },
  ];
  const first = new Map([[loop.var, lit(0)]]);
  const copied = loop.body.flatMap((stmt) =>
    actionsOf(
      ctx,
      role,
      withExprs(stmt, (e) => substituteExpr(e, first)),
      [loop],
    ).filter(({ kind }) => kind !== "wait"),
  );
  return [...init(true), ...copied, ...init(false), meet];
}

/** All stores have read shared memory; all roles of all blocks have ended before tensor memory goes, or a block that others reach into. */
function ending(columns: number, pair: boolean, blocks: number, staged: boolean): readonly Action[] {
  const group = pair ? 2 : 1;
  const stored: readonly Action[] = staged ? [{ ...frame, kind: "stored", pending: 0 }] : [];
  const last: readonly Action[] = blocks > 1 ? [meet] : [];
  const free: readonly Action[] = [
    { ...frame, kind: "fence", what: "tensor after" },
    { ...frame, kind: "dealloc", columns, group },
  ];
  if (columns > 0)
    return [{ ...frame, kind: "fence", what: "tensor before" }, meet, ...free, ...stored, ...last];
  return [...stored, ...last];
}

/** Whether D goes to memory by bulk stores, which read shared memory when the roles have ended. */
const stages = (program: TileProgram): boolean =>
  eachStmt(program.body).some((s) => s.kind === "epilogue" && storesInBulk(s));

function ringPlan({ program }: Context, ring: Ring): PlanRing {
  const count = (edge: Ring["full"]): number => (edge?.kind === "mbarrier" ? edge.arrivals : 0);
  const shared = new Set<"m" | "n">();
  let chunked = false;
  const walk = (stmts: readonly Stmt[], loops: readonly string[]): void => {
    for (const stmt of stmts) {
      if (stmt.kind === "copy" && stmt.multicast !== null && ring.buffers.includes(stmt.dst.buffer))
        shared.add(stmt.multicast);
      if ("at" in stmt && stmt.ring === ring.name) {
        const used = freeVars(stmt.at);
        chunked ||= loops.some((name) => used.has(name));
      }
      walk(childrenOf(stmt), stmt.kind === "for" ? [...loops, stmt.var] : loops);
    }
  };
  walk(program.body, []);
  return {
    name: ring.name,
    slots: ring.slots,
    arrivals: { full: count(ring.full), empty: count(ring.empty) },
    chunked,
    shared: [...shared],
    lap: lapOf(program, ring),
    answers: ring.transport === "clc",
    copied: ring.transport === "cp.async" ? transactionBytes(program, ring) : null,
  };
}

/** Columns of an accumulator and those that it shares; null where it shares none. */
function lapOf(program: TileProgram, { lap, buffers }: Ring): PlanRing["lap"] {
  const tile = program.buffers.find(({ name }) => name === buffers[0]);
  const width = tile === undefined ? undefined : tensorPlace(tile)?.width;
  return lap === undefined || width === undefined ? null : { columns: width, shared: lap };
}

function rolePlan(ctx: Context, role: Role, stmts: readonly Stmt[]): PlanRole {
  const body = stepsOf(ctx, role, stmts, []);
  return {
    name: role.name,
    warps: role.warps,
    leader: role.leader === true ? (asks(role) ? "cluster" : "pair") : null,
    // A non-persistent program has its tiles around the roles: the role then has the one tile of the block.
    body: body.some(({ kind }) => kind === "tiles")
      ? body
      : [{ kind: "tiles", visit: null, share: null, turn: 0, of: 1, others: [], body }],
  };
}

/** Whether a role asks for tiles. */
const asks = (role: Role): boolean => eachStmt(role.body).some((s) => s.kind === "fetch");

function stepsOf(ctx: Context, role: Role, stmts: readonly Stmt[], within: readonly Stmt[]): readonly Step[] {
  return stmts.flatMap((stmt): readonly Step[] => {
    const inner = (): readonly Step[] => stepsOf(ctx, role, childrenOf(stmt), [...within, stmt]);
    switch (stmt.kind) {
      case "tiles": {
        const { turn, of } = stmt.visit ?? { turn: 0, of: 1 };
        const tiles: Step = {
          kind: "tiles",
          visit: stmt.visit?.var ?? null,
          share:
            stmt.share === undefined
              ? null
              : { parts: stmt.visit?.parts ?? null, first: stmt.share.first, count: stmt.share.count },
          turn,
          of,
          others: stepsOf(ctx, role, answering(stmt), [...within, stmt]),
          body:
            of === 1
              ? inner()
              : inTurn(stmt, { turn, of }, (part) => stepsOf(ctx, role, part, [...within, stmt])),
        };
        if (of === 1) return [tiles];
        const last: Step = {
          kind: "do",
          actions: [{ stmt, lanes: "warps", kind: "last turn", to: turn, of }],
        };
        // The first turn is the last role's to give.
        return [...(turn === of - 1 ? [handing(stmt, "pass", 0)] : []), tiles, last];
      }
      case "for": {
        const chunks =
          eachStmt(stmt.body).some((s) => "at" in s && freeVars(s.at).has(stmt.var)) ||
          multipliesChunks(stmt, new Set(ctx.ringOf.keys()));
        const body = inner();
        return body.length === 0
          ? []
          : [{ kind: "for", variable: stmt.var, from: stmt.from, to: stmt.to, chunks, body }];
      }
      case "if":
        return [{ kind: "if", cond: stmt.cond, body: inner() }];
      case "combine":
      case "role":
        return inner();
      default: {
        const actions = actionsOf(ctx, role, stmt, within);
        if (actions.length === 0) return [];
        const doing: Step = { kind: "do", actions };
        return stmt.kind === "copy" && stmt.when !== null
          ? [{ kind: "if", cond: stmt.when, body: [doing] }]
          : [doing];
      }
    }
  });
}

const handing = (stmt: Stmt, kind: "turn" | "pass", to: number): Step => ({
  kind: "do",
  actions: [{ stmt, lanes: "warps", kind, to }],
});

/** The steps of a tile of a role that takes turns, which it takes and hands on. */
function inTurn(
  stmt: Extract<Stmt, { kind: "tiles" }>,
  { turn, of }: { readonly turn: number; readonly of: number },
  steps: (part: readonly Stmt[]) => readonly Step[],
): readonly Step[] {
  const points = turnPoints(stmt.body);
  if (points === null) return steps(stmt.body);
  return [
    ...steps(stmt.body.slice(0, points.take)),
    handing(stmt, "turn", turn),
    ...steps(stmt.body.slice(points.take, points.pass)),
    handing(stmt, "pass", (turn + 1) % of),
    ...steps(stmt.body.slice(points.pass)),
  ];
}
