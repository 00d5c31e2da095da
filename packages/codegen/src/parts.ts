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
  type Share,
  sharers,
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
import { blocksOfTile, problemsOf, tilesOf } from "./tileCounts.ts";
import { operandOf } from "./words.ts";

/** Named barrier of the warps of a role that meet: 0 is that of all warps, where the others may be by then; 1 to 7 are those of stores, 8 to 10 those of turns. */
const ROLE_BARRIER = 11;

/** Name of the parameter. */
export const WORKSPACE = "workspace";

/** Bytes of a counter; of one that also says who has left, two words. */
const WORD = 4;
const wordOf = (by: CombineWay): number => (by === "slices" ? 2 * WORD : WORD);

/** How partial sums of an accumulator's registers are added. */
export const additions: Readonly<Record<RegisterType, string>> = {
  f32: "add.rn.f32",
  f64: "add.rn.f64",
  s32: "add.s32",
  // Packed halves: the one accumulator of less than 32 bits.
  b32: "add.rn.f16x2",
};

export const bytesOf = (type: RegisterType): number => (type === "f64" ? 8 : 4);

/** The counters come first; what follows them begins at a multiple of this, a line of L2. */
const LINE = 128;

/** Loads that are in flight together: enough to cover L2's latency, few enough to need no more registers than the main loop did. */
const IN_FLIGHT = 16;

/** Registers of parts in flight where a thread has few of each: a part a turn would wait for L2 as often as there are parts. */
const SMALL_PARTS = 64;

/** How a program lays out its workspace; null when no tile is shared. Sizes in bytes. */
export interface PartialTiles {
  readonly by: CombineWay;
  /** Shares of chunks that blocks have; null where a tile is split among so many blocks. */
  readonly share: Share | null;
  readonly splits: number;
  /** Problems of the batch; tiles of each that blocks share, and parts of each that have a place of their own. */
  readonly problems: LaunchExpr;
  readonly tiles: LaunchExpr;
  readonly parts: LaunchExpr;
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
}

/** The workspace of a program whose register tiles the engine holds. */
export function partialTiles(program: TileProgram, engine: Engine, target: Target): PartialTiles | null {
  let combine: StmtOf<"combine"> | null = null;
  let tiles: StmtOf<"tiles"> | null = null;
  for (const stmt of eachStmt(program.body)) {
    if (stmt.kind === "combine") combine = stmt;
    if (stmt.kind === "tiles") tiles = stmt;
  }
  if (combine === null || tiles === null) return null;
  const { split, share = null } = tiles;
  if ((split === null && share === null) || combine.by === "cluster") return null;
  const problems = problemsOf(program.problem);
  // Each block of a pair has its half of the tile, and meets the blocks that have the same half.
  const each = blocksOfTile(program);
  const count = share === null ? times(tilesOf(tiles), each) : share.tiles * each;
  const splits = split?.extent ?? 1;
  // A share ends inside a tile at either end, at most.
  const apart = share === null ? times(count, splits) : 2 * sharers(share) * each;
  const most = each * mostTilesOf(program.problem, tiles);
  const { by } = combine;
  const all = times(problems, count);
  const fixed = typeof all === "number";
  const acc = bufferOf(program, combine.acc.buffer);
  const { type, packed } = engine.holding(acc.dtype);
  const registers = registersPerThread(ownerOf(acc)) / packed;
  const threads = combiningThreads(program);
  return {
    by: combine.by,
    share,
    splits,
    problems,
    tiles: count,
    // Atomics add up the parts of a tile as they come, in one place.
    parts: combine.by === "atomics" ? count : apart,
    threads,
    registers,
    type,
    vector:
      by === "atomics"
        ? atomicVector(type, registers, target)
        : by === "slices"
          ? sliceVector(combine, type, packed)
          : 1,
    counterBytes: by === "kernel" ? 0 : lines(!fixed && most <= MOST_COUNTERS ? most : all, wordOf(by)),
    init: initOf(by, fixed || most <= MOST_COUNTERS),
    partBytes: registers * threads * bytesOf(type),
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

/** The product, folded where it can be. */
export const times = (a: LaunchExpr, b: LaunchExpr): LaunchExpr =>
  typeof a === "number" && typeof b === "number" ? a * b : b === 1 ? a : ["mul", a, b];

/** Whole lines of counters, in bytes. */
const lines = (count: LaunchExpr, word: number): LaunchExpr =>
  typeof count === "number"
    ? Math.ceil((count * word) / LINE) * LINE
    : ["mul", ["ceilDiv", ["mul", count, word], LINE], LINE];

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

/** Most bytes that one instruction loads. */
const WIDEST = 16;

/** Registers side by side of slices, which are whole groups of elements that are stored together. */
function sliceVector({ body }: StmtOf<"combine">, type: RegisterType, packed: number): number {
  const [stored] = body;
  const group = stored?.kind === "epilogue" ? Math.max(1, stored.vector / packed) : 1;
  return [4, 2, 1].find((v) => group % v === 0 && v * bytesOf(type) <= WIDEST) ?? 1;
}

/** Operands of the barrier of the threads that meet: of a block with roles only those that hold accumulators. */
export const meetingBarrier = (ctx: Context): readonly Operand[] => {
  const threads = ctx.values.warps * 32;
  return threads === ctx.program.launch.threads ? [imm(0)] : [imm(ROLE_BARRIER), imm(threads)];
};

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
  const { counterBytes, problems, parts, partBytes } = shared;
  const bytes = times(times(problems, parts), partBytes);
  if (typeof counterBytes === "number" && typeof bytes === "number") return counterBytes + bytes;
  return counterBytes === 0 ? bytes : ["add", counterBytes, bytes];
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
 * Adds as many parts as `left` says (one at least), which follow the one at `before` at distances of `partBytes`, to the registers, in their order. Of small
 * parts several are loaded at once, as long as so many are left.
 */
export function addParts(
  ctx: Context,
  shared: PartialTiles,
  registers: readonly Reg[],
  further: FurtherParts,
): void {
  const { entry } = ctx;
  const together = Math.floor(SMALL_PARTS / registers.length);
  if (together < 2) {
    addTurns(ctx, shared, registers, further, 1);
    return;
  }
  const { left } = further;
  const [few, none] = [entry.reg("pred", "p"), entry.reg("pred", "p")];
  const [singly, done] = [entry.label("parts_few"), entry.label("parts_done")];
  ctx.emit(null, "setp.lt.u32", few, left, imm(together));
  ctx.emit(few, "bra", singly);
  addTurns(ctx, shared, registers, further, together);
  ctx.body.label(singly);
  ctx.emit(null, "setp.eq.u32", none, left, imm(0));
  ctx.emit(none, "bra", done);
  addTurns(ctx, shared, registers, further, 1);
  ctx.body.label(done);
}

/** A loop over parts, `each` a turn, until fewer are left. It has one turn at least. */
function addTurns(
  ctx: Context,
  shared: PartialTiles,
  registers: readonly Reg[],
  { before, left }: FurtherParts,
  each: number,
): void {
  const { entry, body } = ctx;
  const more = entry.reg("pred", "p");
  const label = entry.label("parts");
  body.label(label);
  if (each === 1) {
    ctx.emit(null, "add.s64", before, before, imm(shared.partBytes));
    addPart(ctx, shared, registers, before);
  } else {
    addSmallParts(ctx, shared, registers, before, each);
    ctx.emit(null, "add.s64", before, before, imm(each * shared.partBytes));
  }
  ctx.emit(null, "sub.u32", left, left, imm(each));
  ctx.emit(null, "setp.ge.u32", more, left, imm(each));
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

/** Adds the `count` parts after the one at `before`, all of them in flight together. */
function addSmallParts(
  ctx: Context,
  shared: PartialTiles,
  registers: readonly Reg[],
  before: Reg<"u64">,
  count: number,
): void {
  const { threads, type } = shared;
  const loaded = Array.from({ length: count }, (_, part) =>
    registers.map((sum, i) => {
      const d = ctx.entry.reg(type, `sum_${type}_`);
      const at = (part + 1) * shared.partBytes + i * threads * bytesOf(type);
      ctx.emitAny(null, `ld.global.${type}`, d, addr(before, at));
      return { sum, d };
    }),
  );
  for (const { sum, d } of loaded.flat()) ctx.emitAny(null, additions[type], sum, sum, d);
}

/** Parts after the first of a tile: registers that the addition counts on and down. */
export interface FurtherParts {
  readonly before: Reg<"u64">;
  readonly left: Reg<"u32">;
}

/** Where a tile's counter and this thread's elements of its parts are. */
export interface PartPlaces {
  readonly counter: Reg<"u64">;
  /** The first part, or the place where atomics add all of them up. */
  readonly first: Reg<"u64">;
  /** The part that this block hands in. */
  own(): Reg<"u64">;
  /** `along`: blocks along the grid's third axis. */
  further(along: number): FurtherParts;
}

export function partPlaces(ctx: Context, shared: PartialTiles): PartPlaces {
  const { values, entry, part } = ctx;
  const word = wordOf(shared.by);
  const base = pointer(ctx, WORKSPACE);
  const batch = batchIndex(ctx);
  // Of a launch that says how many tiles there are, the grid has a block for each along x and a place for each problem along y.
  const along = (axis: "x" | "y"): Reg<"u32"> =>
    values.memo(`nctaid.${axis}`, "v", (d) =>
      ctx.prologue.emit(null, "mov.u32", d, special(`%nctaid.${axis}`)),
    );
  const before = (count: LaunchExpr, times: number, problem: Reg<"u32">): Reg<"u32"> =>
    typeof count === "number"
      ? values.scale(problem, count)
      : values.product(problem, values.scale(along("x"), times));
  const inBatch = (count: LaunchExpr, index: Reg<"u32">, times = 1): Reg<"u32"> =>
    batch === null ? index : values.sum(before(count, times, batch), index);
  const at = (from: Reg<"u64">, index: Reg<"u32">, bytes: number): Reg<"u64"> => {
    const d = entry.reg("u64", "ws");
    ctx.prologue.emit(null, "mad.wide.u32", d, index, imm(bytes), from);
    return d;
  };
  const parts = entry.reg("u64", "ws");
  if (typeof shared.counterBytes === "number")
    ctx.prologue.emit(null, "add.s64", parts, base, imm(shared.counterBytes));
  else {
    const count = batch === null ? along("x") : values.product(along("x"), along("y"));
    const line = values.divide(values.sum(values.scale(count, word), imm(LINE - 1)), LINE);
    ctx.prologue.emit(null, "mad.wide.u32", parts, line, imm(LINE), base);
  }
  const mine = at(parts, values.thread(), shared.vector * bytesOf(shared.type));
  const place = (index: Reg<"u32">): Reg<"u64"> => at(mine, inBatch(shared.parts, index), shared.partBytes);
  const { share, splits } = shared;
  const tile = share === null ? values.block() : part && ofHalf(ctx, part.tile, share.tiles);
  if (tile === null) throw new CannotLower("combine", "stands outside the parts of a share");
  const counter = at(base, inBatch(shared.tiles, tile), word);
  if (shared.by === "atomics") {
    const first = place(tile);
    return { counter, first, own: () => first, further: () => oneByOne("atomics add one part") };
  }
  if (share !== null) return { counter, ...sharePlaces(ctx, share, place) };
  const each = splits * shared.partBytes;
  if (each >= 2 ** 32) throw new CannotLower("combine", `the parts of a tile have ${each} bytes`);
  const first = at(mine, inBatch(shared.tiles, tile), each);
  return {
    counter,
    first,
    own: () => at(first, values.split(), shared.partBytes),
    further(along) {
      const [before, left] = [entry.reg("u64", "part"), entry.reg("u32", "left")];
      ctx.emit(null, "mov.u64", before, first);
      // Not as a constant: ptxas would unroll a loop of few turns and load all parts at once, into registers that are not there.
      ctx.emit(null, "mov.u32", left, special("%nctaid.z"));
      ctx.emit(null, "add.u32", left, left, imm(splits - 1 - along));
      return { before, left };
    },
  };
}

function oneByOne(why: string): never {
  throw new CannotLower("combine", why);
}

/** Number `index` of `count` among those of this block's half of tiles: of a pair the second block's follow those of the first. */
function ofHalf({ program, values }: Context, index: Reg<"u32">, count: number): Reg<"u32"> {
  const each = blocksOfTile(program);
  if (each === 1) return index;
  const half = values.modulo(values.block(), each, Number.POSITIVE_INFINITY);
  return values.sum(index, values.scale(half, count));
}

/**
 * Places of a share's parts. Of B blocks (or pairs, each block of one for its half), block b has place b for a part that begins inside its tile, and place B + b for one that begins with it. So the parts
 * of a tile are that of its first block at B + b, then those at b + 1, b + 2, … of the blocks after it.
 */
function sharePlaces(
  ctx: Context,
  { chunks, each, tiles }: Share,
  placeOf: (index: Reg<"u32">) => Reg<"u64">,
): Omit<PartPlaces, "counter"> {
  const { entry, values, part } = ctx;
  const blocks = Math.ceil((tiles * chunks) / each);
  if (part === null) return oneByOne("stands outside the parts of a share");
  const place = (index: Reg<"u32">): Reg<"u64"> => placeOf(ofHalf(ctx, index, 2 * blocks));
  const unit = values.divide(values.block(), blocksOfTile(ctx.program));
  const start = values.scale(part.tile, chunks);
  const firstBlock = values.divide(start, each);
  const lastBlock = values.divide(values.sum(start, imm(chunks - 1)), each);
  return {
    first: place(values.sum(firstBlock, imm(blocks))),
    own() {
      const begins = entry.reg("pred", "p");
      const index = entry.reg("u32", "place");
      ctx.prologue.emit(null, "setp.eq.u32", begins, part.first, imm(0));
      ctx.prologue.emit(null, "add.u32", index, unit, imm(blocks));
      ctx.prologue.emit(null, "selp.b32", index, index, unit, begins);
      return place(index);
    },
    further() {
      const [before, left] = [entry.reg("u64", "part"), entry.reg("u32", "left")];
      ctx.emit(null, "mov.u64", before, place(firstBlock));
      ctx.emit(null, "sub.u32", left, lastBlock, firstBlock);
      return { before, left };
    },
  };
}
