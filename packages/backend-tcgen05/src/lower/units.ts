/** Where a block stands in its cluster: the unit (block or pair) along m and n, and which blocks a copy or a commit reaches. */
import type { Context, Reg } from "@tilewright/codegen";
import { blocksOfTile, clusterUnits } from "@tilewright/ir";
import { imm } from "@tilewright/ptx";

type U32 = Reg<"u32">;

/** Blocks of a cluster are numbered along m first; a pair is two neighbours. */
export function unitAlong(ctx: Context, axis: "m" | "n"): U32 {
  const group = blocksOfTile(ctx.program);
  const [across] = ctx.program.launch.cluster;
  const { values } = ctx;
  if (axis === "n") return values.divide(values.rank(), across);
  return values.divide(values.modulo(values.rank(), across, Number.POSITIVE_INFINITY), group);
}

/** The bits of blocks `every` apart, `count` of them, each as wide as `bits`. */
const comb = (bits: number, every: number, count: number): number =>
  Array.from({ length: count }, (_, i) => bits * 2 ** (every * i)).reduce((sum, x) => sum + x, 0);

const blocksOfUnit = (ctx: Context): number => (blocksOfTile(ctx.program) === 2 ? 3 : 1);

function shifted(ctx: Context, key: string, mask: number, by: U32): U32 {
  return ctx.invariant(key, (code) => {
    const d = ctx.entry.reg("u32", "mask");
    code.emit(null, "mov.u32", d, imm(mask));
    code.emit(null, "shl.b32", d, d, by);
    return d;
  });
}

/** As commits and copies take it. */
const half = (ctx: Context, key: string, make: () => U32): Reg<"u16"> =>
  ctx.invariant(`${key} (16 bits)`, (code) => {
    const wide = make();
    const d = ctx.entry.reg("u16", "mask_h");
    code.emit(null, "cvt.u16.u32", d, wide);
    return d;
  });

/** The blocks of this unit. */
export const unitMask = (ctx: Context): Reg<"u16"> =>
  half(ctx, "unit's blocks", () => {
    const group = blocksOfTile(ctx.program);
    const first = ctx.values.scale(ctx.values.divide(ctx.values.rank(), group), group);
    return shifted(ctx, "unit's blocks", blocksOfUnit(ctx), first);
  });

/** The blocks into whose slots this block copies along an axis: those that hold the same half of the same operand. */
export const copyMask = (ctx: Context, axis: "m" | "n"): Reg<"u16"> =>
  half(ctx, `copies along ${axis}`, () => {
    const group = blocksOfTile(ctx.program);
    const [across] = ctx.program.launch.cluster;
    const [m, n] = clusterUnits(ctx.program.launch);
    const { values } = ctx;
    const rank = values.rank();
    if (axis === "n")
      return shifted(
        ctx,
        "copies along n",
        comb(1, across, n),
        values.modulo(rank, across, Number.POSITIVE_INFINITY),
      );
    const along = values.scale(unitAlong(ctx, "m"), group);
    return shifted(ctx, "copies along m", comb(1, group, m), values.difference(rank, along));
  });

/** The blocks that copy into the slots of this unit: they may do so again once it has read them. */
export const writersMask = (ctx: Context, shared: ReadonlySet<"m" | "n">): Reg<"u16"> =>
  half(ctx, "writers", () => {
    const group = blocksOfTile(ctx.program);
    const [across] = ctx.program.launch.cluster;
    const [m, n] = clusterUnits(ctx.program.launch);
    const bits = blocksOfUnit(ctx);
    const { values } = ctx;
    const row = shifted(
      ctx,
      "writers along n",
      shared.has("n") ? comb(bits, across, n) : 0,
      values.scale(unitAlong(ctx, "m"), group),
    );
    const column = shifted(
      ctx,
      "writers along m",
      shared.has("m") ? comb(bits, group, m) : 0,
      values.scale(unitAlong(ctx, "n"), across),
    );
    const own = values.scale(values.divide(values.rank(), group), group);
    const self = shifted(ctx, "unit's blocks", bits, own);
    return ctx.invariant("writers", (code) => {
      const d = ctx.entry.reg("u32", "mask");
      code.emit(null, "or.b32", d, row, column);
      code.emit(null, "or.b32", d, d, self);
      return d;
    });
  });
