/** Where the blocks that share a tile leave their accumulators: the layout of the workspace, and how parts go there and come back. */
import {
  bufferOf,
  type CombineWay,
  eachStmt,
  hasFeature,
  type LaunchExpr,
  type Manifest,
  rangeOf,
  registersPerThread,
  sizeMost,
  sizeRanges,
  type Target,
  type TileProgram,
} from "@tilewright/ir";
import { addr, imm, type Operand, special } from "@tilewright/ptx";
import type { Reg } from "./code.ts";
import { CannotLower, type Context } from "./context.ts";
import type { Engine, RegisterType, StmtOf } from "./engine.ts";
import { batchIndex, pointer } from "./globalAddress.ts";
import { ownerOf } from "./registers.ts";
import { problemsOf, tilesOf } from "./tileCounts.ts";
import { operandOf } from "./words.ts";

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
  readonly by: CombineWay;
  /** Output tiles of all problems of the batch. */
  readonly tiles: LaunchExpr;
  /** Blocks of a tile. */
  readonly splits: number;
  /** Threads that hold the accumulators, and the registers of each. */
  readonly threads: number;
  readonly registers: number;
  readonly type: RegisterType;
  /** Registers of one access: groups of so many follow each other group by group, thread by thread, so that a warp's accesses are whole lines. */
  readonly vector: number;
  readonly counterBytes: LaunchExpr;
  /** What the workspace must be before a launch. */
  readonly init: Manifest["workspace"]["init"];
  /** One block's accumulators. */
  readonly partBytes: number;
  /** Parts of a tile that have a place of their own: one where atomics add them up as they come. */
  readonly places: number;
}

/** The workspace of a program whose register tiles the engine holds. */
export function partialTiles(program: TileProgram, engine: Engine, target: Target): PartialTiles | null {
  let combine: StmtOf<"combine"> | null = null;
  let tiles: StmtOf<"tiles"> | null = null;
  for (const stmt of eachStmt(program.body)) {
    if (stmt.kind === "combine") combine = stmt;
    if (stmt.kind === "tiles") tiles = stmt;
  }
  if (combine === null || tiles?.split == null) return null;
  const count = times(tilesOf(tiles), problemsOf(program.problem));
  const most = mostTilesOf(program.problem, tiles);
  const { by } = combine;
  const acc = bufferOf(program, combine.acc.buffer);
  const { type, packed } = engine.holding(acc.dtype);
  const registers = registersPerThread(ownerOf(acc)) / packed;
  const threads = combiningThreads(program);
  return {
    by: combine.by,
    tiles: count,
    splits: tiles.split.extent,
    threads,
    registers,
    type,
    vector: combine.by === "atomics" ? atomicVector(type, registers, target) : 1,
    counterBytes:
      by === "kernel" ? 0 : lines(typeof count !== "number" && most <= MOST_COUNTERS ? most : count),
    init: initOf(by, typeof count === "number" || most <= MOST_COUNTERS),
    partBytes: registers * threads * bytesOf(type),
    places: combine.by === "atomics" ? 1 : tiles.split.extent,
  };
}

/**
 * Most counters that have their place whatever the launch's sizes are. Where there may be more, parts of one launch lie where another has its
 * counters.
 */
const MOST_COUNTERS = 2 ** 16;

/**
 * Counters, and tiles that atomics add to, end as they began: at 0. Parts that blocks leave do not, which matters where counters of another launch
 * come to lie on them.
 */
function initOf(by: CombineWay, fixed: boolean): Manifest["workspace"]["init"] {
  if (by === "kernel") return "none";
  return by === "atomics" || fixed ? "zeroOnce" : "zeroEach";
}

const times = (a: LaunchExpr, b: LaunchExpr): LaunchExpr =>
  typeof a === "number" && typeof b === "number" ? a * b : b === 1 ? a : ["mul", a, b];

/** Whole lines of counters, in bytes. */
const lines = (count: LaunchExpr): LaunchExpr =>
  typeof count === "number"
    ? Math.ceil((count * WORD) / LINE) * LINE
    : ["mul", ["ceilDiv", ["mul", count, WORD], LINE], LINE];

/** The most output tiles of any launch. */
function mostTilesOf(problem: TileProgram["problem"], { extents, symbolic }: StmtOf<"tiles">): number {
  const ranges = sizeRanges(problem);
  const most = (axis: 0 | 1): number => {
    const count = symbolic?.[axis] ?? null;
    return count === null ? extents[axis] : rangeOf(count, ranges)[1];
  };
  return most(0) * most(1) * (problem.batch.kind === "strided" ? sizeMost(problem, "batch") : 1);
}

/** f32 additions in memory that one instruction makes: up to four side by side (PTX ISA, red). */
function atomicVector(type: RegisterType, registers: number, target: Target): number {
  if (type !== "f32" || !hasFeature(target, "red.vector")) return 1;
  return registers % 4 === 0 ? 4 : registers % 2 === 0 ? 2 : 1;
}

/** Threads that hold the accumulators which meet: those of the role around the combine, or of the block. */
function combiningThreads(program: TileProgram): number {
  for (const stmt of eachStmt(program.body))
    if (stmt.kind === "role")
      for (const inner of eachStmt(stmt.body)) if (inner.kind === "combine") return stmt.warps * 32;
  return program.launch.threads;
}

/** Bytes of a workspace. */
export function workspaceBytes(shared: PartialTiles | null): LaunchExpr {
  if (shared === null) return 0;
  const { counterBytes, tiles, places, partBytes } = shared;
  const parts = times(tiles, places * partBytes);
  if (typeof counterBytes === "number" && typeof parts === "number") return counterBytes + parts;
  return counterBytes === 0 ? parts : ["add", counterBytes, parts];
}

/** Accesses to a part: the registers of each, and its distance in bytes from the thread's first. */
function* accesses(
  shared: PartialTiles,
  registers: readonly Reg[],
): Generator<{ readonly run: readonly Reg[]; readonly at: number }> {
  const { vector, threads, type } = shared;
  for (let i = 0; i < registers.length; i += vector)
    yield { run: registers.slice(i, i + vector), at: i * threads * bytesOf(type) };
}

const vectorOf = ({ vector }: PartialTiles): string => (vector > 1 ? `.v${vector}` : "");

/** The registers to a part. */
export function storePart(
  ctx: Context,
  shared: PartialTiles,
  registers: readonly Reg[],
  part: Reg<"u64">,
): void {
  for (const { run, at } of accesses(shared, registers))
    ctx.emitAny(null, `st.global${vectorOf(shared)}.${shared.type}`, addr(part, at), operandOf(run));
}

/** A part to the registers. */
export function loadPart(
  ctx: Context,
  shared: PartialTiles,
  registers: readonly Reg[],
  part: Reg<"u64">,
): void {
  for (const { run, at } of accesses(shared, registers))
    ctx.emitAny(null, `ld.global${vectorOf(shared)}.${shared.type}`, operandOf(run), addr(part, at));
}

/** How registers are added to memory: of packed halves subnormals stay, as they do in registers. */
const reductions: Readonly<Record<RegisterType, string>> = {
  f32: "add",
  f64: "add",
  s32: "add",
  b32: "add.noftz",
};
const reduced: Readonly<Record<RegisterType, string>> = { f32: "f32", f64: "f64", s32: "s32", b32: "f16x2" };

/** The registers added to a part in memory, in whatever order blocks come. */
export function addToPart(
  ctx: Context,
  shared: PartialTiles,
  registers: readonly Reg[],
  part: Reg<"u64">,
): void {
  const { type } = shared;
  const mnemonic = `red.relaxed.gpu.global.${reductions[type]}${vectorOf(shared)}.${reduced[type]}`;
  for (const { run, at } of accesses(shared, registers))
    ctx.emitAny(null, mnemonic, addr(part, at), operandOf(run));
}

/** Zeros to a part, for the next launch. */
export function clearPart(ctx: Context, shared: PartialTiles, zero: Operand, part: Reg<"u64">): void {
  const { type, registers, threads } = shared;
  for (let i = 0; i < registers; i++) {
    const within = (i % shared.vector) * bytesOf(type);
    const at = (i - (i % shared.vector)) * threads * bytesOf(type);
    ctx.emitAny(null, `st.global.${type}`, addr(part, at + within), zero);
  }
}

/**
 * Adds parts 1 and up, at distances of `partBytes`, to the registers, which hold part 0. `along` is how many blocks stand along the grid's third
 * axis, which says nothing that is not known, but ptxas does not know it: a loop of few turns would be unrolled and all parts be loaded at once,
 * into registers that are not there.
 */
export function addParts(
  ctx: Context,
  shared: PartialTiles,
  registers: readonly Reg[],
  first: Reg<"u64">,
  along: number,
): void {
  const { entry, body } = ctx;
  const part = entry.reg("u64", "part");
  const left = entry.reg("u32", "left");
  const more = entry.reg("pred", "p");
  const label = entry.label("parts");
  ctx.emit(null, "mov.u64", part, first);
  ctx.emit(null, "mov.u32", left, special("%nctaid.z"));
  ctx.emit(null, "add.u32", left, left, imm(shared.splits - 1 - along));
  body.label(label);
  ctx.emit(null, "add.s64", part, part, imm(shared.partBytes));
  addPart(ctx, shared, registers, part);
  ctx.emit(null, "sub.u32", left, left, imm(1));
  ctx.emit(null, "setp.ne.u32", more, left, imm(0));
  ctx.emit(more, "bra", label);
}

/** Adds one part to the registers. */
function addPart(ctx: Context, shared: PartialTiles, registers: readonly Reg[], part: Reg<"u64">): void {
  const { threads, type } = shared;
  for (let from = 0; from < registers.length; from += IN_FLIGHT) {
    const group = registers.slice(from, from + IN_FLIGHT);
    const loaded = group.map(() => ctx.entry.reg(type, `sum_${type}_`));
    loaded.forEach((d, i) => {
      ctx.emitAny(null, `ld.global.${type}`, d, addr(part, (from + i) * threads * bytesOf(type)));
    });
    loaded.forEach((d, i) => {
      const sum = group[i] ?? d;
      ctx.emitAny(null, additions[type], sum, sum, d);
    });
  }
}

/** Where this thread's part 0 and its own part begin, and the tile's counter. */
export interface PartPlaces {
  readonly counter: Reg<"u64">;
  readonly first: Reg<"u64">;
  /** The thread's part of a block that has one: `first` where all blocks add to one part. */
  own(): Reg<"u64">;
}

export function partPlaces(ctx: Context, shared: PartialTiles): PartPlaces {
  const { values, prologue, entry } = ctx;
  const base = pointer(ctx, WORKSPACE);
  const batch = batchIndex(ctx);
  const { batch: batching } = ctx.program.problem;
  const along = (axis: "x" | "y"): Reg<"u32"> =>
    values.memo(`nctaid.${axis}`, "v", (d) => prologue.emit(null, "mov.u32", d, special(`%nctaid.${axis}`)));
  const before = (index: Reg<"u32">): Reg<"u32"> =>
    typeof shared.tiles === "number"
      ? values.scale(index, shared.tiles / (batching.kind === "strided" ? batching.count : 1))
      : values.product(index, along("x"));
  const tile = batch === null ? values.block() : values.sum(before(batch), values.block());
  const at = (from: Reg<"u64">, index: Reg<"u32">, bytes: number): Reg<"u64"> => {
    const d = entry.reg("u64", "ws");
    prologue.emit(null, "mad.wide.u32", d, index, imm(bytes), from);
    return d;
  };
  const parts = entry.reg("u64", "ws");
  if (typeof shared.counterBytes === "number")
    prologue.emit(null, "add.s64", parts, base, imm(shared.counterBytes));
  else {
    // The grid has a block for each tile along x and for each problem along y.
    const count = batch === null ? along("x") : values.product(along("x"), along("y"));
    const line = values.divide(values.sum(values.scale(count, WORD), imm(LINE - 1)), LINE);
    prologue.emit(null, "mad.wide.u32", parts, line, imm(LINE), base);
  }
  const each = shared.places * shared.partBytes;
  if (each >= 2 ** 32) throw new CannotLower("combine", `the parts of a tile have ${each} bytes`);
  const first = at(at(parts, tile, each), values.thread(), shared.vector * bytesOf(shared.type));
  return {
    counter: at(base, tile, WORD),
    first,
    own: () => (shared.places === 1 ? first : at(first, values.split(), shared.partBytes)),
  };
}
