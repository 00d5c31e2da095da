/** The products of a chunk: asynchronous matrix instructions of each math warpgroup, from descriptors. */
import {
  CannotLower,
  type Code,
  type Context,
  comparisons,
  type OwnedTile,
  ownedTile,
  ownerOf,
  pipelineOfView,
  placeOf,
  type Reg,
  SMEM,
  type StmtOf,
  slotAddress,
} from "@tilewright/codegen";
import {
  bufferOf,
  type Columns,
  findWarpgroupAtom,
  must,
  type OwnedRegister,
  type OwnershipMode,
  registersPerThread,
  sub,
  takesColumn,
  type View,
  type WarpgroupAtom,
  weighted,
} from "@tilewright/ir";
import { imm, type Operand, special, sym, vec } from "@tilewright/ptx";
import { type OperandTile, operandTile } from "./descriptors.ts";
import { factorsOf } from "./factors.ts";
import { widenedFragments } from "./fragments.ts";

/** Warps of a warpgroup. */
const WARPS = 4;

/** Bits of an address that a descriptor holds, in units of 16 bytes. Of a cluster's shared memory they leave the block's rank out. */
const ADDRESS_MASK = 0x3fff;

/** Orders registers before the products behind it, whose addresses are computed in front of it. */
export function lowerFence(ctx: Context): void {
  ctx.beforeFence = ctx.body.nest();
  ctx.body.emit(null, "wgmma.fence.sync.aligned");
}

/** The group's products; the work tile's divisions hide behind those of its first chunk. */
export function lowerCommit(ctx: Context): void {
  ctx.body.emit(null, "wgmma.commit_group.sync.aligned");
  ctx.beforeFence = null;
  if (ctx.loop === null) ctx.placeLate();
}

export function lowerProducts(ctx: Context, mma: StmtOf<"mma">): void {
  const atom = must(findWarpgroupAtom(mma.atom), "products are by one kind of instruction (features)");
  const sumTile = bufferOf(ctx.program, mma.acc.buffer);
  const own = ownerOf(sumTile);
  // The instruction's A has the 64 rows of its sum: B where operands have changed places.
  const swapped = sumTile.lanes === 1;
  const sides = { a: operandSide(mma.a, own.rows, 0), b: operandSide(mma.b, own.cols, 1, mma.exchanged) };
  const [first, second] = swapped ? [sides.b, sides.a] : [sides.a, sides.b];
  const factor = bufferOf(ctx.program, first.view.buffer);
  const widens = factor.dtype !== atom.a;
  const held = factor.space === "register" ? heldFragments(ctx, first) : null;
  const a = widens || held !== null ? null : operandTile(ctx, first.view.buffer, first.kAxis);
  const b = operandTile(ctx, second.view.buffer, second.kAxis);
  const form = `wgmma.mma_async.sync.aligned.${atom.shape}.${atom.acc}.${atom.a}.${atom.b}`;
  const sums = instances(ownedTile(ctx, mma.acc.buffer, 0), atom, mma.columns);
  // Fragments, too: the fence orders what threads have written into registers and what instructions read there.
  const { descA, descB, scale, fragments } = aheadOfFence(ctx, () => ({
    descA: a === null ? null : descriptorBase(ctx, a, first),
    descB: descriptorBase(ctx, b, second),
    scale: accumulates(ctx, mma.keep),
    fragments: widens
      ? widenedFragments(
          ctx,
          mma,
          atom,
          sums.map(({ row }) => row),
        )
      : held,
  }));
  const flags = flagsOf(atom, a, b);
  const [fromA, fromB] = [first, second].map(({ view, kAxis }) => ctx.constant(view.origin[kAxis], "k"));
  const [besideA, besideB] = [first, second].map(({ view, kAxis }) =>
    ctx.constant(view.origin[kAxis === 0 ? 1 : 0], "part"),
  );
  for (let k = 0; k < mma.a.extent[1]; k += atom.k)
    for (const { row, col, registers } of sums)
      ctx.body.emitAny(null, form, [
        vec(...registers),
        a === null || descA === null
          ? vec(...(fragments?.(swapped ? col : row, k) ?? []))
          : stepped(
              ctx,
              descA,
              a.offsetOf(...first.place(row + (besideA ?? 0), col + (besideA ?? 0), k + (fromA ?? 0))),
            ),
        stepped(
          ctx,
          descB,
          b.offsetOf(...second.place(row + (besideB ?? 0), col + (besideB ?? 0), k + (fromB ?? 0))),
        ),
        k === 0 ? scale : imm(1),
        ...flags,
      ]);
}

/** A tile of sums' owner as fragments of A: a register has a pair of columns, and the four of 16 columns follow each other as instructions take them (PTX ISA, wgmma: register fragments of A and of D). */
function heldFragments(
  ctx: Context,
  { view: { buffer, origin }, place, kAxis }: OperandSide,
): (row: number, k: number) => readonly Reg[] {
  const tile = ownedTile(ctx, buffer, 0);
  const from = ctx.constant(origin[kAxis], "k");
  return (row, k) => {
    const [r, c] = place(row, row, from + k);
    const found = tile.elements.find((e) => e.row === r && e.col === c);
    const first = must(found, "fragments begin at whole steps (instructions)");
    const register = first.register / tile.packed;
    return tile.registers.slice(register, register + 4);
  };
}

/** What `make` emits stands before the open fence; here where none is. */
function aheadOfFence<T>(ctx: Context, make: () => T): T {
  const { body } = ctx;
  ctx.body = ctx.beforeFence ?? body;
  const made = make();
  ctx.body = body;
  return made;
}

/** Sums that were made apart, or columns of them, added to those of the accumulator; factors of the same row and column are multiplied once. */
export function lowerAccumulate(ctx: Context, { acc, sum: part, scales }: StmtOf<"accumulate">): void {
  const [into, sums] = [ownedTile(ctx, acc.buffer, 0), ownedTile(ctx, part.buffer, 0)];
  const [to, from] = [acc, part].map(({ origin }) => ctx.constant(origin[1], "columns"));
  const columns = part.extent[1];
  const place = (row: number, col: number): string => `${row} ${col}`;
  const targets = new Map(into.elements.map((e) => [place(e.row, e.col), into.at(e.register)] as const));
  const rowFactor = scales && factorsOf(ctx, acc, scales.a, 0);
  const colFactor = scales?.b && factorsOf(ctx, acc, scales.b, 1);
  const products = new Map<string, Reg>();
  const scaleOf = (element: OwnedRegister): Reg | null => {
    const [a, b] = [rowFactor?.(element) ?? null, colFactor?.(element) ?? null];
    if (a === null || b === null) return a;
    const key = `${a.name} ${b.name}`;
    const known = products.get(key);
    if (known !== undefined) return known;
    const factor = ctx.entry.reg("f32", "sf");
    products.set(key, factor);
    ctx.body.emitAny(null, "mul.rn.f32", [factor, a, b]);
    return factor;
  };
  for (const { row, col, register } of sums.elements) {
    const at = col - (from ?? 0);
    if (at < 0 || at >= columns) continue;
    const d = targets.get(place(row, at + (to ?? 0)));
    if (d === undefined) throw new CannotLower("accumulate", "sums are of no columns of the accumulator");
    const [x, factor] = [sums.at(register), scaleOf({ row, col: at, register })];
    if (factor === null) ctx.body.emitAny(null, "add.rn.f32", [d, d, x]);
    else ctx.body.emitAny(null, "fma.rn.f32", [d, x, factor, d]);
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

/** scale-d of the first products: 0 overwrites the accumulator. */
function accumulates(ctx: Context, keep: StmtOf<"mma">["keep"]): Operand {
  if (keep === undefined || keep === false) return imm(keep === undefined ? 1 : 0);
  const { constant, terms } = ctx.linear(sub(keep.lhs, keep.rhs));
  const [term] = terms;
  if (!term) return imm(ctx.condition(keep) === true ? 1 : 0);
  const p = ctx.entry.reg("pred", "p");
  ctx.body.emitAny(null, `setp.${comparisons[keep.op]}.u32`, [p, ctx.variable(term[0]), imm(-constant)]);
  return p;
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

/** Of A or B, along axis `of` of the sums; `exchanged`: along the other one of its tile. */
function operandSide(
  view: View,
  factors: readonly OwnershipMode[],
  of: 0 | 1,
  exchanged = false,
): OperandSide {
  const axis = (of === 0) === exchanged ? 1 : 0;
  return {
    ...{ view, factors, axis, kAxis: axis === 0 ? 1 : 0 },
    place(row, col, k) {
      const at = of === 0 ? row : col;
      return axis === 0 ? [at, k] : [k, at];
    },
  };
}

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
  const place = placeOf(ctx, view.buffer);
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
  return ctx.roleValue(`group of ${tile.buffer.name} by ${step}`, (code) => {
    const d = ctx.entry.reg("u32", "wg");
    const { first } = ctx.values.role;
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
