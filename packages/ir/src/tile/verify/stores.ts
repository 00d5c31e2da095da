/** How D goes through a shared tile: its columns once, by the warps, or groups of them, that own them. */
import { takesColumn } from "../columns.ts";
import { bulkStoreOf } from "../launches/tensorMaps.ts";
import { bufferOf } from "../rewrite.ts";
import { warpColumns } from "../staged.ts";
import type { Columns, Epilogue, Stmt, StmtKind } from "../types.ts";
import type { Fault, Site, Subject, Verifier } from "./verifier.ts";

/** What an epilogue is made of whose tile bulk stores take, or the threads. */
const within: Readonly<Record<"bulk" | "warps", ReadonlySet<StmtKind>>> = {
  bulk: new Set(["stage", "fence", "barrier", "bulk.store", "bulk.commit", "bulk.wait"]),
  warps: new Set(["stage", "warp.sync", "barrier", "warp.store"]),
};
/** Those that stand nowhere else. */
const only: ReadonlySet<StmtKind> = new Set(["stage", "bulk.store", "bulk.commit", "warp.store"]);

export const stores: Verifier = {
  name: "stores",
  code: "TW3165",
  property:
    "an epilogue through a shared tile puts each of its columns into a slot once, and has the slot stored before it is filled again; bulk stores meet by the groups of warps that own rows and columns, warps that store what they have put there before and behind that",
  from: "machine",
  waivable: "values",
  *check(subject) {
    for (const site of subject.sites) {
      const { stmt, parents } = site;
      // Of bulk copies that add partial tiles the rule `reductions` knows.
      if (parents.some(({ kind }) => kind === "partial.reduce")) continue;
      const around = parents.at(-1);
      const inside = around?.kind === "epilogue";
      const way = inside && around.stores !== undefined ? "warps" : "bulk";
      if (
        inside
          ? !within[way].has(stmt.kind)
          : only.has(stmt.kind) || ("groups" in stmt && stmt.kind === "barrier")
      )
        yield {
          at: site,
          message: `${stmt.kind} stands ${inside ? "in" : "outside of"} an epilogue ${way === "bulk" ? "by bulk stores" : "whose threads store"}`,
          hint: `in an epilogue with via: ${[...within[way]].join(", ")}`,
          needed: true,
        };
      if (stmt.kind === "epilogue") yield* epilogueFaults(subject, site, stmt);
    }
  },
};

function* epilogueFaults(subject: Subject, site: Site, stmt: Epilogue): Iterable<Fault> {
  const { program, sites } = subject;
  const { via } = stmt;
  if (via === null) {
    if (stmt.body.length > 0)
      yield {
        at: site,
        message: "has statements of a shared tile, and D goes to memory straight from registers",
        hint: "write via %TILE, or no statements",
      };
    return;
  }
  // Before the pass has written them there is nothing to look at.
  if (program.machine === undefined) return;
  const role = site.parents.find((parent) => parent.kind === "role");
  const warps = role?.kind === "role" ? role.warps : program.launch.threads / 32;
  const bulk = stmt.stores === undefined;
  const store = bulk ? bulkStoreOf(program, stmt, warps) : null;
  // `bulkTiles` says so.
  if (typeof store === "string") return;
  const groups = store?.groups ?? { m: 1, n: warpColumns(bufferOf(program, stmt.acc.buffer).own) };
  const count = groups.m * groups.n;
  if (!bulk) yield* warpFaults(subject, site, stmt, warps);
  const at = (each: Stmt): Site => sites.find((one) => one.stmt === each) ?? site;
  const take = bulk ? "bulk.store behind the fence and the barrier" : "warp.store behind warp.sync";
  const width = stmt.acc.extent[1] / groups.n;
  // `ownership` says so.
  if (!Number.isInteger(width)) return;
  const slot = bufferOf(program, via.buffer).shape[1] / groups.n;
  const staged = new Array<number>(width).fill(0);
  const open = new Map<string, Columns>();
  for (const each of stmt.body)
    switch (each.kind) {
      case "barrier": {
        if (!bulk) break;
        const threads = (32 * warps) / count;
        if (!Number.isInteger(Math.log2((32 * warps) / (each.groups ?? 1))))
          yield {
            at: at(each),
            message: `${each.groups ?? 1} groups of ${32 * warps} threads store, and those of a group are a power of two`,
            hint: `threads ${threads} groups ${count}`,
            needed: true,
          };
        if (each.groups !== count || each.threads !== threads)
          yield {
            at: at(each),
            message: `${each.groups ?? 1} groups of ${each.threads ?? 32 * warps} threads meet, and ${count} of ${threads} store`,
            hint: `threads ${threads} groups ${count}`,
          };
        break;
      }
      case "stage": {
        const { from, to, of } = each.columns;
        if (of !== width || from >= to || to > width) {
          yield {
            at: at(each),
            message: `puts columns ${from} .. ${to} of ${of} into the tile, and a group of warps owns ${width}`,
            hint: `from < to <= ${width}, of ${width}`,
          };
          break;
        }
        const key = JSON.stringify(each.via);
        if (open.has(key))
          yield {
            at: at(each),
            message: "fills a slot again, and nothing has stored what was put into it",
            hint: `${take} before it`,
          };
        for (let col = from; col < to; col++) staged[col] = (staged[col] ?? 0) + 1;
        open.set(key, each.columns);
        break;
      }
      case "bulk.store":
      case "warp.store": {
        const key = JSON.stringify(each.via);
        const { from, to } = open.get(key) ?? { from: 0, to: 0 };
        const { of } = each.columns;
        if (each.kind === "bulk.store" && (of !== width || each.columns.to - each.columns.from !== slot))
          yield {
            at: at(each),
            message: `stores columns ${each.columns.from} to ${each.columns.to - 1} of ${of}, and a slot of %${via.buffer} has ${slot} of ${width}`,
            hint: `${slot} columns of ${width}`,
            needed: true,
          };
        open.delete(key);
        if (from !== each.columns.from || to !== each.columns.to)
          yield {
            at: at(each),
            message: `stores columns ${each.columns.from} to ${each.columns.to - 1} from a slot that ${to === 0 ? "nothing has been put into" : `has ${from} to ${to - 1}`}`,
            hint: "stage the same columns in the same slot before it, once for each store",
          };
        break;
      }
      default:
    }
  const wrong = staged.findIndex((times, col) => times !== (takesColumn(stmt.columns, col) ? 1 : 0));
  if (wrong >= 0 || staged.length !== width)
    yield {
      at: site,
      message: `column ${wrong < 0 ? width : wrong} of each ${width} goes through the tile ${staged[wrong] ?? 1} times`,
      hint: `stage and ${take} for each of the columns, once`,
    };
  const [left] = open.values();
  if (left !== undefined)
    yield {
      at: site,
      message: `columns ${left.from} to ${left.to - 1} are in the tile, and nothing stores them`,
      hint: take,
    };
}

/** Lanes of a warp meet between what they put into the tile and what they take out of it, either way; all warps where the tile lies on what the others read. */
function* warpFaults(
  { program, sites }: Subject,
  site: Site,
  stmt: Epilogue,
  warps: number,
): Iterable<Fault> {
  const lies = stmt.via !== null && bufferOf(program, stmt.via.buffer).aliased === true;
  const whole = 32 * warps === program.launch.threads;
  let met: "none" | "lanes" | "all" = "none";
  let first = true;
  for (const each of stmt.body) {
    const at = sites.find((one) => one.stmt === each) ?? site;
    switch (each.kind) {
      case "warp.sync":
        met = met === "none" ? "lanes" : met;
        break;
      case "barrier":
        met = "all";
        if (each.threads !== undefined || each.arrive === true || (each.id === 0) !== whole)
          yield {
            at,
            message: `some of the ${32 * warps} threads meet that put D into the tile, or others`,
            hint: whole ? "barrier 0" : "barrier 1, which is the role's alone",
          };
        break;
      case "stage":
        if (lies && first && met !== "all")
          yield {
            at,
            message: "puts D where the rings are while other warps may still read chunks",
            hint: `barrier ${whole ? 0 : 1} in front`,
          };
        else if (met === "none")
          yield {
            at,
            message: "fills the tile while lanes of the warp may still store what was there before",
            hint: "warp.sync in front",
          };
        met = "none";
        first = false;
        break;
      case "warp.store":
        if (met === "none")
          yield {
            at,
            message: "stores what other lanes of the warp may not have put into the tile yet",
            hint: "warp.sync in front",
          };
        met = "none";
        break;
      default:
    }
  }
}
