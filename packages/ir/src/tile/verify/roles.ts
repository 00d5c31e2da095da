/** Roles share out the warps of the block, once. */

import { childrenOf } from "../rewrite.ts";
import type { Role, Stmt } from "../types.ts";
import { type Fault, labelOf, type Subject, type Verifier } from "./verifier.ts";

/** Named barriers of a block (PTX ISA, barrier). */
const NAMED_BARRIERS = 16;

/** What roles, loops over work tiles, and kernels stand in. */
const outer: Partial<Record<Stmt["kind"], readonly Stmt["kind"][]>> = {
  role: ["tiles", "role"],
  tiles: ["role", "kernel"],
  kernel: [],
};

export const roles: Verifier = {
  name: "roles",
  code: "TW3115",
  property:
    "neighbouring roles cover all warps of the block without overlap and do not nest; they and loops over work tiles stand in no condition and no other loop, and kernels in nothing; register budgets are legal; named barriers are below 16",
  from: "specialised",
  *check(subject) {
    const { program, sites } = subject;
    yield* groups(subject, program.body);
    for (const site of sites) {
      const { stmt } = site;
      if (stmt.kind === "role" && site.parents.some((p) => p.kind === "role"))
        yield { at: site, message: "a role inside a role", hint: "roles stand side by side" };
      const allowed = outer[stmt.kind];
      const around = site.parents.find(({ kind }) => allowed?.includes(kind) === false);
      if (around !== undefined)
        yield {
          at: site,
          message: `stands in ${labelOf(around)}`,
          hint: `every CTA comes to it once: put ${around.kind} inside`,
        };
      if (stmt.kind === "barrier" && stmt.id + (stmt.groups ?? 1) > NAMED_BARRIERS)
        yield {
          at: site,
          message: `barrier ${stmt.id}`,
          hint: `barriers are numbered 0 to ${NAMED_BARRIERS - 1}`,
        };
      if (stmt.kind === "role" && stmt.registers !== null) yield* budget(stmt, site);
    }
    for (const ring of program.rings)
      for (const edge of [ring.full, ring.empty])
        if (edge?.kind === "barrier" && edge.id >= NAMED_BARRIERS)
          yield {
            at: ring,
            message: `barrier ${edge.id}`,
            hint: `barriers are numbered 0 to ${NAMED_BARRIERS - 1}`,
          };
  },
};

const span = (first: number, last: number): string =>
  first === last ? `warp ${first}` : `warps ${first} to ${last}`;

/** setmaxnreg: a multiple of 8 from 24 to 256, for whole warpgroups (PTX ISA). */
function* budget(role: Role, site: Subject["sites"][number]): Iterable<Fault> {
  const registers = role.registers ?? 0;
  if (registers % 8 !== 0 || registers < 24 || registers > 256)
    yield {
      at: site,
      message: `a budget of ${registers} registers`,
      hint: `a multiple of 8 from 24 to 256, for instance ${Math.min(256, Math.max(24, Math.round(registers / 8) * 8))}`,
    };
  if (role.first % 4 !== 0 || role.warps % 4 !== 0)
    yield {
      at: site,
      message: `a register budget for ${span(role.first, role.first + role.warps - 1)}`,
      hint: "budgets are given to whole warpgroups of 4 warps",
    };
}

function* groups(subject: Subject, stmts: readonly Stmt[]): Iterable<Fault> {
  let group: Role[] = [];
  for (const stmt of [...stmts, null]) {
    if (stmt?.kind === "role") group.push(stmt);
    else {
      if (group.length > 0) yield* coverage(subject, group);
      group = [];
    }
    if (stmt !== null) yield* groups(subject, childrenOf(stmt));
  }
}

function* coverage(subject: Subject, group: readonly Role[]): Iterable<Fault> {
  const warps = subject.program.launch.threads / 32;
  let next = 0;
  for (const role of [...group].sort((a, b) => a.first - b.first)) {
    if (role.first !== next)
      yield {
        at: `role ${role.name}`,
        message:
          role.first > next
            ? `no role has ${span(next, role.first - 1)}`
            : `begins at warp ${role.first}, which another role has`,
        hint: `write first ${next}`,
      };
    next = Math.max(next, role.first + role.warps);
  }
  if (next !== warps)
    yield {
      at: `role ${group.at(-1)?.name ?? ""}`,
      message: `the roles have ${next} warps, and the block ${warps}`,
      hint: "roles cover the block exactly",
    };
  const names = group.map((role) => role.name);
  for (const [i, name] of names.entries())
    if (names.indexOf(name) !== i)
      yield { at: `role ${name}`, message: `two roles are called ${name}`, hint: "rename one" };
  const { target } = subject;
  const registers = group.reduce((sum, role) => sum + role.warps * 32 * (role.registers ?? 0), 0);
  if (target !== null && registers > target.limits.registersPerBlock)
    yield {
      at: "roles",
      message: `the budgets add up to ${registers} registers, and a block has ${target.limits.registersPerBlock}`,
      hint: "lower a budget",
    };
}
