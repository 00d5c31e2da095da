/** Statements stand in what gives them their values, and behind those whose values they take. */

import { inOnePlace } from "../launches/partialTiles.ts";
import { gathersRows } from "../launches/tensorMaps.ts";
import { clusterUnits, eachStmt } from "../rewrite.ts";
import { movesTensor } from "../tensor.ts";
import type { Of, Stmt, StmtKind, TileProgram } from "../types.ts";
import { viewsOf } from "../views.ts";
import { bufferAt, type Fault, labelOf, type Site, type Subject, type Verifier } from "./verifier.ts";

export const context: Verifier = {
  name: "context",
  code: "TW3169",
  property:
    "statements of a reduction stand in one of their kind, those that leave it behind the count; copies of one thread and tensor memory in roles of one thread, loads and stores of it in others, copies that gather rows in roles that do; kernels beside the main one have no shared memory; what waits for mbarriers stands in no condition on tiles",
  from: "machine",
  *check(subject) {
    for (const site of subject.sites) {
      yield* alone(subject, site);
      yield* beside(subject, site);
      if (site.stmt.kind === "tiles") yield* workTiles(subject, site, site.stmt);
      if (site.stmt.kind === "mbar.arrive") yield* peers(subject, site, site.stmt);
      if (site.stmt.kind === "reduce") yield* reduction(subject, site, site.stmt);
      else if (needs[site.stmt.kind] !== undefined && !site.parents.some(({ kind }) => kind === "reduce"))
        yield { at: site, message: "stands in no reduce", hint: "put it into the reduction of a work tile" };
    }
    yield* renamed(subject);
    yield* tensorAddress(subject);
  },
};

/** What statements of a reduction take: partial tiles in the workspace, slices of a cluster's CTAs, a counter, a count that has been made, room for bulk copies. */
const needs: Readonly<
  Partial<Record<StmtKind, readonly ("workspace" | "cluster" | "counter" | "count" | "room" | "others")[]>>
> = {
  reduction: [],
  "partial.store": ["workspace"],
  "partial.reduce": ["workspace"],
  "partial.stage": ["workspace", "room"],
  "bulk.reduce": ["workspace", "room"],
  "partial.load": ["workspace"],
  "partial.add": ["workspace", "others"],
  "partial.clear": ["workspace"],
  "counter.add": ["workspace", "counter"],
  "counter.leave": ["workspace", "counter", "count"],
  "counter.clear": ["workspace", "counter", "count"],
  slices: ["workspace", "counter"],
  "dsmem.send": ["cluster"],
  "dsmem.leave": ["cluster"],
  "dsmem.expect": ["cluster"],
  "dsmem.wait": ["cluster"],
  "dsmem.add": ["cluster"],
};

/** The statements of a `reduce`, in order: what each takes is there. */
function* reduction({ program, sites }: Subject, around: Site, stmt: Of<"reduce">): Iterable<Fault> {
  const tiles = around.parents.find((p): p is Of<"tiles"> => p.kind === "tiles");
  const count = tiles?.streamK?.count;
  const main = around.parents[0]?.kind !== "kernel";
  const [, , ctas] = program.machine?.launches?.kernels.find(({ role }) => role === "main")?.grid ?? [];
  const has = {
    workspace: false,
    cluster: false,
    count: false,
    counter: stmt.by !== "kernel",
    room: false,
    // Their number is the grid's third extent, or that of the runs of a tile.
    others:
      !inOnePlace(stmt.by) &&
      (count !== undefined || !main || ctas === undefined || typeof ctas === "number"),
  };
  const missing = {
    workspace: "takes partial tiles of the workspace, and no reduction in front has them",
    cluster: "takes slices of a cluster's CTAs, and no reduction in front has them",
    count: "stands in front of what counts",
    counter: "takes a counter, and there is none where another kernel adds",
    room: "stands in no reduction by bulk copies",
    others: "adds partial tiles one by one, and there is one place, or the launch says how many",
  };
  for (const inner of eachStmt(stmt.body)) {
    const site = sites.find((one) => one.stmt === inner) ?? around;
    const fault = (message: string, hint: string): Fault => ({ at: site, message, hint });
    has.room = site.parents.some((p) => p.kind === "partial.reduce" && p.by === "bulk");
    const lacks = [...(needs[inner.kind] ?? []), ...mergeNeeds(inner)].find((need) => !has[need]);
    if (lacks !== undefined)
      yield fault(missing[lacks], "the order and the place that --ir machine prints before the edit");
    if (inner.kind === "reduction") {
      has[stmt.by === "cluster" ? "cluster" : "workspace"] = true;
      const { unless } = inner;
      if (unless !== null && (unless.op !== "==" || unless.lhs.kind !== "var" || unless.lhs.name !== count))
        yield fault(
          "asks for something else than whether the CTA has all chunks of the tile",
          count === undefined ? "leave 'unless' out" : `unless %${count} == CHUNKS`,
        );
    }
    if (inner.kind === "counter.add") {
      has.count = true;
      const { by } = inner;
      if (by.kind !== "const" && (by.kind !== "var" || by.name !== count))
        yield fault(
          "adds something else than a number or the CTA's chunks of the tile",
          count === undefined ? "counter.add 1" : `counter.add %${count}`,
        );
    }
    if (inner.kind === "counter.leave" && inner.unless.kind !== "const" && count === undefined)
      yield fault("counts chunks, and the tile's CTAs have no runs of them", "write a number of CTAs");
  }
}

const mergeNeeds = ({ kind }: Stmt) => (kind === "merge" ? (["workspace", "others"] as const) : []);

/** Which work tiles go with clusters, groups, shares of K chunks, and numbers that only the launch knows. */
function* workTiles({ program }: Subject, at: Site, stmt: Of<"tiles">): Iterable<Fault> {
  const { loop, extents, symbolic, streamK, raster, descending } = stmt;
  const units = clusterUnits(program.launch);
  const clustered = units[0] * units[1] > 1;
  const grouped = program.problem.batch.kind === "grouped";
  const several = (loop?.of ?? 1) > 1;
  const reasons: readonly (readonly [unmet: boolean, message: string, hint: string])[] = [
    [
      extents.some((count, axis) => count % (units[axis] ?? 1) !== 0),
      `${extents.join(" x ")} tiles do not divide into clusters of ${units.join(" x ")}`,
      `write ${extents.map((count, axis) => Math.ceil(count / (units[axis] ?? 1)) * (units[axis] ?? 1)).join(" x ")}: tiles outside of D store nothing`,
    ],
    [grouped && loop === null && clustered, "CTAs of a grouped problem have no clusters", "cluster=1x1"],
    [
      grouped && (several || loop?.by === "ring"),
      "a counter, or ping-pong roles, share the work tiles of one problem",
      "write by stride",
    ],
    [
      several && loop?.chunks !== undefined,
      "ping-pong roles go by K chunks whose number is known",
      "leave pingPong out",
    ],
    [
      streamK !== undefined && clustered,
      "CTAs of a cluster have no shares of a line of K chunks",
      "leave the cluster or streamk out",
    ],
    [
      streamK?.counted !== undefined && loop !== null,
      "a line that the kernel counts is cut among CTAs without roles",
      "leave persistent out",
    ],
    [
      descending === true && (symbolic?.[0] ?? null) !== null,
      "rows of work tiles descend, and the launch says how many there are",
      "leave descending out",
    ],
    [
      symbolic !== undefined && (raster.kind === "hilbert" || raster.kind === "blocked"),
      "pieces of the grid, and squares of Hilbert's curve, need the number of work tiles before the launch",
      "raster grouped:8",
    ],
  ];
  for (const [unmet, message, hint] of reasons) if (unmet) yield { at, message, hint };
}

/** Threads of what arrives, where it is a group. */
const arriving: Readonly<Record<string, number>> = { warp: 32, warpgroup: 128, thread: 1 };

/** Each CTA of the cluster that shares copies is told by a thread. */
function* peers({ program }: Subject, at: Site, { by, to }: Of<"mbar.arrive">): Iterable<Fault> {
  const axes = /^peers-(m?)(n?)$/.exec(to);
  if (axes === null) return;
  const [m, n] = program.launch.cluster;
  const told = (axes[1] ? m : 1) + (axes[2] ? n : 1) - 1;
  if ((arriving[by] ?? told) < told)
    yield { at, message: `one ${by} tells ${told} CTAs, a thread each`, hint: "by warpgroup" };
}

/** Done by one thread, or by whole warps. */
function* alone(subject: Subject, site: Site): Iterable<Fault> {
  const { stmt, parents } = site;
  const role = parents.find((p): p is Of<"role"> => p.kind === "role");
  const one = role?.elected === true;
  if (stmt.kind === "copy" && gathersRows(subject.program, stmt) && (!one || role.gathers !== true))
    yield {
      at: site,
      message: "gathers rows, which the lanes of a warp share out",
      hint: "put it into a role with elected gathers",
    };
  const by = byOne(subject, stmt);
  if (by === null || by === one) return;
  yield {
    at: site,
    message: by ? "is done by one thread" : "is done by whole warps",
    hint: by ? "put it into a role with elected" : "put it into a role without elected",
  };
}

/** Whether a statement is one thread's; null where either does it. */
function byOne(subject: Subject, stmt: Stmt): boolean | null {
  switch (stmt.kind) {
    case "request":
      return true;
    case "tensormap.make":
      // Of one problem it makes none (`groupMaps`).
      return subject.program.problem.batch.kind === "grouped" && stmt.groups === undefined ? true : null;
    case "mma":
      return bufferAt(subject, stmt.acc.buffer).space === "tensor" ? true : null;
    case "copy":
      return stmt.transport === "tcgen05.cp" ? true : movesTensor(stmt) ? false : null;
    default:
      return null;
  }
}

/** Kernels beside the main one have no shared and no tensor memory. */
function* beside(subject: Subject, site: Site): Iterable<Fault> {
  if (site.parents[0]?.kind !== "kernel") return;
  const used = viewsOf(site.stmt).find(({ buffer }) =>
    ["shared", "tensor"].includes(bufferAt(subject, buffer).space),
  );
  if (used === undefined && !("barrier" in site.stmt) && site.stmt.kind !== "role") return;
  yield {
    at: site,
    message: `${used === undefined ? labelOf(site.stmt) : `uses %${used.buffer}`} in a kernel beside the main one, which has no shared memory`,
    hint: "registers and global memory only",
  };
}

/** Registers come back that have been given up. */
function* renamed({ sites }: Subject): Iterable<Fault> {
  const before = new Set<string>();
  for (const site of sites) {
    const { stmt } = site;
    if (stmt.kind !== "rename") continue;
    if (stmt.back && !before.has(stmt.tile))
      yield { at: site, message: `%${stmt.tile} has the registers that it had`, hint: "remove it" };
    before.add(stmt.tile);
  }
}

/** Kinds that read the address of tensor memory, beside those with views of tensor tiles. */
function* tensorAddress(subject: Subject): Iterable<Fault> {
  let known = false;
  const uses = (stmt: Stmt): boolean =>
    stmt.kind === "tmem.dealloc" ||
    viewsOf(stmt).some(({ buffer }) => bufferAt(subject, buffer).space === "tensor");
  if (!written(subject.program)) return;
  for (const site of subject.sites) {
    if (site.stmt.kind === "tmem.base") known = true;
    if (known || !uses(site.stmt)) continue;
    yield {
      at: site,
      message: "needs the address of tensor memory, and nothing has read it",
      hint: "tmem.base in the head, behind a barrier",
    };
    return;
  }
}

/** Before the passes have written the head there is nothing to look at. */
const written = ({ machine }: TileProgram): boolean => machine !== undefined;
