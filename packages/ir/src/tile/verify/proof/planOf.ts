/** The plan of a machine program: its rings, its frame, and the steps of its roles, whose statements `actions.ts` reads. */
import { transactionBytes } from "../../../launch/tensor-copies.ts";
import { codeOrder } from "../../elected.ts";
import { childrenOf, eachStmt } from "../../rewrite.ts";
import { storesInBulk } from "../../staged.ts";
import { streamKOf } from "../../streamK.ts";
import { tensorColumns, tensorPlace } from "../../tensor.ts";
import type { Ring, Stmt, TileProgram } from "../../types.ts";
import { chunkCount, chunkCuts } from "../chunks.ts";
import { actionsOf, type Context } from "./actions.ts";
import type { Action, Plan, PlanRing, PlanRole, Step } from "./plan.ts";

type Role = Extract<Stmt, { kind: "role" }>;
type Lead = Extract<Stmt, { kind: "prologue" }>;

/** Null for programs whose rings have no mbarriers between roles: there all threads of the block meet at barriers, which `ringProtocol` proves of the bound program. */
export function planOf(program: TileProgram): Plan | null {
  const roles = eachStmt(program.body).filter((stmt): stmt is Role => stmt.kind === "role");
  const edges = program.rings.flatMap((ring) => [ring.full, ring.empty]);
  if (roles.length === 0 || edges.length === 0 || edges.some((edge) => edge?.kind !== "mbarrier"))
    return null;
  const pair = program.launch.pair === true;
  const { columns } = tensorColumns(program);
  const blocks = program.launch.cluster[0] * program.launch.cluster[1];
  const chunks = streamKOf(program) === null ? (chunkCount(program) ?? 0) : null;
  const chunked = chunkedRings(program);
  const leader = roles.find(({ body }) => body[0]?.kind === "prologue");
  const [lead] = leader?.body ?? [];
  return {
    cluster: program.launch.cluster,
    pair,
    chunks,
    ...(chunks === null ? {} : { cuts: chunkCuts(program, chunks) }),
    rings: program.rings.map((ring) => ringPlan(program, ring, chunked)),
    roles: codeOrder(program, roles).map((role) => rolePlan(program, role, chunked)),
    begin:
      leader !== undefined && lead?.kind === "prologue"
        ? leading(program, leader, lead)
        : beginning(columns, pair),
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
function leading(program: TileProgram, role: Role, { body }: Lead): readonly Action[] {
  const ctx = contextOf(program, role);
  const stmts = eachStmt(body);
  const pipeline = stmts.find((s) => s.kind === "pipeline");
  const on = {
    ring: pipeline?.kind === "pipeline" ? pipeline.of : "",
    at: pipeline?.kind === "pipeline" ? pipeline.name : "",
  };
  const init = (own: boolean): readonly Action[] => [
    { ...frame, kind: "init", lanes: "one", lead: { ring: on.ring, own } },
    { ...frame, kind: "fence", what: "init", lanes: "one" },
  ];
  const actions = stmts.flatMap((stmt) => actionsOf(ctx, role, stmt));
  const begin = actions.filter(({ kind }) => kind === "begin");
  const copied = actions.filter(({ kind }) => kind !== "begin");
  return [
    ...init(true),
    ...begin,
    { ...frame, kind: "mark", event: "acquire", ...on },
    ...copied,
    ...init(false),
    meet,
  ];
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

/** Rings whose chunks are K chunks: their pipelines go on in loops. */
function chunkedRings({ body }: TileProgram): ReadonlySet<string> {
  const pipelines = new Map<string, string>();
  const found = new Set<string>();
  const walk = (stmts: readonly Stmt[], looped: boolean): void => {
    for (const stmt of stmts) {
      if (stmt.kind === "pipeline") pipelines.set(stmt.name, stmt.of);
      if (stmt.kind === "advance" && looped) found.add(pipelines.get(stmt.pipeline) ?? "");
      walk(childrenOf(stmt), looped || stmt.kind === "for");
    }
  };
  walk(body, false);
  return found;
}

function ringPlan(program: TileProgram, ring: Ring, chunked: ReadonlySet<string>): PlanRing {
  const count = (edge: Ring["full"]): number => (edge?.kind === "mbarrier" ? edge.arrivals : 0);
  return {
    name: ring.name,
    slots: ring.slots,
    arrivals: { full: count(ring.full), empty: count(ring.empty) },
    chunked: chunked.has(ring.name),
    lap: lapOf(program, ring),
    answers: ring.transport === "clc",
    bulk: ring.transport === "tma",
    copied: ring.transport === "cp.async" ? transactionBytes(program, ring) : null,
  };
}

/** Columns of an accumulator and those that it shares; null where it shares none. */
function lapOf(program: TileProgram, { overlapped: lap, buffers }: Ring): PlanRing["lap"] {
  const tile = program.buffers.find(({ name }) => name === buffers[0]);
  const width = tile === undefined ? undefined : tensorPlace(tile)?.width;
  return lap === undefined || width === undefined ? null : { columns: width, shared: lap };
}

/** What the role's statements say of its pipelines. */
function contextOf(program: TileProgram, role: Role): Context {
  const stmts = eachStmt(role.body);
  const pipelines = new Map<string, string>();
  const producers = new Set<string>();
  const skips = new Set<Stmt>();
  for (const stmt of stmts) {
    if (stmt.kind === "pipeline") pipelines.set(stmt.name, stmt.of);
    if (stmt.kind === "hold") pipelines.set(stmt.name, pipelines.get(stmt.pipeline) ?? "");
    if (stmt.kind === "request" && stmt.at.kind === "var") producers.add(stmt.at.name);
    if (stmt.kind === "mbar.expect") producers.add(stmt.barrier.pipeline);
    if (stmt.kind === "mbar.wait" && stmt.barrier.edge === "empty") producers.add(stmt.barrier.pipeline);
    if (stmt.kind === "tiles" && (stmt.loop?.of ?? 1) > 1) for (const s of stmt.body) skips.add(s);
  }
  return {
    program,
    pair: program.launch.pair === true,
    rings: new Map(program.rings.map((ring) => [ring.name, ring])),
    ringOf: new Map(program.rings.flatMap((ring) => ring.buffers.map((b) => [b, ring] as const))),
    producers,
    pipelines,
    skips,
  };
}

function rolePlan(program: TileProgram, role: Role, chunked: ReadonlySet<string>): PlanRole {
  const ctx = contextOf(program, role);
  const stmts = role.body.filter(({ kind }) => kind !== "prologue");
  const begins = stmts.filter(({ kind }) => kind === "pipeline");
  const body = stepsOf(
    ctx,
    role,
    stmts.filter(({ kind }) => kind !== "pipeline"),
    chunked,
  );
  const first: Step = { kind: "do", actions: begins.flatMap((stmt) => actionsOf(ctx, role, stmt)) };
  return {
    name: role.name,
    warps: role.warps,
    leader: role.leader ?? null,
    one: role.elected === true,
    // A non-persistent program has its tiles around the roles: the role then has the one tile of the block.
    body: [
      first,
      ...(body.some(({ kind }) => kind === "tiles")
        ? body
        : [
            {
              kind: "tiles",
              visit: null,
              share: null,
              ring: null,
              turn: 0,
              of: 1,
              others: [],
              body,
            } as const,
          ]),
    ],
  };
}

function stepsOf(
  ctx: Context,
  role: Role,
  stmts: readonly Stmt[],
  chunked: ReadonlySet<string>,
): readonly Step[] {
  return stmts.flatMap((stmt): readonly Step[] => {
    const inner = (): readonly Step[] => stepsOf(ctx, role, childrenOf(stmt), chunked);
    switch (stmt.kind) {
      case "tiles": {
        const { turn, of } = stmt.loop ?? { turn: 0, of: 1 };
        const responses = stmt.body.flatMap((s) => (s.kind === "response" ? s.body : []));
        const tiles: Step = {
          kind: "tiles",
          visit: stmt.loop?.var ?? null,
          share:
            stmt.streamK === undefined
              ? null
              : { parts: stmt.loop?.tiles ?? null, first: stmt.streamK.first, count: stmt.streamK.count },
          ring: stmt.loop?.ring ?? null,
          turn,
          of,
          others: stepsOf(ctx, role, responses, chunked),
          body: inner(),
        };
        if (of === 1) return [tiles];
        const last: Step = {
          kind: "do",
          actions: [{ stmt, lanes: "warps", kind: "last turn", to: turn, of }],
        };
        const pass: Step = { kind: "do", actions: [{ stmt, lanes: "warps", kind: "pass", to: 0 }] };
        // The first turn is the last role's to give.
        return [...(turn === of - 1 ? [pass] : []), tiles, last];
      }
      case "for": {
        const body = inner();
        const pipeline = (s: Stmt): string =>
          s.kind === "advance" ? s.pipeline : "barrier" in s ? s.barrier.pipeline : "";
        const led = role.body[0]?.kind === "prologue" && stmt.from.kind === "const" && stmt.from.value === 1;
        const goesOn = eachStmt(stmt.body).some((s) => chunked.has(ctx.pipelines.get(pipeline(s)) ?? ""));
        return body.length === 0
          ? []
          : [{ kind: "for", variable: stmt.var, from: stmt.from, to: stmt.to, chunks: goesOn, led, body }];
      }
      case "if":
        return [{ kind: "if", cond: stmt.cond, zeros: stmt.zeros ?? [], body: inner() }];
      case "leader":
        return inCluster(inner());
      case "reduce":
        return [{ kind: "do", actions: actionsOf(ctx, role, stmt) }, ...inner()];
      case "response":
      case "role":
        return inner();
      default: {
        const actions = actionsOf(ctx, role, stmt);
        if (actions.length === 0) return [];
        const doing: Step = { kind: "do", actions };
        return stmt.kind === "copy" && stmt.when !== null
          ? [{ kind: "if", cond: stmt.when, body: [doing] }]
          : [doing];
      }
    }
  });
}

/** Done in the first block of the cluster only. */
const inCluster = (steps: readonly Step[]): readonly Step[] =>
  steps.map((step) =>
    step.kind === "do"
      ? { ...step, actions: step.actions.map((action) => ({ ...action, leader: "cluster" as const })) }
      : { ...step, body: inCluster(step.body) },
  );
