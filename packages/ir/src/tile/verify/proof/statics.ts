/** Rules that a program keeps or breaks whatever runs: allocation, swizzles, budgets, warps, splits. */

import type { Target } from "@tilewright/core";
import { tensorAccessFault } from "../../../launch/tensor-copies.ts";
import { framed } from "../../frame.ts";
import { eachStmt } from "../../rewrite.ts";
import { barrierName } from "../../sharedMemory.ts";
import { extentMultiple } from "../../sizes.ts";
import { streamKOf } from "../../streamK.ts";
import type { Barrier, Stmt, TileProgram } from "../../types.ts";
import { runsOverPartialTiles } from "../chunks.ts";
import { roles as rolesVerifier } from "../roles.ts";
import { splits as splitsVerifier } from "../splits.ts";
import { subjectOf } from "../verifier.ts";
import type { Action, Plan } from "./plan.ts";
import { frameActions, planOf } from "./planOf.ts";
import { reductionFindings } from "./reductions.ts";
import type { Finding } from "./rules.ts";

type Role = Extract<Stmt, { kind: "role" }>;

/** Columns of tensor memory in an SM, and the fewest that can be allocated (PTX ISA, tcgen05.alloc). */
const COLUMNS = { most: 512, least: 32 } as const;

/** All findings of a program beside those of its plan. */
export function* programFindings(program: TileProgram, target: Target | null): Iterable<Finding> {
  yield* verified(program, target);
  yield* swizzles(program);
  yield* namedBarriers(program);
  yield* numbering(program);
  yield* reductionFindings(program);
  if (program.machine !== undefined)
    yield* initialised(frameActions(program, framed(program.body).head), program.machine.barriers);
}

/** All findings of a plan. */
export function* planFindings(plan: Plan): Iterable<Finding> {
  yield* groups(plan);
  yield* frame(plan);
  yield* frameFences(plan);
  yield* convergence(plan);
  yield* oneWay(plan);
  yield* initialised(
    plan.begin,
    plan.rings.flatMap(({ name, slots }) => [
      { name: barrierName(name, "full"), slots },
      { name: barrierName(name, "empty"), slots },
    ]),
  );
}

/** Rules that verifiers of any program check already. */
function* verified(program: TileProgram, target: Target | null): Iterable<Finding> {
  const subject = subjectOf(program, target);
  const text = (at: unknown): string => (typeof at === "string" ? at : "roles");
  for (const { at, message, hint } of rolesVerifier.check(subject)) {
    const budget = /budget|registers/.test(message);
    const barrier = /^barrier /.test(message);
    yield { rule: budget ? "registers" : barrier ? "namedBarriers" : "roles", at: text(at), message, hint };
  }
  for (const { at, message, hint } of splitsVerifier.check(subject))
    yield { rule: "splits", at: text(at), message, hint };
  const roles = eachStmt(program.body).filter((s): s is Role => s.kind === "role");
  const without = roles.filter(({ registers }) => registers === null);
  if (without.length > 0 && without.length < roles.length)
    yield {
      rule: "registers",
      at: `role ${without[0]?.name}`,
      message: "has no register budget, and other roles have one",
      hint: "give every role a budget, or none",
    };
}

/** Bulk copies make boxes of a tile's layout; a layout that they cannot make is one that engine and copy would see differently. */
function* swizzles(program: TileProgram): Iterable<Finding> {
  for (const stmt of eachStmt(program.body)) {
    if (stmt.kind !== "copy" || stmt.transport !== "tma") continue;
    const tile = program.buffers.find(({ name }) => name === stmt.dst.buffer);
    const { buffer } = stmt.src;
    if (buffer !== "A" && buffer !== "B") continue;
    const { interleaved } = tile?.layout ?? {};
    const matrix = program.buffers.find(({ name }) => name === buffer);
    if (interleaved !== undefined && matrix !== undefined) {
      const rows = extentMultiple(program.problem, matrix, interleaved.axis);
      if (rows % interleaved.runs !== 0)
        yield fault(
          stmt.dst.buffer,
          `its axis ${interleaved.axis} is interleaved to ${interleaved.runs} runs, and that of %${buffer} is a multiple of ${rows}`,
          "a plain layout, or whole runs in the matrix",
        );
    }
    const packed = program.buffers.some(({ name, packed }) => name === stmt.dst.buffer && packed === true);
    const reason = tensorAccessFault(program.problem, buffer, packed);
    if (reason !== null) yield fault(buffer, reason.message, reason.hint);
  }
}

const fault = (at: string, message: string, hint: string): Finding => ({
  rule: "swizzles",
  at: `%${at}`,
  message,
  hint,
});

/** Roles agree on the number of chunks of parts. */
function* numbering(program: TileProgram): Iterable<Finding> {
  const plan = planOf(program);
  if (plan === null || streamKOf(program) === null) return;
  if (plan.rings.some(({ chunked }) => chunked) && !runsOverPartialTiles(program))
    yield {
      rule: "phases",
      at: "roles",
      message: "roles go over different numbers of K chunks, or do not say how many as the bound of a loop",
      hint: "write the same bounds in every role",
    };
}

/** Two roles at one named barrier would count each other's threads, unless it says how many threads both have. */
function* namedBarriers(program: TileProgram): Iterable<Finding> {
  const users = new Map<number, string>();
  const roles = eachStmt(program.body).filter((s): s is Role => s.kind === "role");
  const threadsAt = (id: number): number =>
    roles
      .filter(({ body }) => eachStmt(body).some((s) => s.kind === "barrier" && s.id === id))
      .reduce((sum, { warps }) => sum + 32 * warps, 0);
  for (const role of roles) {
    for (const stmt of eachStmt(role.body)) {
      if (stmt.kind !== "barrier") continue;
      if (stmt.threads !== undefined && stmt.groups === undefined) {
        const all = threadsAt(stmt.id);
        if (stmt.threads !== all)
          yield {
            rule: "namedBarriers",
            at: `role ${role.name}`,
            stmt,
            message: `barrier ${stmt.id} counts ${stmt.threads} threads, and the roles that come to it have ${all}`,
            hint: `write threads ${all}`,
          };
        continue;
      }
      for (let id = stmt.id; id < stmt.id + (stmt.groups ?? 1); id++) {
        const other = users.get(id) ?? role.name;
        users.set(id, role.name);
        if (other !== role.name)
          yield {
            rule: "namedBarriers",
            at: `role ${role.name}`,
            stmt,
            message: `meets at barrier ${id}, where role ${other} meets too`,
            hint: "give each role a barrier of its own",
          };
      }
    }
  }
}

/** Every action of a plan, in the text's order. */
function* actionsIn(plan: Plan): Iterable<readonly [where: string, action: Action]> {
  for (const action of plan.begin) yield ["begin", action];
  const walk = function* (steps: Plan["roles"][number]["body"]): Iterable<Action> {
    for (const step of steps)
      if (step.kind === "do") yield* step.actions;
      else yield* walk(step.body);
  };
  for (const role of plan.roles) for (const action of walk(role.body)) yield [`role ${role.name}`, action];
  for (const action of plan.end) yield ["end", action];
}

function* groups(plan: Plan): Iterable<Finding> {
  const wanted = plan.pair ? 2 : 1;
  for (const [where, action] of actionsIn(plan))
    if ("group" in action && action.group !== wanted)
      yield {
        rule: "groups",
        at: where,
        message: `${action.kind} has cta_group::${action.group} in a kernel of ${plan.pair ? "pairs" : "single blocks"}`,
        hint: `every instruction on tensor memory of a kernel has one group: ${wanted}`,
      };
}

/** Tensor memory: one allocation, enough, given back. */
function* frame(plan: Plan): Iterable<Finding> {
  const all = [...actionsIn(plan)];
  const of = (kind: Action["kind"]) => all.filter(([, action]) => action.kind === kind);
  const allocs = of("alloc");
  const broken = (at: string, message: string, hint: string): Finding => ({
    rule: "tensorMemory",
    at,
    message,
    hint,
    stmt: allocs[0]?.[1].stmt ?? null,
  });
  if (plan.columns > 0 && allocs.length !== 1)
    yield broken("begin", `${allocs.length} allocations of tensor memory`, "one, by one warp of each block");
  for (const [where, action] of [...allocs, ...of("dealloc")]) {
    if (action.kind !== "alloc" && action.kind !== "dealloc") continue;
    const { columns } = action;
    if (
      columns < plan.columns ||
      columns < COLUMNS.least ||
      columns > COLUMNS.most ||
      Math.log2(columns) % 1 !== 0
    )
      yield broken(
        where,
        `${action.kind} of ${columns} columns, and the tiles take ${plan.columns}`,
        `a power of two from ${COLUMNS.least} to ${COLUMNS.most} that holds the tiles`,
      );
  }
  const [alloc, dealloc] = [allocs[0]?.[1], of("dealloc")[0]?.[1]];
  if (plan.columns > 0 && (dealloc === undefined || of("dealloc").length !== 1))
    yield broken(
      "end",
      `${of("dealloc").length} statements free tensor memory`,
      "free once what was allocated once",
    );
  if (alloc?.kind === "alloc" && dealloc?.kind === "dealloc" && alloc.columns !== dealloc.columns)
    yield broken("end", `frees ${dealloc.columns} columns of ${alloc.columns}`, "free what was allocated");
  if (plan.columns > 0 && of("relinquish").length === 0)
    yield broken(
      "begin",
      "keeps the permit to allocate: the next kernel's blocks wait for it",
      "relinquish it behind the allocation",
    );
}

/** Before the roles each mbarrier is initialised once, and that is seen by engines and by all threads. `barriers`: the declared ones. */
function* initialised(
  begin: readonly Action[],
  barriers: readonly Pick<Barrier, "name" | "slots">[],
): Iterable<Finding> {
  const broken = (message: string, stmt: Finding["stmt"] = null, at = "begin"): Finding => ({
    rule: "phases",
    at,
    message,
    hint: "mbar.init, fence init, then a meeting of all threads",
    ...(stmt === null ? {} : { stmt }),
  });
  const inits = begin.flatMap((action, at) => (action.kind === "init" ? [{ ...action, at }] : []));
  const covers = ({ slots }: (typeof inits)[number], slot: number): boolean =>
    slots === null || (slots.from <= slot && slot < slots.to);
  for (const { name, slots } of barriers) {
    const own = inits.filter(({ barriers: other }) => other === name);
    const times = Array.from({ length: slots }, (_, slot) => own.filter((one) => covers(one, slot)).length);
    const wrong = times.findIndex((count) => count !== 1);
    if (wrong >= 0)
      yield broken(
        `%${name} is initialised ${times[wrong] === 0 ? "nowhere" : `${times[wrong]} times`}${own.some((one) => one.slots !== null) ? ` in slot ${wrong}` : ""}`,
        own[0]?.stmt ?? null,
        `%${name}`,
      );
  }
  const after = (i: number, test: (action: Action) => boolean): number =>
    begin.findIndex((action, j) => j > i && test(action));
  const fenced = (i: number): number => after(i, (a) => a.kind === "fence" && a.what === "init");
  for (const { barriers: name, at: i } of inits) {
    const fence = fenced(i);
    // A chunk may be copied before the roles begin, by the thread that initialises.
    const copy = after(i, (a) => (a.kind === "expect" || a.kind === "copy") && name === `${a.ring}_full`);
    if (fence < 0 || after(fence, ({ kind }) => kind === "meet") < 0 || (copy >= 0 && copy < fence))
      yield broken(
        `%${name} is not initialised, fenced and met in this order: engines and other blocks may see it as it was`,
        begin[i]?.stmt ?? null,
      );
  }
  // Chunks lie in their order, from slot 0 on.
  const slotAt = (ring: string, i: number): number =>
    begin.slice(0, i).filter((a) => a.kind === "advance" && a.ring === ring).length;
  const early = begin.find(
    (a, i) =>
      (a.kind === "expect" || a.kind === "copy") &&
      !inits.some((one) => one.at < i && one.barriers === `${a.ring}_full` && covers(one, slotAt(a.ring, i))),
  );
  if (early !== undefined)
    yield broken("a chunk is copied before its barrier is initialised", early.stmt ?? null);
}

/** The address of tensor memory, and its end, are handed from thread to thread like tensor memory itself. */
function* frameFences({ begin, end, columns }: Plan): Iterable<Finding> {
  if (columns === 0) return;
  for (const [where, list] of [
    ["begin", begin],
    ["end", end],
  ] as const) {
    const at = (what: "tensor before" | "tensor after"): number =>
      list.findIndex((a) => a.kind === "fence" && a.what === what);
    const [before, after] = [at("tensor before"), at("tensor after")];
    if (before >= 0 && list.slice(before, Math.max(before, after)).some(({ kind }) => kind === "meet"))
      continue;
    yield {
      rule: "tensorFences",
      at: where,
      stmt: list.find(({ kind }) => kind === "alloc" || kind === "dealloc")?.stmt ?? null,
      message: `the ${where} has no meeting between two fences of tensor memory`,
      hint: "tcgen05.fence::before_thread_sync, the meeting, tcgen05.fence::after_thread_sync",
    };
  }
}

/** A role in which one thread does an engine's work has nothing that whole warps execute together. */
function* convergence(plan: Plan): Iterable<Finding> {
  const together = new Set<Action["kind"]>(["read", "loaded", "use", "drain", "stage", "gather"]);
  for (const role of plan.roles) {
    const actions = [...actionsIn({ ...plan, begin: [], end: [], roles: [role] })].map(
      ([, action]) => action,
    );
    const single = actions.some(
      ({ kind, lanes }) => lanes === "one" && (kind === "copy" || kind === "multiply" || kind === "expect"),
    );
    const elected = actions.some(
      ({ kind, lanes }) => lanes === "one" && (kind === "expect" || kind === "commit"),
    );
    if (elected && !role.one) {
      yield {
        rule: "convergence",
        at: `role ${role.name}`,
        message: "every lane of its warps issues what one thread has to",
        hint: `write one behind warps ${role.warps}`,
      };
      continue;
    }
    if (!single) continue;
    const aligned = actions.find(
      (action) =>
        together.has(action.kind) &&
        action.lanes === "warps" &&
        !(action.kind === "read" && action.proxy === "generic"),
    );
    if (aligned !== undefined)
      yield {
        rule: "convergence",
        at: `role ${role.name}`,
        message: `one thread issues its work, and ${aligned.kind} wants whole warps`,
        hint: "leave it to a role whose warps move together",
      };
  }
}

/** A ring that is read and never given back. */
function* oneWay(plan: Plan): Iterable<Finding> {
  const events = (ring: string, event: string): boolean =>
    [...actionsIn(plan)].some(([, a]) => a.kind === "mark" && a.event === event && a.ring === ring);
  for (const { name } of plan.rings)
    if (events(name, "wait") && !events(name, "release"))
      yield {
        rule: "freed",
        at: `%${name}`,
        message: "is read, and never given back: who fills it cannot know when",
        hint: "release every chunk behind its last read",
      };
}
