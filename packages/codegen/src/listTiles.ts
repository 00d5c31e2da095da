/**
 * Blocks that stay and go through the tiles of all groups of a grouped problem: one list, in the order of the groups and of the raster in each. Every role of a
 * block walks it by itself, a group's row of the table at a time, and takes one tile in as many as there are blocks (or clusters).
 */
import { type Stmt, type Visit, v } from "@tilewright/ir";
import { type IntegerOperand, imm, special } from "@tilewright/ptx";
import { clusterSize } from "./clusters.ts";
import type { Reg } from "./code.ts";
import { CannotLower, type Context } from "./context.ts";
import type { StmtOf } from "./engine.ts";
import { turnToMaps } from "./groupMaps.ts";
import { type Count, countOf } from "./sizes.ts";
import { clustersOf, place } from "./tilePlace.ts";

type Tiles = StmtOf<"tiles">;

const operand = (count: Count): Reg<"u32"> | IntegerOperand =>
  typeof count === "number" ? imm(count) : count;

/** The loop over the tiles of the list. Blocks beyond its end have none. */
export function visitList(
  ctx: Context,
  stmt: Tiles,
  visit: Visit,
  lower: (stmts: readonly Stmt[]) => void,
): void {
  const { program, entry, body } = ctx;
  const { batch } = program.problem;
  if (batch.kind !== "grouped") throw new CannotLower("tiles", "one problem is no list");
  const clustered = clusterSize(program) > 1;
  const register = (name: string, value: ReturnType<typeof special> | ReturnType<typeof imm>) => {
    const d = entry.reg("u32", name);
    body.emit(null, "mov.u32", d, value);
    return d;
  };
  const tile = register("tile", special(clustered ? "%clusterid.x" : "%ctaid.x"));
  const step = register("tile", special(clustered ? "%nclusterid.x" : "%nctaid.x"));
  // Before the first group: it begins and ends at 0.
  const group = register("group", imm(0xffffffff));
  const [first, end] = [register("first", imm(0)), register("first", imm(0))];
  const [again, found, done] = [entry.label("list"), entry.label("tile"), entry.label("list_end")];
  const [here, over] = [entry.reg("pred", "p"), entry.reg("pred", "p")];
  body.label(again);
  body.emit(null, "setp.lt.u32", here, tile, end);
  body.emit(here, "bra", found);
  body.emit(null, "add.u32", group, group, imm(1));
  body.emit(null, "setp.ge.u32", over, group, imm(batch.count));
  body.emit(over, "bra", done);
  body.emit(null, "mov.u32", first, end);
  ctx.group = group;
  ctx.scope(() => {
    const tiles = clustersOf(ctx, stmt);
    const depth = countOf(ctx, v("k"));
    const [all, none] = [entry.reg("u32", "tiles"), entry.reg("pred", "p")];
    ctx.body.emit(null, "setp.eq.u32", none, operand(depth), imm(0));
    ctx.body.emit(null, "selp.b32", all, imm(0), operand(tiles), none);
    ctx.body.emit(null, "add.u32", end, end, all);
  });
  ctx.body.emit(null, "bra", again);
  ctx.body.label(found);
  ctx.tileLoop = { following: null, visit };
  ctx.scope(() => {
    turnToMaps(ctx, stmt, group);
    place(ctx, stmt, ctx.values.difference(tile, first));
    lower(stmt.body);
  });
  ctx.tileLoop = null;
  ctx.group = null;
  ctx.body.emit(null, "add.u32", tile, tile, step);
  ctx.body.emit(null, "bra", again);
  ctx.body.label(done);
}
