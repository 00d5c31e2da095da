/**
 * Blocks of a cluster: where this one stands, who shares its copies. A cluster's blocks lie along x of the grid; rank r of a cluster of M x N blocks has
 * tile row r % M and column r / M inside the cluster's tiles. Pairs, whose blocks are neighbours, have a tile together, and count as one.
 */
import { blocksOfTile, clusterSize, clusterUnits } from "@tilewright/ir";
import { imm, special } from "@tilewright/ptx";
import type { Pred, Reg } from "./code.ts";
import type { Context } from "./context.ts";

type U32 = Reg<"u32">;

/** Number of this block's cluster along x of the grid. */
export const clusterNumber = (ctx: Context): U32 =>
  ctx.roleValue(CLUSTER, (code) => {
    const d = ctx.entry.reg("u32", "cluster");
    code.emit(null, "mov.u32", d, special("%clusterid.x"));
    return d;
  });

const [CLUSTER, RANK] = ["cluster number", "cluster rank"];

/** For a kernel without clusters whose blocks along x stand for those of one with clusters: their numbers by arithmetic. */
export function numberClusters(ctx: Context): void {
  const size = clusterSize(ctx.program);
  if (size === 1) return;
  for (const [key, mnemonic] of [
    [CLUSTER, "div.u32"],
    [RANK, "rem.u32"],
  ] as const)
    ctx.roleValue(key, (code) => {
      const d = ctx.entry.reg("u32", "cluster");
      code.emit(null, "mov.u32", d, special("%ctaid.x"));
      code.emit(null, mnemonic, d, d, imm(size));
      return d;
    });
}

/** This block's rank in its cluster. */
export const clusterRank = (ctx: Context): U32 =>
  ctx.roleValue(RANK, (code) => {
    const d = ctx.entry.reg("u32", "rank");
    code.emit(null, "mov.u32", d, special("%cluster_ctarank"));
    return d;
  });

/** True in the first block of a pair, or of the cluster. */
export const isLeader = (ctx: Context, of: "pair" | "cluster"): Pred =>
  ctx.roleValue(`leads its ${of}`, (code) => {
    const rank = clusterRank(ctx);
    const p = ctx.entry.reg("pred", "p");
    if (of === "cluster") code.emit(null, "setp.eq.u32", p, rank, imm(0));
    else {
      const bit = ctx.entry.reg("u32", "rank");
      code.emit(null, "and.b32", bit, rank, imm(1));
      code.emit(null, "setp.eq.u32", p, bit, imm(0));
    }
    return p;
  });

/** Which block of its pair this is: 0 is the leader. */
export const placeInPair = (ctx: Context): U32 =>
  ctx.roleValue("place in the pair", (code) => {
    const d = ctx.entry.reg("u32", "half");
    code.emit(null, "and.b32", d, clusterRank(ctx), imm(1));
    return d;
  });

/** This block's rank in its cluster, or that of its pair among pairs. */
function unitRank(ctx: Context): U32 {
  const rank = clusterRank(ctx);
  if (blocksOfTile(ctx.program) === 1) return rank;
  return ctx.roleValue("rank of the pair", (code) => {
    const d = ctx.entry.reg("u32", "pair");
    code.emit(null, "shr.u32", d, rank, imm(1));
    return d;
  });
}

/** The place of this block (or pair) along an axis of its cluster; null where the cluster has one there. */
export function clusterPlace(ctx: Context, axis: "m" | "n"): U32 | null {
  const [m, n] = clusterUnits(ctx.program.launch);
  if ((axis === "m" ? m : n) === 1) return null;
  const rank = unitRank(ctx);
  if ((axis === "m" ? n : m) === 1) return rank;
  return ctx.roleValue(`cluster ${axis}`, (code) => {
    const d = ctx.entry.reg("u32", "rank");
    if (axis === "m") code.emit(null, "rem.u32", d, rank, imm(m));
    else code.emit(null, "div.u32", d, rank, imm(m));
    return d;
  });
}

/** A mask of so many blocks, `every` ranks apart; `bits`: of the first, and of those that go with it. */
export const blocksApart = (every: number, count: number, bits = 1): number =>
  Array.from({ length: count }, (_, i) => bits * 2 ** (every * i)).reduce((sum, bit) => sum + bit, 0);

/** Blocks along `axis` of this block's cluster that hold what it holds, itself included, as the mask that a multicast takes. */
export function multicastMask(ctx: Context, axis: "m" | "n"): Reg<"u16"> {
  return ctx.roleValue(`multicast ${axis}`, (code) => {
    const [m, n] = clusterUnits(ctx.program.launch);
    // Along m units follow each other; along n they are a column of blocks apart.
    const [group, column] = [blocksOfTile(ctx.program), ctx.program.launch.cluster[0]];
    const pattern = axis === "m" ? blocksApart(group, m) : blocksApart(column, n);
    const shift = axis === "m" ? clusterPlace(ctx, "n") : clusterPlace(ctx, "m");
    const apart = axis === "m" ? column : group;
    const half = group === 1 ? null : placeInPair(ctx);
    const mask = ctx.entry.reg("u32", "mask");
    const d = ctx.entry.reg("u16", "mask_h_");
    code.emit(null, "mov.u32", mask, imm(pattern));
    if (shift !== null) {
      const by = ctx.entry.reg("u32", "shift");
      if (apart === 1) code.emit(null, "mov.u32", by, shift);
      else code.emit(null, "mul.lo.u32", by, shift, imm(apart));
      code.emit(null, "shl.b32", mask, mask, by);
    }
    if (half !== null) code.emit(null, "shl.b32", mask, mask, half);
    code.emit(null, "cvt.u16.u32", d, mask);
    return d;
  });
}

/**
 * Rank of the block that thread `index` of a group tells about a slot: those with which this block shares copies, itself among them. Along one axis
 * they are counted along it; where both operands are shared, first along n, then the others along m.
 */
export function peerRank(ctx: Context, index: U32, axes: ReadonlySet<"m" | "n">): U32 {
  return ctx.roleValue("peer", (code) => {
    const [m, n] = ctx.program.launch.cluster;
    const zero = (axis: "m" | "n"): U32 => {
      const place = clusterPlace(ctx, axis);
      if (place !== null) return place;
      const d = ctx.entry.reg("u32", "rank");
      code.emit(null, "mov.u32", d, imm(0));
      return d;
    };
    const [row, col] = [zero("m"), zero("n")];
    const d = ctx.entry.reg("u32", "peer");
    const alongM = (at: U32): void => code.emit(null, "mad.lo.u32", d, col, imm(m), at);
    if (!axes.has("n")) alongM(index);
    else {
      code.emit(null, "mad.lo.u32", d, index, imm(m), row);
      if (axes.has("m")) {
        // Beyond the n blocks of the row: the column's blocks without this one.
        const [rest, more, beyond, skip] = [
          ctx.entry.reg("u32", "peer"),
          ctx.entry.reg("u32", "peer"),
          ctx.entry.reg("pred", "p"),
          ctx.entry.reg("pred", "p"),
        ];
        code.emit(null, "setp.ge.u32", beyond, index, imm(n));
        code.emit(null, "sub.u32", rest, index, imm(n));
        code.emit(null, "setp.ge.u32", skip, rest, row);
        code.emit(null, "add.u32", more, rest, imm(1));
        code.emit(null, "selp.b32", rest, more, rest, skip);
        code.emit(beyond, "mad.lo.u32", d, col, imm(m), rest);
      }
    }
    return d;
  });
}
