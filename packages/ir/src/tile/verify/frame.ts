/** What stands around the roles and tiles of a kernel agrees with its launch line, its declarations and its roles. */
import { framed } from "../frame.ts";
import type { Stmt } from "../types.ts";
import type { Fault, Site, Subject, Verifier } from "./verifier.ts";

/** Kinds that stand nowhere else. */
const outside = /^(?:only|tensormap\.prefetch|mbar\.init|prologue\.at|cluster\.|pdl\.|bulk\.wait|tmem\.)/;

export const frame: Verifier = {
  name: "frame",
  code: "TW3160",
  property:
    "barriers are initialised, tensor maps fetched, tensor memory allocated and grids and blocks waited for before the roles and tiles or behind them, by one thread or warp where one is wanted, of threads, warps, barriers and roles that there are; blocks of a cluster arrive and wait by turns; a grid that may begin early waits for the one before it, and no other does",
  from: "machine",
  waivable: "values",
  *check(subject) {
    const { program, sites } = subject;
    for (const site of sites) {
      if (outside.test(site.stmt.kind) && site.parents.some(({ kind }) => kind !== "only") && !inside(site))
        yield {
          at: site,
          message: `${site.stmt.kind} stands in ${site.parents.at(-1)?.kind}`,
          hint: "it belongs before the roles and tiles, or behind them",
        };
      yield* alone(site);
      yield* numbersOf(subject, site);
    }
    const waiting = sites.filter(({ stmt }) => stmt.kind === "pdl.wait");
    const { head } = framed(program.body);
    const waits = waiting.filter(({ stmt }) => head.includes(stmt)).length;
    const due = program.launch.pdl === true ? 1 : 0;
    // Before the passes have written the head there is nothing to agree with.
    if (program.machine !== undefined && (waits !== due || waiting.length !== due))
      yield {
        at: waiting[0] ?? "launch",
        message: `${waits} statements of the head wait for the grid before, and the launch says ${due === 1 ? "pdl" : "no pdl"}`,
        hint: due === 1 ? "one pdl.wait before the roles" : "launch … pdl, or no pdl.wait",
      };
    yield* leads(subject);
    yield* meetings(subject);
  },
};

/** Of whom there is one: more than one of them would do it again (PTX ISA, mbarrier.init, tcgen05.alloc). */
const units: ReadonlyMap<string, "thread" | "warp"> = new Map([
  ["mbar.init", "thread"],
  ["tmem.alloc", "warp"],
  ["tmem.dealloc", "warp"],
  ["tmem.relinquish", "warp"],
]);

/** What all threads come to. */
const meeting = /^(?:barrier|cluster\.|pdl\.|tmem\.base)/;

function* alone(site: Site): Iterable<Fault> {
  const { kind } = site.stmt;
  const unit = units.get(kind) ?? (meeting.test(kind) ? null : undefined);
  const around = site.parents.at(-1);
  const found = around?.kind === "only" ? around.unit : null;
  if (unit === undefined || found === unit) return;
  const who = (one: typeof unit): string => (one === null ? "all threads" : `one ${one}`);
  yield {
    at: site,
    message: `${kind} is done by ${who(found)}, and is to be by ${who(unit)}`,
    hint: unit === null ? `${kind} by itself` : `only ${unit} 0 { ${kind} … }`,
  };
}

/** Blocks of a cluster arrive and wait by turns; an arrival more is undefined (PTX ISA, barrier.cluster). A lone block's may be waited for where parts of a tile meet. */
function* meetings({ program, sites }: Subject): Iterable<Fault> {
  if (program.launch.cluster[0] * program.launch.cluster[1] === 1) return;
  const { head, end } = framed(program.body);
  for (const list of [head, end]) {
    const turns = list.filter(({ kind }) => kind === "cluster.arrive" || kind === "cluster.wait");
    const odd = turns.findIndex(({ kind }, i) => kind !== (i % 2 === 0 ? "cluster.arrive" : "cluster.wait"));
    const stmt = turns[odd < 0 && turns.length % 2 === 1 ? turns.length - 1 : odd];
    if (stmt === undefined) continue;
    yield {
      at: sites.find((site) => site.stmt === stmt) ?? "head",
      message: "blocks of the cluster arrive and do not wait, or wait and have not arrived",
      hint: "cluster.arrive, then cluster.wait",
    };
  }
}

/** Where slices of a cluster's blocks meet, and in epilogues and reductions by bulk copies. */
const inside = ({ stmt, parents }: Site): boolean =>
  (stmt.kind === "cluster.wait" && parents.at(-1)?.kind === "reduction") ||
  (stmt.kind === "bulk.wait" && parents.some(({ kind }) => kind === "epilogue" || kind === "partial.reduce"));

function* numbersOf({ program }: Subject, site: Site): Iterable<Fault> {
  const { stmt } = site;
  const { threads } = program.launch;
  if (stmt.kind === "only") {
    const count = stmt.unit === "thread" ? threads : threads / 32;
    if (stmt.number >= count)
      yield { at: site, message: `there is no ${stmt.unit} ${stmt.number}`, hint: `0 to ${count - 1}` };
  }
  const tensor = program.machine?.memory.tensor;
  if (
    (stmt.kind === "tmem.alloc" || stmt.kind === "tmem.dealloc") &&
    stmt.columns !== (tensor ?? stmt.columns)
  )
    yield {
      at: site,
      message: `${stmt.columns} columns, and the program declares ${tensor}`,
      hint: `${stmt.kind} ${tensor}, or memory … tensor=${stmt.columns}`,
    };
  if (stmt.kind === "barrier" && stmt.ahead !== undefined) {
    const { first, warps } = stmt.ahead;
    if (first + warps > threads / 32 || warps >= threads / 32)
      yield {
        at: site,
        message: `warps ${first} to ${first + warps - 1} are ahead of the others of ${threads / 32}`,
        hint: "some of the block's warps, but not all",
      };
  }
  if (stmt.kind === "mbar.init" && program.machine !== undefined) {
    const names = program.machine.barriers.map(({ name }) => name);
    const { slots: own } = program.machine.barriers.find(({ name }) => name === stmt.barriers) ?? {};
    const { from, to } = stmt.slots ?? { from: 0, to: own ?? 1 };
    if (own !== undefined && (from >= to || to > own))
      yield {
        at: site,
        message: `slots ${from} .. ${to}, and %${stmt.barriers} has ${own}`,
        hint: `slots from 0 .. 1 to 0 .. ${own}`,
      };
    if (!names.includes(stmt.barriers))
      yield {
        at: site,
        message: `no mbarriers %${stmt.barriers} are declared`,
        hint: names.length === 0 ? "declare them: mbar %NAME @PLACE" : `%${names.join(", %")}`,
        needed: true,
      };
  }
}

/** What a role leads with stands at one place of the head. */
function* leads({ sites }: Subject): Iterable<Fault> {
  const leadsOff = (stmt: Stmt | undefined): boolean => stmt?.kind === "prologue";
  const roles = sites.flatMap(({ stmt }) =>
    stmt.kind === "role" && leadsOff(stmt.body[0]) ? [stmt.name] : [],
  );
  const placed = sites.flatMap((site) =>
    site.stmt.kind === "prologue.at" ? [{ site, name: site.stmt.role }] : [],
  );
  for (const { site, name } of placed)
    if (!roles.includes(name) || placed.filter((other) => other.name === name).length > 1)
      yield {
        at: site,
        message: roles.includes(name) ? `role ${name} leads twice` : `role ${name} begins with no lead`,
        hint: roles.length === 0 ? "remove it" : `prologue.at ${roles[0]}, once`,
      };
  for (const name of roles)
    if (!placed.some((one) => one.name === name))
      yield {
        at: `role ${name}`,
        message: "leads, and nothing says where",
        hint: `prologue.at ${name} in the head`,
        needed: true,
      };
}
