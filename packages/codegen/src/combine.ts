/** Blocks that share a tile: each writes its accumulators to the workspace, the last to come adds them up and goes on. */
import { bufferOf, eachStmt, registersPerThread, type TileProgram } from "@tilewright/ir";
import { addr, imm, special } from "@tilewright/ptx";
import type { Reg } from "./code.ts";
import type { Context } from "./context.ts";
import type { Engine, RegisterType, StmtOf } from "./engine.ts";
import { batchIndex, pointer } from "./globalAddress.ts";
import { ownedTile, ownerOf } from "./registers.ts";

type Combine = StmtOf<"combine">;

/** Name of the parameter. */
export const WORKSPACE = "workspace";

/** Bytes of a counter. */
const WORD = 4;

/** How partial sums of an accumulator's registers are added. */
const additions: Readonly<Record<RegisterType, string>> = {
  f32: "add.rn.f32",
  f64: "add.rn.f64",
  s32: "add.s32",
  // Packed halves: the one accumulator of less than 32 bits.
  b32: "add.rn.f16x2",
};

const bytesOf = (type: RegisterType): number => (type === "f64" ? 8 : 4);

/** The counters come first; what follows them begins at a multiple of this, a line of L2. */
const LINE = 128;

/** Loads that are in flight together: enough to cover L2's latency, few enough to need no more registers than the main loop did. */
const IN_FLIGHT = 16;

/** How a program lays out its workspace; null when no tile is shared. Sizes in bytes. */
export interface PartialTiles {
  /** Output tiles of all problems of the batch. */
  readonly tiles: number;
  readonly splits: number;
  /** Registers of a thread that hold accumulators, and their type. */
  readonly registers: number;
  readonly type: RegisterType;
  readonly counterBytes: number;
  /** One block's accumulators: register by register, thread by thread, so that a warp's accesses are whole lines. */
  readonly partBytes: number;
}

/** The workspace of a program whose register tiles the engine holds. */
export function partialTiles(program: TileProgram, engine: Engine): PartialTiles | null {
  let combine: Combine | null = null;
  let tiles: StmtOf<"tiles"> | null = null;
  for (const stmt of eachStmt(program.body)) {
    if (stmt.kind === "combine") combine = stmt;
    if (stmt.kind === "tiles") tiles = stmt;
  }
  if (combine === null || tiles?.split == null) return null;
  const { batch } = program.problem;
  const count = tiles.extents[0] * tiles.extents[1] * (batch.kind === "strided" ? batch.count : 1);
  const acc = bufferOf(program, combine.acc.buffer);
  const { type, packed } = engine.holding(acc.dtype);
  const registers = registersPerThread(ownerOf(acc)) / packed;
  return {
    tiles: count,
    splits: tiles.split.extent,
    registers,
    type,
    counterBytes: Math.ceil((count * WORD) / LINE) * LINE,
    partBytes: registers * combiningThreads(program) * bytesOf(type),
  };
}

/** Threads that hold the accumulators which meet: those of the role around the combine, or of the block. */
function combiningThreads(program: TileProgram): number {
  for (const stmt of eachStmt(program.body))
    if (stmt.kind === "role")
      for (const inner of eachStmt(stmt.body)) if (inner.kind === "combine") return stmt.warps * 32;
  return program.launch.threads;
}

/** Bytes of a workspace. */
export const workspaceBytes = (shared: PartialTiles | null): number =>
  shared === null ? 0 : shared.counterBytes + shared.tiles * shared.splits * shared.partBytes;

/**
 * Partial sums are published by a fence before the counter rises and read behind a fence after it (PTX ISA, memory consistency model:
 * release and acquire patterns). The counter ends at 0, where the next launch needs it. Parts are added in the order of their numbers.
 */
export function lowerCombine(ctx: Context, stmt: Combine, lowerBody: () => void): void {
  ctx.placeLate();
  const shared = partialTiles(ctx.program, ctx.engine);
  if (shared === null) {
    lowerBody();
    return;
  }
  ctx.restartInvariants();
  const { entry, body } = ctx;
  const threads = ctx.values.warps * 32;
  // Of a block with roles only those meet that hold accumulators.
  const meeting = threads === ctx.program.launch.threads ? [imm(0)] : [imm(0), imm(threads)];
  const acc = ownedTile(ctx, stmt.acc.buffer, 0);
  const { registers } = acc;
  const unit = bytesOf(shared.type);
  const place = places(ctx, shared);
  registers.forEach((register, i) => {
    ctx.emitAny(null, `st.global.${shared.type}`, addr(place.own, i * threads * unit), register);
  });

  ctx.emit(null, "fence.acq_rel.gpu");
  ctx.emitAny(null, "bar.sync", ...meeting);
  const first = entry.reg("pred", "p");
  const earlier = entry.reg("u32", "came");
  const [waits, leave] = [entry.reg("pred", "p"), entry.reg("pred", "p")];
  ctx.emit(null, "setp.eq.u32", first, ctx.values.thread(), imm(0));
  ctx.emit(null, "mov.u32", earlier, imm(0));
  ctx.emit(first, "atom.relaxed.gpu.global.add.u32", earlier, addr(place.counter), imm(1));
  ctx.emit(null, "setp.ne.u32", waits, earlier, imm(shared.splits - 1));
  // Only thread 0 knows: all threads leave unless it has seen all others come.
  ctx.emitAny(null, "bar.red.and.pred", leave, ...meeting, waits);
  const end = entry.label("parts_end");
  ctx.emit(leave, "bra", end);
  ctx.emit(null, "fence.acq_rel.gpu");
  ctx.emit(first, "st.global.u32", addr(place.counter), imm(0));

  registers.forEach((register, i) => {
    ctx.emitAny(null, `ld.global.${shared.type}`, register, addr(place.first, i * threads * unit));
  });
  addParts(ctx, shared, registers, place.first);
  lowerBody();
  body.label(end);
}

/** Adds parts 1 and up to the registers, which hold part 0. */
function addParts(ctx: Context, shared: PartialTiles, registers: readonly Reg[], first: Reg<"u64">): void {
  const { entry, body } = ctx;
  const threads = ctx.values.warps * 32;
  const part = entry.reg("u64", "part");
  const left = entry.reg("u32", "left");
  const more = entry.reg("pred", "p");
  const label = entry.label("parts");
  ctx.emit(null, "mov.u64", part, first);
  // Not as a constant: ptxas would unroll a loop of few turns and load all parts at once, into registers that are not there.
  ctx.emit(null, "mov.u32", left, special("%nctaid.z"));
  ctx.emit(null, "sub.u32", left, left, imm(1));
  body.label(label);
  ctx.emit(null, "add.s64", part, part, imm(shared.partBytes));
  for (let from = 0; from < registers.length; from += IN_FLIGHT) {
    const group = registers.slice(from, from + IN_FLIGHT);
    const loaded = group.map(() => entry.reg(shared.type, `sum_${shared.type}_`));
    loaded.forEach((d, i) => {
      ctx.emitAny(
        null,
        `ld.global.${shared.type}`,
        d,
        addr(part, (from + i) * threads * bytesOf(shared.type)),
      );
    });
    loaded.forEach((d, i) => {
      const sum = group[i] ?? d;
      ctx.emitAny(null, additions[shared.type], sum, sum, d);
    });
  }
  ctx.emit(null, "sub.u32", left, left, imm(1));
  ctx.emit(null, "setp.ne.u32", more, left, imm(0));
  ctx.emit(more, "bra", label);
}

/** Where this thread's part 0 and its own part begin, and the tile's counter. */
function places(
  ctx: Context,
  shared: PartialTiles,
): { readonly counter: Reg<"u64">; readonly first: Reg<"u64">; readonly own: Reg<"u64"> } {
  const { values, prologue, entry } = ctx;
  const base = pointer(ctx, WORKSPACE);
  const batch = batchIndex(ctx);
  const { batch: batching } = ctx.program.problem;
  const perProblem = shared.tiles / (batching.kind === "strided" ? batching.count : 1);
  const tile = batch === null ? values.block() : values.sum(values.scale(batch, perProblem), values.block());
  const at = (from: Reg<"u64">, index: Reg<"u32">, bytes: number): Reg<"u64"> => {
    const d = entry.reg("u64", "ws");
    prologue.emit(null, "mad.wide.u32", d, index, imm(bytes), from);
    return d;
  };
  const parts = entry.reg("u64", "ws");
  prologue.emit(null, "add.s64", parts, base, imm(shared.counterBytes));
  const first = at(at(parts, tile, shared.splits * shared.partBytes), values.thread(), bytesOf(shared.type));
  return { counter: at(base, tile, WORD), first, own: at(first, values.split(), shared.partBytes) };
}
