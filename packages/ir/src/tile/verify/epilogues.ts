/** Epilogues read C exactly where beta asks for it, and pass D through tiles that have it. */

import { addsToD, quantizeOf } from "@tilewright/core";
import { contiguousIn } from "../../layout/layout.ts";
import { groupedColumns } from "../ownership.ts";
import { storeOwners } from "../staged.ts";
import type { Stmt, View } from "../types.ts";
import { bufferAt, type Fault, type Site, type Subject, type Verifier } from "./verifier.ts";

export const epilogues: Verifier = {
  name: "epilogues",
  code: "TW3120",
  property:
    "an epilogue has C iff beta is not 0, adds to D iff the problem does, from registers or by threads, asks the launch only for scalars that the problem leaves to it, passes D through a shared tile of D's dtype that divides it, and has columns that share a scale in one warp",
  from: "nest",
  *check(subject) {
    const { program, sites } = subject;
    for (const site of sites) {
      const { stmt } = site;
      if (stmt.kind !== "epilogue") continue;
      if ((stmt.c === null) !== (stmt.beta === 0))
        yield {
          at: site,
          message: stmt.c === null ? `beta is ${stmt.beta} and there is no C` : "reads C although beta is 0",
          hint: stmt.c === null ? "write c VIEW, or beta 0" : "remove c, or give beta a value",
        };
      const adds = stmt.adds === true;
      if (stmt.dst.buffer === "D" && adds !== addsToD(program.problem))
        yield {
          at: site,
          message: `${adds ? "adds to" : "stores"} %D, and the problem ${adds ? "stores" : "adds"}`,
          hint: adds ? "remove adds" : "write adds",
        };
      if (adds && stmt.via !== null && stmt.stores === undefined)
        yield {
          at: site,
          message: "adds to memory, and bulk copies store what is in the tile",
          hint: "write stores N, or no via",
        };
      const { c } = subject.program.problem;
      const read = stmt.c === null ? null : bufferAt(subject, stmt.c.buffer);
      if (read !== null && c !== null && read.dtype !== c.dtype)
        yield {
          at: site,
          message: `reads %${read.name}, ${read.dtype}, as C in ${c.dtype}`,
          hint: "write c %C",
        };
      if (stmt.via !== null) yield* through(subject, site, stmt.via, stmt.acc.extent);
      yield* groups(subject, site, stmt);
      yield* byThreads(subject, site, stmt);
      for (const name of ["alpha", "beta"] as const)
        if (stmt[name] === "runtime" && program.problem[name] !== "runtime")
          yield {
            at: site,
            message: `${name} is left to the launch, and the problem says ${program.problem[name]}`,
            hint: `write ${name} ${program.problem[name]}`,
          };
    }
  },
};

/** Columns that share a scale: whole groups of what is stored, each in one warp. */
function* groups(subject: Subject, site: Site, stmt: Extract<Stmt, { kind: "epilogue" }>): Iterable<Fault> {
  const group = quantizeOf({ epilogue: stmt.steps })?.step.group;
  if (group === undefined) return;
  const { own } = bufferAt(subject, stmt.acc.buffer);
  if (site.parents.some((s) => s.kind === "slices" || (s.kind === "reduce" && s.by === "slices")))
    yield {
      at: site,
      message: "CTAs store slices, which cut the columns that share a scale",
      hint: "by last",
    };
  const whole = stmt.dst.extent[1] % group === 0 && stmt.acc.extent[1] % group === 0;
  if (!whole || (own !== null && groupedColumns(own, group) === null))
    yield {
      at: site,
      message: `stores ${stmt.dst.extent[1]} columns, and ${whole ? "several warps have" : "they are no whole groups of"} the ${group} that share a scale`,
      hint: "a tile of whole groups, each in one warp",
    };
}

function* through(
  subject: Subject,
  site: Site,
  { buffer: name, extent: taken }: View,
  extent: readonly [number, number],
): Iterable<Fault> {
  const tile = bufferAt(subject, name);
  const { dtype } = subject.program.problem.d;
  if (tile.space !== "shared" || tile.dtype !== dtype)
    yield {
      at: site,
      message: `goes through %${name}, ${tile.dtype} in ${tile.space} memory`,
      hint: `declare it as shared %${name} ${dtype}[…]`,
    };
  else if (taken.some((size, axis) => size !== tile.shape[axis]))
    yield {
      at: site,
      message: `goes through ${taken.join(" x ")} of %${name}, which has ${tile.shape.join(" x ")}`,
      hint: `write via %${name}, with a slot where it has several`,
    };
  else if (tile.shape[0] !== extent[0] || extent[1] % tile.shape[1] !== 0)
    yield {
      at: site,
      message: `passes ${extent.join(" x ")} through ${tile.shape.join(" x ")}`,
      hint: `all ${extent[0]} rows, and a number of columns that divides ${extent[1]}`,
    };
  if (subject.program.rings.some((ring) => ring.buffers.includes(name)))
    yield { at: site, message: `goes through %${name}, which a ring manages`, hint: "a tile of its own" };
}

/** Tiles from which threads store: pieces for all lanes of a warp; and ones that lie where the rings do, when those have been read. */
function* byThreads(
  subject: Subject,
  site: Site,
  stmt: Extract<Stmt, { kind: "epilogue" }>,
): Iterable<Fault> {
  if (stmt.stores !== undefined && stmt.via === null)
    yield { at: site, message: "stores from no tile", hint: "write via %TILE, or leave stores out" };
  if (stmt.via === null) return;
  const tile = bufferAt(subject, stmt.via.buffer);
  const { own } = bufferAt(subject, stmt.acc.buffer);
  const along = bufferAt(subject, stmt.dst.buffer).layout?.stride[1] === 1 ? 1 : 0;
  const axis = tile.layout === null ? along : contiguousIn(tile);
  if (
    stmt.stores !== undefined &&
    own !== null &&
    storeOwners(own, tile.shape[1], axis, stmt.stores) === null
  )
    yield {
      at: site,
      message: `pieces of ${stmt.stores} elements do not divide among the lanes what a warp has of %${tile.name}`,
      hint: "write stores 1, or a tile of whole parts of the warps",
    };
  if (tile.aliased !== true) return;
  const loops = site.parents.some((s) => s.kind === "tiles" && (s.loop !== null || s.streamK !== undefined));
  if (stmt.stores === undefined || loops)
    yield {
      at: site,
      message: `%${tile.name} lies where the rings do, and ${loops ? "blocks go on to other tiles" : "bulk stores read it when roles have ended"}`,
      hint: "declare the tile without late",
    };
}
