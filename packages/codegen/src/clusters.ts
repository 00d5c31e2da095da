/**
 * Blocks of a cluster: where this one stands, who shares its copies. A cluster's blocks lie along x of the grid; rank r of a cluster of M x N blocks has
 * tile row r % M and column r / M inside the cluster's tiles.
 */
import { clusterSize } from "@tilewright/ir";
import { imm, special } from "@tilewright/ptx";
import type { Reg } from "./code.ts";
import type { Context } from "./context.ts";

type U32 = Reg<"u32">;

/** Number of this block's cluster along x of the grid. */
export const clusterNumber = (ctx: Context): U32 =>
  ctx.crewValue(CLUSTER, (code) => {
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
    ctx.crewValue(key, (code) => {
      const d = ctx.entry.reg("u32", "cluster");
      code.emit(null, "mov.u32", d, special("%ctaid.x"));
      code.emit(null, mnemonic, d, d, imm(size));
      return d;
    });
}

/** This block's rank in its cluster. */
export const clusterRank = (ctx: Context): U32 =>
  ctx.crewValue(RANK, (code) => {
    const d = ctx.entry.reg("u32", "rank");
    code.emit(null, "mov.u32", d, special("%cluster_ctarank"));
    return d;
  });

/** This block's place along an axis of its cluster; null where the cluster has one block there. */
export function clusterPlace(ctx: Context, axis: "m" | "n"): U32 | null {
  const [m, n] = ctx.program.launch.cluster;
  if ((axis === "m" ? m : n) === 1) return null;
  const rank = clusterRank(ctx);
  if ((axis === "m" ? n : m) === 1) return rank;
  return ctx.crewValue(`cluster ${axis}`, (code) => {
    const d = ctx.entry.reg("u32", "rank");
    if (axis === "m") code.emit(null, "rem.u32", d, rank, imm(m));
    else code.emit(null, "div.u32", d, rank, imm(m));
    return d;
  });
}

/** Blocks along `axis` of this block's cluster, itself included, as the mask that a multicast takes. */
export function multicastMask(ctx: Context, axis: "m" | "n"): Reg<"u16"> {
  return ctx.crewValue(`multicast ${axis}`, (code) => {
    const [m, n] = ctx.program.launch.cluster;
    // Along m ranks follow each other; along n they are m apart.
    const pattern =
      axis === "m" ? 2 ** m - 1 : Array.from({ length: n }, (_, j) => 2 ** (j * m)).reduce((a, b) => a + b);
    const shift = axis === "m" ? clusterPlace(ctx, "n") : clusterPlace(ctx, "m");
    const mask = ctx.entry.reg("u32", "mask");
    const d = ctx.entry.reg("u16", "mask_h_");
    code.emit(null, "mov.u32", mask, imm(pattern));
    if (shift !== null) {
      const by = ctx.entry.reg("u32", "shift");
      if (axis === "m") code.emit(null, "mul.lo.u32", by, shift, imm(m));
      else code.emit(null, "mov.u32", by, shift);
      code.emit(null, "shl.b32", mask, mask, by);
    }
    code.emit(null, "cvt.u16.u32", d, mask);
    return d;
  });
}

/**
 * Rank of the block that thread `index` of a group tells about a slot: those with which this block shares copies, itself among them. Along one axis
 * they are counted along it; where both operands are shared, first along n, then the others along m.
 */
export function peerRank(ctx: Context, index: U32, axes: ReadonlySet<"m" | "n">): U32 {
  return ctx.crewValue("peer", (code) => {
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
