/** The products of a chunk: asynchronous matrix instructions of each math warpgroup, from descriptors. */
import {
  CannotLower,
  type Code,
  type Context,
  lowerIf,
  type OwnedTile,
  ownedTile,
  ownerOf,
  pipelineOfView,
  type Reg,
  SMEM,
  type StmtOf,
  slotAddress,
} from "@tilewright/codegen";
import {
  bufferOf,
  type Columns,
  eachStmt,
  findWarpgroupAtom,
  hasWarpgroupAtom,
  type OwnedRegister,
  type OwnershipMode,
  registersPerThread,
  takesColumn,
  type View,
  type WarpgroupAtom,
  weighted,
} from "@tilewright/ir";
import { addr, f32imm, imm, type Operand, special, sym, vec } from "@tilewright/ptx";
import { type OperandTile, operandTile } from "./descriptors.ts";
import { chunkFactors } from "./factors.ts";
import { widenedFragments } from "./fragments.ts";

/** Warps of a warpgroup. */
const WARPS = 4;

/** Bits of an address that a descriptor holds, in units of 16 bytes. Of a cluster's shared memory they leave the block's rank out. */
const ADDRESS_MASK = 0x3fff;

interface State {
  /** Accumulators that have been filled with 0 and not multiplied into since: the next product overwrites them. */
  readonly fresh: Set<string>;
  /** Accumulators whose columns are multiplied apart, and the registers that they had before. */
  readonly apart: Map<string, readonly Reg[]>;
  /** Whether products stood in a loop over chunks. */
  looped: boolean;
}

const states = new WeakMap<Context, State>();

function stateOf(ctx: Context): State {
  const known = states.get(ctx);
  if (known) return known;
  const made: State = { fresh: new Set(), apart: new Map(), looped: false };
  states.set(ctx, made);
  return made;
}

/** Zeros are not written where the first products overwrite what is there; sums that are promoted are added to them. */
export function lowerFill(ctx: Context, stmt: StmtOf<"fill">): void {
  if (stmt.value !== 0) throw new CannotLower("fill", "accumulators of this backend begin with 0");
  const tile = ownedTile(ctx, stmt.dst.buffer, 0);
  if (isPromotedTo(ctx, stmt.dst.buffer)) {
    putZeros(ctx, tile);
    return;
  }
  beginWithZeros(ctx, stmt.dst.buffer, tile);
  stateOf(ctx).fresh.add(stmt.dst.buffer);
}

const zeroOf = (tile: OwnedTile): Operand => (tile.type === "f32" ? f32imm(0) : imm(0));

/** Once, so that no register is read before it was written, if only to be multiplied by nothing. */
function beginWithZeros(ctx: Context, buffer: string, tile: OwnedTile): void {
  ctx.crewValue(`zeros of ${buffer}`, (code) => {
    for (const register of tile.registers) code.emitAny(null, `mov.${tile.type}`, [register, zeroOf(tile)]);
    return tile.at(0);
  });
}

/** Whether a tile takes sums that are made elsewhere. */
function isPromotedTo(ctx: Context, buffer: string): boolean {
  for (const stmt of eachStmt(ctx.program.body))
    if (stmt.kind === "mma" && stmt.acc.buffer === buffer) return stmt.twoLevel !== undefined;
  return false;
}

/** Where a branch of products is not taken, tiles that they would have overwritten are zeros. */
export function lowerBranchOfProducts(ctx: Context, stmt: StmtOf<"if">): void {
  const tiles = [...stateOf(ctx).fresh];
  lowerIf(ctx, stmt, {
    otherwise() {
      for (const name of tiles) putZeros(ctx, ownedTile(ctx, name, 0));
    },
  });
}

const putZeros = (ctx: Context, tile: OwnedTile): void => {
  for (const register of tile.registers) ctx.emitAny(null, `mov.${tile.type}`, register, zeroOf(tile));
};

/** Accumulators are read from here on; where no chunk was multiplied they are zeros. */
export function readSums(ctx: Context, acc: string): void {
  useAll(ctx, acc);
  const { fresh } = stateOf(ctx);
  if (!fresh.delete(acc)) return;
  putZeros(ctx, ownedTile(ctx, acc, 0));
}

/**
 * An accumulator that instructions of fewer columns go on with gets other registers. They are the same to ptxas, which moves nothing, but where it sees the
 * registers of one wide instruction in several narrow ones it may find no places for them, and then serialises the products (C7511: ptxas 13.0).
 */
function standApart(ctx: Context, acc: string): void {
  const { apart } = stateOf(ctx);
  if (apart.has(acc)) return;
  const { registers, type } = ownedTile(ctx, acc, 0);
  apart.set(acc, registers);
  const own = registers.map((register) => {
    const other = ctx.entry.reg(type, "apart");
    ctx.body.emitAny(null, `mov.${type}`, [other, register]);
    return other;
  });
  ctx.registers.set(acc, own);
}

/** The next tile's products begin in the registers that the accumulator had: where they may add to them, ptxas has to see that these hold nothing else. */
export function comeTogether(ctx: Context, acc: string): void {
  const { apart } = stateOf(ctx);
  const before = apart.get(acc);
  if (before === undefined) return;
  const { registers, type } = ownedTile(ctx, acc, 0);
  for (const [i, register] of before.entries()) {
    const now = registers[i];
    if (now) ctx.body.emitAny(null, `mov.${type}`, [register, now]);
  }
  ctx.registers.set(acc, before);
  apart.delete(acc);
}

/**
 * Accumulators that lie outside of D for all threads are read by nobody. ptxas gives such registers of straight code away while the products still write
 * them, and waits for them there (C7517, C7519: ptxas 13.0). So they get a reader that never runs; in straight code behind copies by threads all do, whose
 * stores ptxas also moves before the wait.
 */
function useAll(ctx: Context, acc: string): void {
  const { m, n } = ctx.program.problem;
  const [rows, cols] = bufferOf(ctx.program, acc).shape;
  const byThreads = ctx.program.rings.some((ring) => ring.transport !== "tma");
  if (stateOf(ctx).looped || (m >= rows && n >= cols && !byThreads)) return;
  const { body, entry } = ctx;
  const [blocks, never] = [entry.reg("u32", "blocks"), entry.reg("pred", "p")];
  body.emit(null, "mov.u32", blocks, special("%nctaid.x"));
  body.emit(null, "setp.eq.u32", never, blocks, imm(0));
  const tile = ownedTile(ctx, acc, 0);
  const bits = tile.type === "s32" ? "s32" : tile.type === "f32" ? "f32" : "b32";
  for (const register of tile.registers)
    body.emitAny(never, `st.shared.${bits}`, [addr(sym(SMEM)), register]);
}

export function lowerProducts(ctx: Context, mma: StmtOf<"mma">): void {
  const atom = findWarpgroupAtom(mma.atom);
  if (!atom) throw new CannotLower("mma", `atom ${mma.atom} is no matrix instruction of a warpgroup`);
  if (!hasWarpgroupAtom(ctx.target, atom))
    throw new CannotLower("mma", `${ctx.target.arch} has no ${mma.atom}: it needs ${atom.feature}`);
  if (ctx.active !== null) throw new CannotLower("mma", "products of a warpgroup take no part in conditions");
  if (mma.scales !== undefined && mma.twoLevel === undefined)
    throw new CannotLower("mma", "factors scale sums that are promoted: write `promote PART every 128`");
  if (mma.columns !== undefined) standApart(ctx, mma.acc.buffer);
  const sumTile = bufferOf(ctx.program, mma.acc.buffer);
  const own = ownerOf(sumTile);
  // The instruction's A has the 64 rows of its sum: B where operands have changed places.
  const swapped = sumTile.lanes === 1;
  const sides = { a: operandSide(mma.a, own.rows, 0), b: operandSide(mma.b, own.cols, 1) };
  const [first, second] = swapped ? [sides.b, sides.a] : [sides.a, sides.b];
  const widens = bufferOf(ctx.program, first.view.buffer).dtype !== atom.a;
  if (widens && swapped)
    throw new CannotLower("mma", "only A is widened, and its operands have changed places");
  const a = widens ? null : operandTile(ctx, first.view.buffer, first.kAxis);
  const b = operandTile(ctx, second.view.buffer, second.kAxis);
  const descA = a === null ? null : descriptorBase(ctx, a, first);
  const descB = descriptorBase(ctx, b, second);
  const flags = flagsOf(atom, a, b);
  const form = `wgmma.mma_async.sync.aligned.${atom.shape}.${atom.acc}.${atom.a}.${atom.b}`;

  const { body } = ctx;
  const chunk = mma.a.extent[1];
  /** One group: products of k `from` to `to` into a tile, which the first either adds to or overwrites. */
  const group = (sums: OwnedTile, from: number, to: number, scale: Operand): void => {
    const list = instances(sums, atom, mma.columns);
    // Before the fence, which orders what threads have written into registers and what instructions read there.
    const rows = list.map(({ row }) => row);
    const fragments = widens ? widenedFragments(ctx, mma, atom, rows) : null;
    body.emit(null, "wgmma.fence.sync.aligned");
    for (let k = from; k < to; k += atom.k)
      for (const { row, col, registers } of list)
        body.emitAny(null, form, [
          vec(...registers),
          a === null || descA === null
            ? vec(...(fragments?.(row, k) ?? []))
            : stepped(ctx, descA, a.offsetOf(...first.place(row, col, k))),
          stepped(ctx, descB, b.offsetOf(...second.place(row, col, k))),
          k === from ? scale : imm(1),
          ...flags,
        ]);
    body.emit(null, "wgmma.commit_group.sync.aligned");
  };
  if (mma.twoLevel === undefined) {
    group(ownedTile(ctx, mma.acc.buffer, 0), 0, chunk, accumulates(ctx, mma.acc.buffer));
    if (ctx.loop !== null) stateOf(ctx).looped = true;
  } else
    promoteEach(ctx, mma, chunk, (sums, from, to) => {
      beginWithZeros(ctx, mma.twoLevel?.part.buffer ?? "", sums);
      group(sums, from, to, imm(0));
    });
  // The tile's divisions hide behind the products of its first chunk.
  if (ctx.loop === null) ctx.placeLate();
}

/**
 * Sums of a chunk's runs along k, one after the other: made in a tile of their own by `make`, waited for, scaled and added to the accumulator. Factors are
 * asked for before the products, behind which their way from memory hides.
 */
function promoteEach(
  ctx: Context,
  mma: StmtOf<"mma">,
  chunk: number,
  make: (sums: OwnedTile, from: number, to: number) => void,
): void {
  const { part, every } = mma.twoLevel ?? { part: mma.acc, every: chunk };
  const [acc, sums] = [ownedTile(ctx, mma.acc.buffer, 0), ownedTile(ctx, part.buffer, 0)];
  const runs = Math.ceil(chunk / every);
  const factors = mma.scales === undefined ? [] : chunkFactors(ctx, mma, acc, runs);
  for (let run = 0; run < runs; run++) {
    const from = run * every;
    const scaled = factors[run];
    make(sums, from, Math.min(chunk, from + every));
    ctx.body.emit(null, "wgmma.wait_group.sync.aligned", imm(0));
    const products = new Map<string, Reg<"f32">>();
    for (const element of acc.elements) {
      const [d, x] = [acc.at(element.register), sums.at(element.register)];
      if (scaled === undefined) {
        ctx.body.emitAny(null, "add.rn.f32", [d, d, x]);
        continue;
      }
      const [rowFactor, colFactor] = [scaled.a(element), scaled.b(element)];
      const key = `${rowFactor.name} ${colFactor.name}`;
      const known = products.get(key);
      const factor = known ?? ctx.entry.reg("f32", "sf");
      if (known === undefined) {
        products.set(key, factor);
        ctx.body.emit(null, "mul.rn.f32", factor, rowFactor, colFactor);
      }
      ctx.body.emitAny(null, "fma.rn.f32", [d, x, factor, d]);
    }
  }
}

/** Signs of A and B, then transposition of what lies in shared memory (A is null in registers), as far as the instruction has them. */
function flagsOf(atom: WarpgroupAtom, a: OperandTile | null, b: OperandTile): readonly Operand[] {
  if (atom.acc === "s32") return [];
  const signs = [imm(1), imm(1)];
  if (!atom.transposes) return signs;
  const flag = (tile: OperandTile): Operand => imm(tile.transposed ? 1 : 0);
  return a === null ? [...signs, flag(b)] : [...signs, flag(a), flag(b)];
}

/** scale-d of the next products: 0 overwrites the accumulator. In a loop that begins with a fresh one its first turn does. */
function accumulates(ctx: Context, acc: string): Operand {
  const { fresh } = stateOf(ctx);
  // Of a block's only tile the zeros of the start are added to.
  if (!fresh.delete(acc) || !staysForTiles(ctx)) return imm(1);
  const { loop } = ctx;
  if (loop === null) return imm(0);
  const p = ctx.entry.reg("pred", "p");
  ctx.body.emit(null, "setp.ne.u32", p, loop.counter, imm(loop.from));
  return p;
}

/** Whether blocks loop over tiles. */
function staysForTiles(ctx: Context): boolean {
  for (const stmt of eachStmt(ctx.program.body)) if (stmt.kind === "tiles") return stmt.loop !== null;
  return false;
}

/** An operand of a multiplication: what it has of the accumulator's warpgroups, along its axis `axis`. */
interface OperandSide {
  readonly view: View;
  readonly factors: readonly OwnershipMode[];
  readonly axis: 0 | 1;
  readonly kAxis: 0 | 1;
  /** Coordinates in its tile of what meets element (row, col) of the sum at k. */
  place(row: number, col: number, k: number): readonly [row: number, col: number];
}

const operandSide = (view: View, factors: readonly OwnershipMode[], axis: 0 | 1): OperandSide => ({
  view,
  factors,
  axis,
  kAxis: axis === 0 ? 1 : 0,
  place: (row, col, k) => (axis === 0 ? [row, k] : [k, col]),
});

interface Descriptor {
  /** Address and leading offset, in units of 16 bytes. */
  readonly word: Reg<"b64">;
}

/** A chunk's descriptor of the warpgroup's own part of a tile, without the constant part of the position in it. */
function descriptorBase(ctx: Context, tile: OperandTile, { view, factors, axis }: OperandSide): Descriptor {
  const { entry, body } = ctx;
  const { base, offset } = slotOf(ctx, view);
  const group = groupOffset(ctx, tile, factors, axis);
  const [address, low, high] = [entry.reg("u32", "da"), entry.reg("b32", "dl"), entry.reg("b32", "dh")];
  const word = entry.reg("b64", "desc");
  body.emit(null, "add.u32", address, base, group ?? imm(offset));
  if (group !== null && offset !== 0) body.emit(null, "add.u32", address, address, imm(offset));
  body.emit(null, "shr.u32", address, address, imm(4));
  body.emit(null, "and.b32", address, address, imm(ADDRESS_MASK));
  body.emitAny(null, "or.b32", [low, address, imm(tile.low)]);
  body.emit(null, "mov.b32", high, imm(tile.high));
  body.emitAny(null, "mov.b64", [word, vec(low, high)]);
  return { word };
}

/** Start of the chunk's slot: of the ring's position, or in rings that all threads fill by the loop's counter. */
function slotOf(ctx: Context, view: View): { readonly base: Reg<"u32">; readonly offset: number } {
  if (pipelineOfView(ctx, view) !== null) return slotAddress(ctx, view);
  const place = ctx.shared.places.get(view.buffer);
  if (!place) throw new CannotLower(`%${view.buffer}`, "is in no shared memory");
  const base = ctx.entry.reg("u32", "da");
  ctx.body.emit(null, "mov.u32", base, sym(SMEM));
  const slot = ctx.fold(view.slot);
  if (slot.kind === "const") return { base, offset: place.offset + slot.value * place.every };
  const { loop } = ctx;
  const chunk = slot.kind === "mod" ? ctx.linear(slot.lhs) : null;
  if (
    slot.kind !== "mod" ||
    !loop ||
    chunk?.terms.get(loop.var) !== 1 ||
    chunk.terms.size !== 1 ||
    chunk.constant !== 0
  )
    throw new CannotLower(`%${view.buffer}`, "its slot must be that of the loop's chunk");
  const at = ctx.entry.reg("u32", "da");
  ctx.body.emit(null, "rem.u32", at, loop.counter, imm(slot.divisor));
  ctx.body.emit(null, "mad.lo.u32", base, at, imm(place.every), base);
  return { base, offset: place.offset };
}

/** Bytes to the part of a tile that is the warpgroup's own; null where all have the same. */
function groupOffset(
  ctx: Context,
  tile: OperandTile,
  factors: readonly OwnershipMode[],
  axis: 0 | 1,
): Reg<"u32"> | null {
  const own = weighted(factors).filter((f) => f.tier === "warp" && f.stride >= WARPS && f.extent > 1);
  const [factor, more] = own;
  if (!factor) return null;
  const step = axis === 0 ? tile.offsetOf(factor.weight, 0) : tile.offsetOf(0, factor.weight);
  const last = factor.weight * (factor.extent - 1);
  const reach = axis === 0 ? tile.offsetOf(last, 0) : tile.offsetOf(0, last);
  if (more || reach !== step * (factor.extent - 1))
    throw new CannotLower(`%${tile.buffer.name}`, "the warpgroups' parts are not evenly apart");
  return ctx.crewValue(`group of ${tile.buffer.name}`, (code) => {
    const d = ctx.entry.reg("u32", "wg");
    const { first } = ctx.values.crew;
    code.emit(null, "mov.u32", d, special("%tid.x"));
    if (first > 0) code.emit(null, "sub.u32", d, d, imm(32 * first));
    divided(code, d, 32 * factor.stride);
    if (32 * factor.stride * factor.extent < 32 * ctx.values.warps) remainder(code, d, factor.extent);
    // The same for the whole warpgroup, and known to be.
    code.emit(null, "shfl.sync.idx.b32", d, d, imm(0), imm(31), imm(0xffffffff));
    code.emit(null, "mul.lo.u32", d, d, imm(step));
    return d;
  });
}

/** d / by and d % by, which is a shift and a mask for powers of two. */
function divided(code: Code, d: Reg<"u32">, by: number): void {
  const log = Math.log2(by);
  if (Number.isInteger(log)) code.emit(null, "shr.u32", d, d, imm(log));
  else code.emit(null, "div.u32", d, d, imm(by));
}

function remainder(code: Code, d: Reg<"u32">, by: number): void {
  if (Number.isInteger(Math.log2(by))) code.emit(null, "and.b32", d, d, imm(by - 1));
  else code.emit(null, "rem.u32", d, d, imm(by));
}

/** The descriptor of an element of the part: addresses count in units of 16 bytes. */
function stepped(ctx: Context, { word }: Descriptor, bytes: number): Reg<"b64"> {
  if (bytes % 16 !== 0)
    throw new CannotLower("mma", "an operand's part does not begin at a multiple of 16 bytes");
  if (bytes === 0) return word;
  const d = ctx.entry.reg("b64", "desc");
  ctx.body.emitAny(null, "add.s64", [d, word, imm(bytes / 16)]);
  return d;
}

/** One instruction's part of a warpgroup's accumulators: its first coordinates beside the warpgroup's, and its registers. */
interface Instance {
  readonly row: number;
  readonly col: number;
  readonly registers: readonly Reg[];
}

function instances(acc: OwnedTile, atom: WarpgroupAtom, columns?: Columns): readonly Instance[] {
  const elements = registersPerThread(atom.fragments.acc);
  const each = elements / acc.packed;
  // Registers of an instruction's rows lie by eight columns, so that those of a narrower one are a run among them.
  const first = ({ register, row, col }: OwnedRegister): boolean =>
    columns === undefined
      ? register % elements === 0
      : row % atom.m === 0 && takesColumn(columns, col) && ((col % columns.of) - columns.from) % atom.n === 0;
  return acc.elements.filter(first).map(({ register, row, col }) => ({
    row,
    col,
    registers: acc.registers.slice(register / acc.packed, register / acc.packed + each),
  }));
}
