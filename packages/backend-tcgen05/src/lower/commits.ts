/** Commits: an mbarrier is told when the matrix instructions that a thread has issued are done. */
import { barrierAt, CannotLower, type Context, type Reg, type StmtOf } from "@tilewright/codegen";
import { blocksOfTile, type Reach } from "@tilewright/ir";
import { unitMask, writersMask } from "./units.ts";

type Mask = (ctx: Context) => Reg<"u16">;

/** Blocks whose barriers a commit tells; null: the own one's. */
const masks: Readonly<Partial<Record<Reach, Mask | null>>> = {
  own: null,
  pair: unitMask,
  "peers-m": (ctx) => writersMask(ctx, new Set(["m"])),
  "peers-n": (ctx) => writersMask(ctx, new Set(["n"])),
  "peers-mn": (ctx) => writersMask(ctx, new Set(["m", "n"])),
};

export function lowerCommit(ctx: Context, { barrier, to }: StmtOf<"tcgen05.commit">): void {
  const mask = masks[to];
  if (mask === undefined) throw new CannotLower("tcgen05.commit", `no mask reaches ${to}`);
  const form = `tcgen05.commit.cta_group::${blocksOfTile(ctx.program)}.mbarrier::arrive::one.shared::cluster`;
  const at = barrierAt(ctx, barrier);
  if (mask === null) ctx.body.emitAny(null, `${form}.b64`, [at]);
  else ctx.body.emitAny(null, `${form}.multicast::cluster.b64`, [at, mask(ctx)]);
}
