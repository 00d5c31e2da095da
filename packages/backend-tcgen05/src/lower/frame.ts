/** Tensor memory around the roles, and the grid. */
import {
  CannotLower,
  type Context,
  type Frame,
  gridOf,
  problemsOf,
  type Statements,
  smemStart,
  tilesOf,
} from "@tilewright/codegen";
import type { KernelSpec, LaunchExpr } from "@tilewright/core";
import { eachStmt, type TileProgram } from "@tilewright/ir";
import { type AddressOperand, addr, imm } from "@tilewright/ptx";
import { clusterSize, stateOf } from "./state.ts";

export const frame: Frame = {
  // Without it ptxas keeps to 64 registers in clusters, and spills.
  blocksPerSm: () => 1,
  grid: gridOfUnits,
};

/** Tensor memory, by one warp of each block: of a pair both allocate, and give back. */
export const tensorStatements = {
  "tmem.alloc"(ctx, { columns }) {
    const group = `cta_group::${stateOf(ctx).group}`;
    ctx.body.emitAny(null, `tcgen05.alloc.${group}.sync.aligned.shared::cta.b32`, [word(ctx), imm(columns)]);
  },
  "tmem.relinquish"(ctx) {
    const group = `cta_group::${stateOf(ctx).group}`;
    ctx.body.emitAny(null, `tcgen05.relinquish_alloc_permit.${group}.sync.aligned`, []);
  },
  "tmem.base"(ctx) {
    const tensor = ctx.entry.reg("u32", "tensor");
    ctx.body.emit(null, "ld.shared.u32", tensor, word(ctx));
    stateOf(ctx).tensor = tensor;
    ctx.restartInvariants();
  },
  "tmem.dealloc"(ctx, { columns }) {
    const { tensor, group } = stateOf(ctx);
    if (tensor === null)
      throw new CannotLower("tmem.dealloc", "gives back columns whose address is not known");
    ctx.body.emitAny(null, `tcgen05.dealloc.cta_group::${group}.sync.aligned.b32`, [tensor, imm(columns)]);
  },
} satisfies Partial<Statements>;

/** Where the allocation leaves the address of its first column. */
function word(ctx: Context): AddressOperand {
  const { tensorAddress } = ctx.shared;
  if (tensorAddress === null)
    throw new CannotLower("tmem.alloc", "has no word in shared memory for its address");
  return addr(smemStart(ctx), tensorAddress);
}

/** A block or pair a tile; those that stay are as many as the GPU holds. */
function gridOfUnits(program: TileProgram): KernelSpec["launch"]["grid"] {
  const grid = gridOf(program);
  const loop = eachStmt(program.body).find((s) => s.kind === "tiles");
  // Shares are cut for so many blocks, however many the GPU holds.
  if (loop?.kind !== "tiles" || loop.streamK !== undefined) return grid;
  const blocks = clusterSize(program);
  const works = program.launch.pair === true ? 2 : 1;
  // The launch control hands out tiles that were launched, as if for blocks of their own.
  const stays = loop.loop !== null && !program.rings.some(({ transport }) => transport === "clc");
  const whole = wholeClusters(tilesOf(loop), works, blocks);
  const [, y, z] = grid;
  if (!stays) return [whole, y, z];
  const resident =
    blocks === 1 ? "numSms" : (["mul", blocks, ["max", 1, ["div", "numSms", blocks]]] as const);
  if (program.problem.batch.kind !== "grouped") return [["min", whole, resident], y, z];
  // No group has more tiles than that of the launch; blocks without one leave. All groups may be empty.
  const all: LaunchExpr = ["max", blocks, ["mul", problemsOf(program.problem), whole]];
  return [["min", all, resident], 1, 1];
}

/** Blocks for all tiles, `works` each, in whole clusters. */
function wholeClusters(tiles: LaunchExpr, works: number, blocks: number): LaunchExpr {
  if (typeof tiles === "number") return Math.ceil((tiles * works) / blocks) * blocks;
  // Tiles are counted in those of whole clusters where the launch counts them.
  return works === 1 ? tiles : ["mul", tiles, works];
}
