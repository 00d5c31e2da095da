/** Rules that a program keeps or breaks whatever runs: allocation, swizzles, budgets, warps, splits. */

import type { Target } from "@tilewright/core";
import { findWarpgroupAtom } from "../../../atoms/warpgroup.ts";
import { tensorAccessFault } from "../../../launch/tensor-access.ts";
import { framed } from "../../frame.ts";
import { childrenOf, eachStmt } from "../../rewrite.ts";
import { extentMultiple } from "../../sizes.ts";
import { streamKOf } from "../../streamK.ts";
import type { Barrier, Stmt, TileProgram } from "../../types.ts";
import { runsOverPartialTiles } from "../chunks.ts";
import { roles as rolesVerifier } from "../roles.ts";
import { splits as splitsVerifier } from "../splits.ts";
import { subjectOf } from "../verifier.ts";
import type { Effect } from "./effect.ts";
import { frameEffects, type Kernel, type KernelRole, kernelOf, type Standing } from "./kernel.ts";
import { reductionFindings } from "./reductions.ts";
import type { Finding } from "./rules.ts";

type Role = Extract<Stmt, { kind: "role" }>;

/** Columns of tensor memory in an SM, and the fewest that can be allocated (PTX ISA, tcgen05.alloc). */
const COLUMNS = { most: 512, least: 32 } as const;

/** All findings of a program beside those of its kernel. */
export function* programFindings(program: TileProgram, target: Target | null): Iterable<Finding> {
  yield* verified(program, target);
  yield* swizzles(program);
  yield* namedBarriers(program);
  yield* numbering(program);
  yield* reductionFindings(program);
  if (program.stage === "machine") yield* productGroups(program.body);
  if (program.machine !== undefined)
    yield* initialised(frameEffects(program, framed(program.body).head), program.machine.barriers);
}

/** All findings of a kernel. */
export function* kernelFindings(kernel: Kernel): Iterable<Finding> {
  yield* frame(kernel);
  yield* frameFences(kernel);
  yield* convergence(kernel);
  yield* oneWay(kernel);
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

/**
 * Products of warpgroups stand directly behind their group's fence: what instructions read in registers, addresses and fragments, is made in front of it,
 * and nothing between may change what it is made from.
 */
function* productGroups(list: readonly Stmt[]): Iterable<Finding> {
  for (const [i, stmt] of list.entries()) {
    yield* productGroups(childrenOf(stmt));
    if (stmt.kind !== "mma" || findWarpgroupAtom(stmt.atom) === null) continue;
    const before = list[i - 1]?.kind;
    if (before === "wgmma.fence" || before === "mma") continue;
    yield {
      rule: "order",
      at: "products",
      stmt,
      message:
        "multiplies without a wgmma.fence directly in front of its group of products, where their addresses and fragments are made",
      hint: "wgmma.fence, the products, wgmma.commit, and nothing between",
    };
  }
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
    // A copy in the workspace has lines of its own.
    if (matrix?.transposed === true) continue;
    // Whether the target gathers rows is asked of all that it has to have (features).
    const reason = tensorAccessFault(program.problem, buffer, packed, true);
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
  const kernel = kernelOf(program);
  if (kernel === null || streamKOf(program) === null) return;
  if (kernel.rings.some(({ chunked }) => chunked) && !runsOverPartialTiles(program))
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

/** Effects of a kind, with where in the frame they are. */
function framing<K extends Effect["kind"]>(
  { begin, end }: Kernel,
  ...kinds: readonly K[]
): readonly (Standing & {
  readonly where: "begin" | "end";
  readonly effect: Extract<Effect, { kind: K }>;
})[] {
  const among = (effect: Effect): effect is Extract<Effect, { kind: K }> =>
    kinds.some((kind) => kind === effect.kind);
  return (
    [
      ["begin", begin],
      ["end", end],
    ] as const
  ).flatMap(([where, list]) =>
    list.flatMap(({ stmt, effect }) => (among(effect) ? [{ where, stmt, effect }] : [])),
  );
}

/** Tensor memory: one allocation, enough, given back. */
function* frame(kernel: Kernel): Iterable<Finding> {
  const allocs = framing(kernel, "alloc");
  const deallocs = framing(kernel, "dealloc");
  const broken = (at: string, message: string, hint: string): Finding => ({
    rule: "tensorMemory",
    at,
    message,
    hint,
    stmt: allocs[0]?.stmt ?? null,
  });
  if (kernel.columns > 0 && allocs.length !== 1)
    yield broken("begin", `${allocs.length} allocations of tensor memory`, "one, by one warp of each block");
  for (const { where, effect } of framing(kernel, "alloc", "dealloc")) {
    const { kind, columns } = effect;
    if (
      columns < kernel.columns ||
      columns < COLUMNS.least ||
      columns > COLUMNS.most ||
      Math.log2(columns) % 1 !== 0
    )
      yield broken(
        where,
        `${kind} of ${columns} columns, and the tiles take ${kernel.columns}`,
        `a power of two from ${COLUMNS.least} to ${COLUMNS.most} that holds the tiles`,
      );
  }
  const [alloc, dealloc] = [allocs[0]?.effect, deallocs[0]?.effect];
  if (kernel.columns > 0 && deallocs.length !== 1)
    yield broken(
      "end",
      `${deallocs.length} statements free tensor memory`,
      "free once what was allocated once",
    );
  if (alloc !== undefined && dealloc !== undefined && alloc.columns !== dealloc.columns)
    yield broken("end", `frees ${dealloc.columns} columns of ${alloc.columns}`, "free what was allocated");
  if (kernel.columns > 0 && framing(kernel, "relinquish").length === 0)
    yield broken(
      "begin",
      "keeps the permit to allocate: the next kernel's blocks wait for it",
      "relinquish it behind the allocation",
    );
}

/** Before the roles each mbarrier is initialised once, and that is seen by engines and by all threads. `barriers`: the declared ones. */
function* initialised(
  begin: readonly Standing[],
  barriers: readonly Pick<Barrier, "name" | "slots">[],
): Iterable<Finding> {
  const broken = (message: string, stmt: Finding["stmt"] = null, at = "begin"): Finding => ({
    rule: "phases",
    at,
    message,
    hint: "mbar.init, fence init, then a meeting of all threads",
    ...(stmt === null ? {} : { stmt }),
  });
  const inits = begin.flatMap(({ stmt, effect }, at) =>
    effect.kind === "init" ? [{ ...effect, stmt, at }] : [],
  );
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
  const after = (i: number, test: (effect: Effect) => boolean): number =>
    begin.findIndex(({ effect }, j) => j > i && test(effect));
  const fenced = (i: number): number => after(i, (a) => a.kind === "fence" && a.what === "init");
  for (const { barriers: name, stmt, at: i } of inits) {
    const fence = fenced(i);
    // A chunk may be copied before the roles begin, by the thread that initialises.
    const copy = after(i, (a) => (a.kind === "expect" || a.kind === "copy") && name === `${a.ring}_full`);
    if (fence < 0 || after(fence, ({ kind }) => kind === "meet") < 0 || (copy >= 0 && copy < fence))
      yield broken(
        `%${name} is not initialised, fenced and met in this order: engines and other blocks may see it as it was`,
        stmt,
      );
  }
  // Chunks lie in their order, from slot 0 on.
  const slotAt = (ring: string, i: number): number =>
    begin.slice(0, i).filter(({ effect: a }) => a.kind === "advance" && a.ring === ring).length;
  const early = begin.find(
    ({ effect: a }, i) =>
      (a.kind === "expect" || a.kind === "copy") &&
      !inits.some((one) => one.at < i && one.barriers === `${a.ring}_full` && covers(one, slotAt(a.ring, i))),
  );
  if (early !== undefined) yield broken("a chunk is copied before its barrier is initialised", early.stmt);
}

/** The address of tensor memory, and its end, are handed from thread to thread like tensor memory itself. */
function* frameFences({ begin, end, columns }: Kernel): Iterable<Finding> {
  if (columns === 0) return;
  for (const [where, list] of [
    ["begin", begin],
    ["end", end],
  ] as const) {
    const at = (what: "tensor before" | "tensor after"): number =>
      list.findIndex(({ effect: a }) => a.kind === "fence" && a.what === what);
    const [before, after] = [at("tensor before"), at("tensor after")];
    const alloc = list.findIndex(({ effect: { kind } }) => kind === "alloc");
    const dealloc = list.findIndex(({ effect: { kind } }) => kind === "dealloc");
    if (
      before > alloc &&
      (dealloc < 0 || dealloc > after) &&
      list.slice(before, Math.max(before, after)).some(({ effect }) => effect.kind === "meet")
    )
      continue;
    yield {
      rule: "tensorFences",
      at: where,
      stmt: list.find(({ effect: { kind } }) => kind === "alloc" || kind === "dealloc")?.stmt ?? null,
      message: `the ${where} has no meeting between two fences of tensor memory`,
      hint: "tcgen05.fence::before_thread_sync, the meeting, tcgen05.fence::after_thread_sync",
    };
  }
}

const effectsIn = ({ effects }: KernelRole): readonly Effect[] => [...effects.values()].flat();

/** A role in which one thread does an engine's work has nothing that whole warps execute together. */
function* convergence(kernel: Kernel): Iterable<Finding> {
  const together = new Set<Effect["kind"]>(["read", "loaded", "use", "drain", "stage", "gather"]);
  for (const role of kernel.roles) {
    const effects = effectsIn(role);
    const single = effects.some(
      (effect) =>
        effect.kind === "copy" ||
        effect.kind === "expect" ||
        (effect.kind === "multiply" && effect.sums !== null),
    );
    const elected = effects.some(({ kind }) => kind === "expect" || kind === "commit");
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
    const aligned = effects.find(
      (effect) => together.has(effect.kind) && !(effect.kind === "read" && effect.proxy === "generic"),
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
function* oneWay(kernel: Kernel): Iterable<Finding> {
  const all = kernel.roles.flatMap(effectsIn);
  const events = (ring: string, event: string): boolean =>
    all.some((a) => a.kind === "mark" && a.event === event && a.ring === ring);
  for (const { name } of kernel.rings)
    if (events(name, "wait") && !events(name, "release"))
      yield {
        rule: "freed",
        at: `%${name}`,
        message: "is read, and never given back: who fills it cannot know when",
        hint: "release every chunk behind its last read",
      };
}
