/** The plan of a machine program: its rings, its frame, and the steps of its roles, whose statements `actions.ts` reads. */
import { transactionBytes } from "../../../launch/tensor-copies.ts";
import { codeOrder } from "../../elected.ts";
import { framed } from "../../frame.ts";
import { boundaryOf, childrenOf, eachStmt } from "../../rewrite.ts";
import { streamKOf } from "../../streamK.ts";
import { tensorColumns, tensorPlace } from "../../tensor.ts";
import type { Ring, Stmt, TileProgram } from "../../types.ts";
import { chunkCount, chunkCuts } from "../chunks.ts";
import { actionsOf, type Context, fenceNames } from "./actions.ts";
import type { Action, Plan, PlanRing, PlanRole, Step } from "./plan.ts";

type Role = Extract<Stmt, { kind: "role" }>;

/** Null for programs whose rings have no mbarriers between roles: there all threads of the block meet at barriers, which `ringProtocol` proves of the bound program. */
export function planOf(program: TileProgram): Plan | null {
  const roles = eachStmt(program.body).filter((stmt): stmt is Role => stmt.kind === "role");
  const edges = program.rings.flatMap((ring) => [ring.full, ring.empty]);
  if (roles.length === 0 || edges.length === 0 || edges.some((edge) => edge?.kind !== "mbarrier"))
    return null;
  const pair = program.launch.pair === true;
  const { columns } = tensorColumns(program);
  const chunks = streamKOf(program) === null ? chunkCount(program) : null;
  const chunked = chunkedRings(program);
  const { head, end } = framed(program.body);
  return {
    cluster: program.launch.cluster,
    pair,
    chunks,
    shorter: chunks === null ? shorterBounds(program, roles) : new Map(),
    ...(chunks === null ? {} : { cuts: chunkCuts(program, chunks) }),
    rings: program.rings.map((ring) => ringPlan(program, ring, chunked)),
    roles: codeOrder(program, roles).map((role) => rolePlan(program, role, chunked)),
    begin: frameActions(program, head),
    end: frameActions(program, end),
    columns,
  };
}

/** Bounds with less between them, by whole periods of all rings: each stays apart from the others, as roles that disagree have to be found. */
function shorterBounds({ rings }: TileProgram, roles: readonly Role[]): ReadonlyMap<number, number> {
  const period = rings.reduce((all, { slots }) => leastCommonMultiple(all, 2 * slots), 1);
  const bounds = roles.flatMap(({ body }) =>
    eachStmt(body).flatMap((s) =>
      s.kind === "for" ? [s.from, s.to].flatMap((e) => (e.kind === "const" ? [e.value] : [])) : [],
    ),
  );
  const shorter = new Map<number, number>();
  let [before, now] = [0, 0];
  for (const bound of bounds.toSorted((a, b) => a - b)) {
    const gap = bound - before;
    now += gap > 2 * period ? (gap % period) + period : gap;
    before = bound;
    shorter.set(bound, now);
  }
  return shorter;
}

const leastCommonMultiple = (a: number, b: number): number => {
  let multiple = a;
  while (multiple % b !== 0) multiple += a;
  return multiple;
};

const frame = { lanes: "warps" } as const;

/** What stands before the roles, or behind them: statements of the whole block, and of one of its threads or warps. */
export function frameActions(program: TileProgram, stmts: readonly Stmt[]): readonly Action[] {
  const group = program.launch.pair === true ? 2 : 1;
  const alone = program.launch.cluster[0] * program.launch.cluster[1] === 1;
  let arrived = false;
  return stmts.flatMap((stmt): readonly Action[] => {
    const all = { ...frame, stmt };
    switch (stmt.kind) {
      case "only":
        return frameActions(program, stmt.body).map((action) =>
          stmt.unit === "thread" ? { ...action, lanes: "one" } : action,
        );
      case "mbar.init":
        return [{ ...all, kind: "init", barriers: stmt.barriers, slots: stmt.slots ?? null }];
      case "prologue.at":
        return leading(program, stmt.role);
      case "barrier":
        return alone && (stmt.threads ?? program.launch.threads) === program.launch.threads
          ? [{ ...all, kind: "meet" }]
          : [];
      case "cluster.arrive":
        arrived = true;
        return [];
      case "cluster.wait":
        return arrived ? [{ ...all, kind: "meet" }] : [];
      case "fence":
        return stmt.what === "gpu" ? [] : [{ ...all, kind: "fence", what: fenceNames[stmt.what] }];
      case "tmem.alloc":
      case "tmem.dealloc":
        return [
          { ...all, kind: stmt.kind === "tmem.alloc" ? "alloc" : "dealloc", columns: stmt.columns, group },
        ];
      case "tmem.relinquish":
        return [{ ...all, kind: "relinquish", group }];
      case "bulk.wait":
        return [{ ...all, kind: "stored", pending: stmt.pending }];
      default:
        return [];
    }
  });
}

/** The copies of the first chunk; no tenant of its slot is waited for. */
function leading(program: TileProgram, name: string): readonly Action[] {
  const role = eachStmt(program.body).find((s): s is Role => s.kind === "role" && s.name === name);
  const [lead] = role?.body ?? [];
  if (role === undefined || lead?.kind !== "prologue") return [];
  const stmts = eachStmt(lead.body);
  const pipeline = stmts.find((s) => s.kind === "pipeline");
  const on = {
    ring: pipeline?.kind === "pipeline" ? pipeline.of : "",
    at: pipeline?.kind === "pipeline" ? pipeline.name : "",
  };
  const actions = stmts.flatMap((stmt) => actionsOf(contextOf(program, role), role, stmt));
  const begin = actions.filter(({ kind }) => kind === "begin");
  const copied = actions.filter(({ kind }) => kind !== "begin");
  return [...begin, { ...frame, stmt: lead, kind: "mark", event: "acquire", ...on }, ...copied];
}

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
    responses: ring.transport === "clc",
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
  const around = ctx.program.body.find(({ kind }) => kind === "tiles");
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
              vars: around?.kind === "tiles" ? around.vars : null,
              ordinal: null,
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
          vars: stmt.vars,
          ordinal: stmt.loop?.var ?? null,
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
        const last = boundaryOf(stmt, "last")
          .flatMap((inner) => actionsOf(ctx, role, inner))
          .map(
            (action): Action =>
              action.kind === "turn" ? { ...action, kind: "last turn", turn, of } : action,
          );
        return [
          ...stepsOf(ctx, role, boundaryOf(stmt, "first"), chunked),
          tiles,
          ...(last.length === 0 ? [] : [{ kind: "do", actions: last } as const]),
        ];
      }
      case "boundary":
      case "tensormap.make":
        return [];
      case "for": {
        const body = inner();
        const pipeline = (s: Stmt): string =>
          s.kind === "advance" ? s.pipeline : "barrier" in s ? s.barrier.pipeline : "";
        const led = role.body[0]?.kind === "prologue" && stmt.from.kind === "const" && stmt.from.value === 1;
        const goesOn = eachStmt(stmt.body).some((s) => chunked.has(ctx.pipelines.get(pipeline(s)) ?? ""));
        return body.length === 0
          ? []
          : [
              {
                ...{ kind: "for", variable: stmt.var, from: stmt.from, to: stmt.to },
                ...{ within: stmt.within ?? null, chunks: goesOn, led, body },
              },
            ];
      }
      case "if":
        return [{ kind: "if", cond: stmt.cond, zeros: stmt.zeros ?? [], body: inner() }];
      case "vote":
        return [{ kind: "vote", body: inner() }];
      case "leader":
        return inCluster(inner());
      case "epilogue":
        // What warps store themselves is in order in one of them: `stores` looks at that.
        return [
          { kind: "do", actions: actionsOf(ctx, role, stmt) },
          ...(stmt.stores === undefined ? inner() : []),
        ];
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
