/** How D goes through a shared tile by bulk stores: its columns once, by the groups of warps that own them. */
import { takesColumn } from "../columns.ts";
import { bulkStoreOf } from "../launches/tensorMaps.ts";
import { storesInBulk } from "../staged.ts";
import type { Columns, Stmt, StmtKind } from "../types.ts";
import type { Fault, Site, Subject, Verifier } from "./verifier.ts";

type Epilogue = Extract<Stmt, { kind: "epilogue" }>;

/** What an epilogue by bulk stores is made of. */
const within: ReadonlySet<StmtKind> = new Set([
  "stage",
  "fence",
  "barrier",
  "bulk.store",
  "bulk.commit",
  "bulk.wait",
]);
/** Those that stand nowhere else. */
const only: ReadonlySet<StmtKind> = new Set(["stage", "bulk.store", "bulk.commit"]);

export const stores: Verifier = {
  name: "stores",
  code: "TW3165",
  property:
    "an epilogue by bulk stores puts each of its columns into a slot of its tile once, and has the slot stored before it is filled again; its barriers are those of the groups of warps that own rows and columns",
  from: "machine",
  waivable: true,
  *check(subject) {
    for (const site of subject.sites) {
      const { stmt, parents } = site;
      const inside = parents.at(-1)?.kind === "epilogue";
      if (
        inside ? !within.has(stmt.kind) : only.has(stmt.kind) || ("groups" in stmt && stmt.kind === "barrier")
      )
        yield {
          at: site,
          message: `${stmt.kind} stands ${inside ? "in" : "outside of"} an epilogue by bulk stores`,
          hint: `in an epilogue with via: ${[...within].join(", ")}`,
        };
      if (stmt.kind === "epilogue") yield* epilogueFaults(subject, site, stmt);
    }
  },
};

function* epilogueFaults(subject: Subject, site: Site, stmt: Epilogue): Iterable<Fault> {
  const { program, sites } = subject;
  if (!storesInBulk(stmt)) {
    if (stmt.body.length > 0)
      yield {
        at: site,
        message: "has statements of bulk stores, and D goes to memory otherwise",
        hint: "write via %TILE without stores, or no statements",
      };
    return;
  }
  // Before the pass has written them there is nothing to look at.
  if (program.machine === undefined) return;
  const role = site.parents.find((parent) => parent.kind === "role");
  const warps = role?.kind === "role" ? role.warps : program.launch.threads / 32;
  const store = bulkStoreOf(program, stmt, warps);
  // `bulkTiles` says so.
  if (typeof store === "string") return;
  const { groups } = store;
  const count = groups.m * groups.n;
  const at = (each: Stmt): Site => sites.find((one) => one.stmt === each) ?? site;
  const width = stmt.acc.extent[1] / groups.n;
  const staged = new Array<number>(width).fill(0);
  const open = new Map<string, Columns>();
  for (const each of stmt.body)
    switch (each.kind) {
      case "barrier": {
        const threads = (32 * warps) / count;
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
            hint: "bulk.store behind the fence and the barrier, before it",
          };
        for (let col = from; col < to; col++) staged[col] = (staged[col] ?? 0) + 1;
        open.set(key, each.columns);
        break;
      }
      case "bulk.store": {
        const key = JSON.stringify(each.via);
        const { from, to } = open.get(key) ?? { from: 0, to: 0 };
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
      hint: "stage and bulk.store for each of the columns, once",
    };
  const [left] = open.values();
  if (left !== undefined)
    yield {
      at: site,
      message: `columns ${left.from} to ${left.to - 1} are in the tile, and nothing stores them`,
      hint: "bulk.store behind the fence and the barrier",
    };
}
