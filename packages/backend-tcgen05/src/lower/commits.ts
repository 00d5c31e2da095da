/** Commits: an mbarrier is told when the matrix instructions that a thread has issued are done. */
import {
  barrierAt,
  blocksApart,
  type Context,
  clusterPlace,
  clusterRank,
  type Reg,
  type StmtOf,
} from "@tilewright/codegen";
import { blocksOfTile, clusterUnits, type Reach } from "@tilewright/ir";
import { imm } from "@tilewright/ptx";

type U32 = Reg<"u32">;

/** Blocks `apart` ranks on from those of a mask, for each of `by`. */
function moved(ctx: Context, mask: number, by: U32 | null, apart = 1): U32 {
  const d = ctx.entry.reg("u32", "mask");
  ctx.rolePrologue.emit(null, "mov.u32", d, imm(mask));
  if (by === null) return d;
  const ranks = ctx.entry.reg("u32", "shift");
  ctx.rolePrologue.emit(null, "mul.lo.u32", ranks, by, imm(apart));
  ctx.rolePrologue.emit(null, "shl.b32", d, d, ranks);
  return d;
}

/** The blocks of the unit (block or pair). */
function ownBlocks(ctx: Context): U32 {
  const group = blocksOfTile(ctx.program);
  const first = ctx.entry.reg("u32", "first");
  const rank = clusterRank(ctx);
  ctx.rolePrologue.emit(null, "and.b32", first, rank, imm(group === 2 ? 0xfffffffe : 0xffffffff));
  return moved(ctx, group === 2 ? 3 : 1, first);
}

/** The blocks of all units along an axis of the cluster, this one's among them: those that copy into its slots, and may do so again once it has read them. */
function blocksAlong(ctx: Context, axis: "m" | "n"): U32 {
  const [group, column] = [blocksOfTile(ctx.program), ctx.program.launch.cluster[0]];
  const [m, n] = clusterUnits(ctx.program.launch);
  const unit = group === 2 ? 3 : 1;
  return axis === "m"
    ? moved(ctx, blocksApart(group, m, unit), clusterPlace(ctx, "n"), column)
    : moved(ctx, blocksApart(column, n, unit), clusterPlace(ctx, "m"), group);
}

/** Blocks whose barriers a commit tells, besides the own one alone. */
const reached: Readonly<Record<Exclude<Reach<"commit">, "own">, readonly ((ctx: Context) => U32)[]>> = {
  pair: [ownBlocks],
  "peers-m": [(ctx) => blocksAlong(ctx, "m")],
  "peers-n": [(ctx) => blocksAlong(ctx, "n")],
  "peers-mn": [(ctx) => blocksAlong(ctx, "m"), (ctx) => blocksAlong(ctx, "n")],
};

/** A mask as commits take it. */
const maskOf = (ctx: Context, to: keyof typeof reached): Reg<"u16"> =>
  ctx.roleValue(`mask of ${to}`, (code) => {
    const mask = reached[to]
      .map((make) => make(ctx))
      .reduce((all, part) => {
        code.emit(null, "or.b32", all, all, part);
        return all;
      });
    const d = ctx.entry.reg("u16", "mask_h");
    code.emit(null, "cvt.u16.u32", d, mask);
    return d;
  });

export function lowerCommit(ctx: Context, { barrier, to }: StmtOf<"tcgen05.commit">): void {
  const form = `tcgen05.commit.cta_group::${blocksOfTile(ctx.program)}.mbarrier::arrive::one.shared::cluster`;
  const at = barrierAt(ctx, barrier);
  if (to === "own") ctx.body.emitAny(null, `${form}.b64`, [at]);
  else ctx.body.emitAny(null, `${form}.multicast::cluster.b64`, [at, maskOf(ctx, to)]);
}
