/** Names are well formed, unique, and every use resolves. Runs first: the others rely on it. */
import { runsOf, stepBuffer } from "@tilewright/core";
import { freeVars } from "../expr.ts";
import { pipelineNames } from "../ranges.ts";
import { namesRows } from "../runs.ts";
import { variablesOf } from "../sizes.ts";
import { nearestHint } from "../text/nearest.ts";
import { type Stmt, tileLoopVars } from "../types.ts";
import { exprsOf, viewsOf } from "../views.ts";
import type { Fault, Site, Subject, Verifier } from "./verifier.ts";

const wellFormed = /^[A-Za-z_]\w*$/;

export const names: Verifier = {
  name: "names",
  code: "TW3101",
  property: "names are well formed and unique; every buffer, ring and loop variable that is used exists",
  from: "nest",
  *check(subject) {
    const { program } = subject;
    if (!/^[A-Za-z_$][\w$]*$/.test(program.name))
      yield {
        at: "name",
        message: `'${program.name}' is no PTX identifier`,
        hint: "use letters, digits, _ and $",
      };
    const { barriers = [], scratch = [] } = program.machine ?? {};
    yield* duplicates([...program.buffers, ...barriers, ...scratch], "buffer");
    yield* duplicates(program.rings, "ring");
    for (const ring of program.rings)
      for (const buffer of ring.buffers)
        if (!subject.buffers.has(buffer)) yield missing(ring, "buffer", buffer, subject.buffers.keys());
    yield* pageFaults(subject);
    // Statements of one list have one scope.
    let parents: Site["parents"] | null = null;
    let scope: ReadonlySet<string> = new Set();
    for (const site of subject.sites) {
      if (site.parents !== parents) scope = scopeOf(subject, site.parents);
      parents = site.parents;
      yield* checkSite(subject, site, scope);
    }
  },
};

/** What lies in pages is told by a step that says in which. */
function* pageFaults({ program, buffers }: Subject): Iterable<Fault> {
  const told = runsOf(program.problem).filter(({ pages }) => pages !== undefined);
  for (const { name, paged } of program.buffers) {
    if (paged === undefined || namesRows(program, paged)) continue;
    const pages = told.find(({ step }) => step === paged.step)?.pages;
    if (pages === undefined)
      yield {
        at: `%${name}`,
        message: `step ${paged.step} of the problem tells no pages`,
        hint:
          told.length === 0
            ? "leave 'paged' out"
            : `steps that do: ${told.map(({ step }) => step).join(", ")}`,
      };
    else if (!buffers.has(stepBuffer(pages.table)))
      yield missing(`%${name}`, "buffer", stepBuffer(pages.table), buffers.keys());
  }
}

const scopeOf = ({ program }: Subject, parents: readonly Stmt[]): ReadonlySet<string> =>
  new Set([...variablesOf(program.problem), ...parents.flatMap(boundBy)]);

function* duplicates(items: readonly { readonly name: string }[], what: string): Iterable<Fault> {
  const seen = new Set<string>();
  for (const { name } of items) {
    if (!wellFormed.test(name))
      yield {
        at: `%${name}`,
        message: `'${name}' is no name`,
        hint: "letters, digits and _, not beginning with a digit",
      };
    if (seen.has(name))
      yield { at: `%${name}`, message: `two ${what}s are called %${name}`, hint: "rename one" };
    seen.add(name);
  }
}

const missing = (at: Fault["at"], what: string, name: string, known: Iterable<string>): Fault => {
  const all = [...known];
  return {
    at,
    message: `no ${what} is called %${name}`,
    hint:
      nearestHint(name, all, "%") ??
      (all.length > 0 ? `there are: ${all.map((n) => `%${n}`).join(", ")}` : `declare the ${what}`),
  };
};

function* checkSite(subject: Subject, site: Site, scope: ReadonlySet<string>): Iterable<Fault> {
  const { stmt } = site;
  for (const name of boundBy(stmt)) {
    if (!wellFormed.test(name))
      yield {
        at: site,
        message: `'${name}' is no name`,
        hint: "letters, digits and _, not beginning with a digit",
      };
    if (scope.has(name))
      yield { at: site, message: `loop variable %${name} hides an outer one`, hint: "rename the inner one" };
  }
  for (const name of [...viewsOf(stmt).map(({ buffer }) => buffer), ...tilesNamed(stmt)])
    if (!subject.buffers.has(name)) yield missing(site, "buffer", name, subject.buffers.keys());
  const ring = ringNamed(stmt);
  if (ring !== undefined && !subject.rings.has(ring)) yield missing(site, "ring", ring, subject.rings.keys());
  for (const name of pipelinesOf(stmt))
    if (!scope.has(name)) yield missing(site, "pipeline of the role", name, scope);
  const used = new Set<string>();
  const counts = stmt.kind === "tiles" ? [...(stmt.symbolic ?? []), stmt.loop?.chunks] : [];
  for (const e of [...exprsOf(stmt), ...counts]) if (e != null) freeVars(e, used);
  for (const name of used) if (!scope.has(name)) yield missing(site, "loop variable in scope", name, scope);
}

/** Tiles that a statement names as a whole. */
const tilesNamed = (stmt: Stmt): readonly string[] =>
  stmt.kind === "if"
    ? (stmt.zeros ?? [])
    : stmt.kind === "tensormap.make"
      ? stmt.maps.map(({ buffer }) => buffer)
      : stmt.kind === "pin" || stmt.kind === "rename"
        ? [stmt.tile]
        : [];

function ringNamed(stmt: Stmt): string | undefined {
  if ("barrier" in stmt) return stmt.barrier.ring;
  if (stmt.kind === "pipeline") return stmt.of;
  return "ring" in stmt ? stmt.ring : stmt.kind === "tiles" ? stmt.loop?.ring : undefined;
}

/** Loop variables that a statement binds for its body. */
function boundBy(stmt: Stmt): readonly string[] {
  if (stmt.kind === "tiles")
    return [
      ...stmt.vars,
      ...(stmt.split ? [stmt.split.var] : []),
      ...(stmt.streamK ? [stmt.streamK.first, stmt.streamK.count] : []),
      ...tileLoopVars(stmt.loop),
    ];
  if (stmt.kind === "role") return pipelineNames(stmt.body);
  return stmt.kind === "for" ? [stmt.var] : [];
}

/** Pipelines that a statement names but as the slot of a view. */
function pipelinesOf(stmt: Stmt): readonly string[] {
  if (stmt.kind === "advance" || stmt.kind === "hold") return [stmt.pipeline];
  return "barrier" in stmt ? [stmt.barrier.pipeline] : [];
}
