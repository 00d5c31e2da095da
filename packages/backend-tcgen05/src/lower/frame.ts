/** Around the roles: barriers and tensor memory before, meeting and giving back after. */
import { type Context, type Frame, gridOf, problemsOf, SMEM, tilesOf } from "@tilewright/codegen";
import { eachStmt, type KernelSpec, type LaunchExpr, type TileProgram } from "@tilewright/ir";
import { type AddressOperand, addr, imm, sym } from "@tilewright/ptx";
import { scratch, syncAll } from "./barriers.ts";
import { clusterSize, stateOf } from "./state.ts";

export const frame: Frame = {
  open,
  close,
  // Without it ptxas keeps to 64 registers in clusters, and spills.
  blocksPerSm: () => 1,
  grid: gridOfUnits,
};

/** The warp that allocates tensor memory, and gives it back: that of the matrix instructions, which has nothing else to begin with. */
const ALLOCATOR = 5;

/** Barriers have been made ready before this. */
function open(ctx: Context): void {
  const { tensorAddress } = ctx.shared;
  if (tensorAddress === null) return;
  const base = scratch(ctx, "smb");
  ctx.body.emit(null, "mov.u32", base, sym(SMEM));
  allocate(ctx, addr(base, tensorAddress));
  ctx.restartInvariants();
}

/** One warp allocates (in both blocks of a pair); the fences order that before what other threads do with the columns. */
function allocate(ctx: Context, address: AddressOperand): void {
  const state = stateOf(ctx);
  const { body, entry } = ctx;
  const done = entry.label("allocated");
  const others = entry.reg("pred", "other");
  const group = `cta_group::${state.group}`;
  body.emit(null, "setp.ne.u32", others, ctx.values.warp(), imm(ALLOCATOR));
  body.emit(others, "bra", done);
  body.emitAny(null, `tcgen05.alloc.${group}.sync.aligned.shared::cta.b32`, [
    address,
    imm(state.columns.columns),
  ]);
  body.emitAny(null, `tcgen05.relinquish_alloc_permit.${group}.sync.aligned`, []);
  body.label(done);
  body.emit(null, "tcgen05.fence::before_thread_sync");
  syncAll(ctx);
  body.emit(null, "tcgen05.fence::after_thread_sync");
  const tensor = entry.reg("u32", "tensor");
  body.emit(null, "ld.shared.u32", tensor, address);
  state.tensor = tensor;
}

/** No block ends before the last access of its neighbours to it; then the warp that allocated gives back. */
function close(ctx: Context): void {
  const state = stateOf(ctx);
  const { body, entry } = ctx;
  body.emit(null, "tcgen05.fence::before_thread_sync");
  syncAll(ctx);
  body.emit(null, "tcgen05.fence::after_thread_sync");
  if (state.tensor === null) return;
  const done = entry.label("given_back");
  const others = entry.reg("pred", "other");
  body.emit(null, "setp.ne.u32", others, ctx.values.warp(), imm(ALLOCATOR));
  body.emit(others, "bra", done);
  body.emitAny(null, `tcgen05.dealloc.cta_group::${state.group}.sync.aligned.b32`, [
    state.tensor,
    imm(state.columns.columns),
  ]);
  body.label(done);
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
