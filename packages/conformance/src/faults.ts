/**
 * Faults planted systematically: in the statements, edges and rings of a bound program, and in the actions that they stand for. What the protocol
 * proof misses of them is a hole in it, or no fault: each backend's test lists those with the reason.
 */
import {
  type ProtocolAction as Action,
  add,
  eachStmt,
  lit,
  type ProtocolPlan as Plan,
  protocolPlan,
  provePlan,
  proveProtocol,
  type Ring,
  rewriteStmts,
  type ProtocolStep as Step,
  type Stmt,
  type Target,
  type TileProgram,
  type View,
  verifyChunkCounts,
  verifyProgram,
} from "@tilewright/ir";

export interface Fault<T> {
  readonly name: string;
  readonly it: T;
}

const protocolKinds: readonly Stmt["kind"][] = [
  "acquire",
  "commit",
  "wait",
  "release",
  "fetch",
  "next",
  "copy",
  "mma",
];

function label(stmt: Stmt): string {
  if ("ring" in stmt) return `${stmt.kind} %${stmt.ring}`;
  if (stmt.kind === "copy") return `copy %${stmt.dst.buffer}`;
  return stmt.kind;
}

/** Statements that take part in the protocol: events, and what touches a ring's buffers. */
function protocol(program: TileProgram): readonly Stmt[] {
  const managed = new Set(program.rings.flatMap((ring) => ring.buffers));
  const touches = (view: View): boolean => managed.has(view.buffer);
  return eachStmt(program.body).filter((stmt) => {
    if (!protocolKinds.includes(stmt.kind)) return false;
    if (stmt.kind === "copy") return touches(stmt.dst) || touches(stmt.src);
    return stmt.kind !== "mma" || touches(stmt.a) || touches(stmt.b);
  });
}

/** The program with one statement (by identity) replaced in its list. */
function withStmt(
  program: TileProgram,
  at: Stmt,
  by: (list: readonly Stmt[], i: number) => readonly Stmt[],
): TileProgram {
  const rebuild = (stmts: readonly Stmt[]): readonly Stmt[] => {
    const i = stmts.indexOf(at);
    if (i >= 0) return by(stmts, i);
    return stmts.map((stmt) => ("body" in stmt ? ({ ...stmt, body: rebuild(stmt.body) } as Stmt) : stmt));
  };
  return { ...program, body: rebuild(program.body) };
}

const slotAfter = (view: View): View => ({ ...view, slot: nextSlot(view.slot) });
const nextSlot = (slot: View["slot"]): View["slot"] =>
  slot.kind === "mod" ? { ...slot, lhs: add(slot.lhs, 1) } : slot;

/** Faults in the statements, edges and rings of a bound program. */
export function programFaults(program: TileProgram): readonly Fault<TileProgram>[] {
  const out: Fault<TileProgram>[] = [];
  const put = (name: string, it: TileProgram): void => void out.push({ name, it });
  for (const [n, stmt] of protocol(program).entries()) {
    const name = `${label(stmt)} (statement ${n})`;
    if (stmt.kind !== "mma" && stmt.kind !== "copy") {
      put(
        `without ${name}`,
        withStmt(program, stmt, (list, i) => list.toSpliced(i, 1)),
      );
      put(
        `${name} twice`,
        withStmt(program, stmt, (list, i) => list.toSpliced(i, 0, stmt)),
      );
    }
    if (stmt.kind === "copy" && program.rings.some((ring) => ring.buffers.includes(stmt.dst.buffer))) {
      put(
        `without ${name}`,
        withStmt(program, stmt, (list, i) => list.toSpliced(i, 1)),
      );
      put(
        `${name} twice`,
        withStmt(program, stmt, (list, i) => list.toSpliced(i, 0, stmt)),
      );
    }
    put(
      `${name} after what follows it`,
      withStmt(program, stmt, (list, i) => {
        const next = list[i + 1];
        return next === undefined ? list : list.toSpliced(i, 2, next, stmt);
      }),
    );
    if ("at" in stmt)
      put(
        `${name} of the chunk after`,
        withStmt(program, stmt, (list, i) => list.with(i, { ...stmt, at: add(stmt.at, 1) })),
      );
    if (stmt.kind === "mma") {
      put(
        `${name} with A of the slot after`,
        withStmt(program, stmt, (list, i) => list.with(i, { ...stmt, a: slotAfter(stmt.a) })),
      );
      put(
        `${name} with B of the slot after`,
        withStmt(program, stmt, (list, i) => list.with(i, { ...stmt, b: slotAfter(stmt.b) })),
      );
    }
    if (stmt.kind === "copy" && program.rings.some((ring) => ring.buffers.includes(stmt.dst.buffer))) {
      put(
        `${name} into the slot after`,
        withStmt(program, stmt, (list, i) => list.with(i, { ...stmt, dst: slotAfter(stmt.dst) })),
      );
      const half = (view: View): View => ({ ...view, extent: [view.extent[0] / 2, view.extent[1]] });
      put(
        `${name}, half of it`,
        withStmt(program, stmt, (list, i) =>
          list.with(i, { ...stmt, dst: half(stmt.dst), src: half(stmt.src) }),
        ),
      );
      if (stmt.multicast !== null)
        put(
          `${name} without multicast`,
          withStmt(program, stmt, (list, i) => list.with(i, { ...stmt, multicast: null })),
        );
    }
  }
  const ringWith = (ring: Ring, change: Partial<Ring>): TileProgram => ({
    ...program,
    rings: program.rings.map((each) => (each === ring ? { ...ring, ...change } : each)),
  });
  for (const ring of program.rings) {
    for (const edge of ["full", "empty"] as const) {
      const now = ring[edge];
      if (now?.kind !== "mbarrier") continue;
      for (const more of [1, -1])
        put(
          `%${ring.name} ${edge} edge of ${now.arrivals + more} arrivals`,
          ringWith(ring, { [edge]: { ...now, arrivals: now.arrivals + more } }),
        );
    }
    put(
      `%${ring.name} with ${ring.slots + 1} slots and tiles with ${ring.slots}`,
      ringWith(ring, { slots: ring.slots + 1 }),
    );
  }
  for (const role of eachStmt(program.body)) {
    if (role.kind !== "role") continue;
    const loops = eachStmt(role.body).filter((s) => s.kind === "for");
    for (const [n, loop] of loops.entries()) {
      if (loop.kind !== "for" || loop.to.kind !== "const") continue;
      if (!eachStmt(loop.body).some((s) => "at" in s)) continue;
      const { value } = loop.to;
      put(
        `role ${role.name}: loop ${n} ends a chunk early`,
        withStmt(program, loop, (list, i) => list.with(i, { ...loop, to: lit(value - 1) })),
      );
    }
    put(
      `role ${role.name} with a warp more`,
      withStmt(program, role, (list, i) => list.with(i, { ...role, warps: role.warps + 1 })),
    );
  }
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

/** The plan with one action (by identity) replaced in its list. */
function withAction(
  plan: Plan,
  at: Action,
  by: (list: readonly Action[], i: number) => readonly Action[],
): Plan {
  const inList = (list: readonly Action[]): readonly Action[] => {
    const i = list.indexOf(at);
    return i < 0 ? list : by(list, i);
  };
  const inSteps = (steps: readonly Step[]): readonly Step[] =>
    steps.map((step) =>
      step.kind === "do" ? { ...step, actions: inList(step.actions) } : { ...step, body: inSteps(step.body) },
    );
  return {
    ...plan,
    begin: inList(plan.begin),
    end: inList(plan.end),
    roles: plan.roles.map((role) => ({ ...role, body: inSteps(role.body) })),
  };
}

/** Faults that a lowering could have: an action left out, done twice, or with another count, number of bytes, block, group or phase. */
export function planFaults(plan: Plan): readonly Fault<Plan>[] {
  const out: Fault<Plan>[] = [];
  const blocks = plan.cluster[0] * plan.cluster[1];
  const walk = (steps: readonly Step[], where: string): readonly (readonly [string, Action])[] =>
    steps.flatMap((step) =>
      step.kind === "do" ? step.actions.map((a) => [where, a] as const) : walk(step.body, where),
    );
  const all: readonly (readonly [string, Action])[] = [
    ...plan.begin.map((a) => ["begin", a] as const),
    ...plan.roles.flatMap((role) => walk(role.body, role.name)),
    ...plan.end.map((a) => ["end", a] as const),
  ];
  /** Whether what a role reaches is its own block anyhow: without pairs a leader is, in a role of leaders, and the first in a role that only it runs. */
  const reachesOwn = (role: string, reach: string): boolean =>
    (reach === "leader" && !plan.pair) ||
    plan.roles.some(({ name, leader }) => {
      if (name !== role || leader === null) return false;
      const alone = leader === "cluster" || (plan.pair && blocks === 2);
      return reach === "leader" || (reach === "first" && alone);
    });
  const seen = new Map<string, number>();
  for (const [where, action] of all) {
    if (action.kind === "mark") continue;
    const on = "ring" in action ? ` of %${action.ring}` : "";
    const what =
      action.kind === "fence"
        ? `fence ${action.what}`
        : action.kind === "multiply"
          ? "multiply"
          : action.kind;
    const n = (seen.get(`${where} ${what}${on}`) ?? 0) + 1;
    seen.set(`${where} ${what}${on}`, n);
    const name = `${where}: ${what}${on}${n > 1 ? ` (${n})` : ""}`;
    const change = (how: string, by: Partial<Record<string, unknown>>): void =>
      void out.push({
        name: `${name}, ${how}`,
        it: withAction(plan, action, (list, i) => list.with(i, { ...action, ...by } as Action)),
      });
    out.push({ name: `${name}, left out`, it: withAction(plan, action, (list, i) => list.toSpliced(i, 1)) });
    switch (action.kind) {
      case "wait":
        change("on the other parity", { lag: 1 - action.lag });
        break;
      case "expect":
        change("of half the bytes", { bytes: action.bytes / 2 });
        change("of twice the bytes", { bytes: action.bytes * 2 });
        if (plan.pair && action.leader === "pair") change("by both blocks", { leader: undefined });
        if (action.reach !== "own" && blocks > 1) change("in its own block only", { reach: "own" });
        break;
      case "copy":
        change("of half the bytes", { bytes: action.bytes / 2 });
        if (plan.pair)
          change("signalling the other barrier", {
            signal: action.signal === "leader" ? "destination" : "leader",
          });
        if (action.reach !== "own" && blocks > 1) change("into its own block only", { reach: "own" });
        break;
      case "put":
        if (blocks > 1) change("into its own block only", { reach: "own" });
        break;
      case "arrive":
        change("once more", { count: action.count + 1 });
        if (action.reach !== "own" && blocks > 1 && !reachesOwn(where, action.reach))
          change("in its own block only", { reach: "own" });
        break;
      case "commit":
        change("with the other group", { group: 3 - action.group });
        if (action.reach !== "own" && blocks > 1) change("in its own block only", { reach: "own" });
        break;
      case "stored":
        change("but one more", { pending: action.pending + 1 });
        break;
      case "multiply":
      case "factors":
      case "relinquish":
        change("with the other group", { group: 3 - action.group });
        break;
      case "alloc":
      case "dealloc":
        change("of half the columns", { columns: action.columns / 2 });
        change("of 48 columns", { columns: 48 });
        change("with the other group", { group: 3 - action.group });
        break;
      default:
        break;
    }
  }
  return out;
}

/** Faults of a program, how many rules they break between them, and which of them nothing reports. */
export interface Planted {
  readonly count: number;
  /** Numbers of the rules that reported one or more. */
  readonly rules: readonly number[];
  readonly unseen: readonly string[];
}

/** Plant every fault in a program that has none. Those of its statements may be reported by the verifiers, too, which every compilation runs. */
export function plant(program: TileProgram, target: Target, faults: "statements" | "actions"): Planted {
  const plan = protocolPlan(program);
  const rules = new Set<number>();
  const unseen: string[] = [];
  const look = (name: string, codes: readonly string[], others: () => number): void => {
    for (const code of codes) rules.add(Number(code.slice(4)) - 40);
    if (codes.length === 0 && others() === 0) unseen.push(name);
  };
  const list = faults === "statements" ? programFaults(program) : [];
  for (const { name, it } of list)
    look(
      name,
      proveProtocol(it, target).map(({ code }) => code),
      () => verifyProgram(it, target).length + verifyChunkCounts(it).length,
    );
  const actions = faults === "actions" && plan !== null ? planFaults(plan) : [];
  for (const { name, it } of actions)
    look(
      name,
      provePlan(it).map(({ code }) => code),
      () => 0,
    );
  return { count: list.length + actions.length, rules: [...rules].sort((x, y) => x - y), unseen };
}
