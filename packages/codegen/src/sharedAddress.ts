/** Addresses of shared memory: thread part in the prologue, ring slot as one running offset, everything else constant. */
import { isPowerOfTwo } from "@tilewright/core";
import {
  applySwizzle,
  type Buffer,
  bufferOf,
  type Expr,
  elementBytes,
  type Layout,
  linearOffset,
  must,
  type Swizzle,
  type View,
} from "@tilewright/ir";
import { type AddressOperand, addr, imm, sym } from "@tilewright/ptx";
import { CannotLower } from "./cannotLower.ts";
import type { Reg } from "./code.ts";
import type { Context } from "./context.ts";
import { ofSlot, pipelineOfView, placeOf, slotAddress } from "./pipelines.ts";
import { SMEM } from "./smem.ts";
import type { ThreadCoord, ThreadPosition } from "./threads.ts";

/** Address of element (row, col) of a view of a shared buffer, beside the thread's own position. */
export function sharedAddress(
  ctx: Context,
  view: View,
  at: ThreadPosition,
  row: number,
  col: number,
): AddressOperand {
  const buffer = bufferOf(ctx.program, view.buffer);
  const place = placeOf(ctx, buffer.name);
  const layout = must(buffer.layout, "shared tiles have layouts (complete)");
  const origin0 = `origin of %${buffer.name}`;
  const { position, coordinate } = withoutCarry(ctx, layout, at, [
    row + ctx.constant(view.origin[0], origin0),
    col + ctx.constant(view.origin[1], origin0),
  ]);
  const size = elementBytes(buffer);
  const fixed = linearOffset(layout, coordinate) * size;
  const thread = threadOffset(ctx, buffer, layout, position);
  const { swizzle } = layout;
  const pipeline = pipelineOfView(ctx, view);
  if (pipeline !== null && pipeline.ring.slots > 1) return pipelineAddress(ctx, view, layout, thread, fixed);
  // The only slot of a ring is wherever the role is in it.
  const slot =
    pipeline === null ? slotOffset(ctx, view.slot, buffer.slots, place.every) : { reg: null, constant: 0 };
  if (swizzle && thread.reg && (thread.bits === null || (thread.bits & fixed) !== 0)) {
    const start = ctx.invariant("shared memory", (code) => {
      const d = ctx.entry.reg("u32", "sm");
      code.emit(null, "mov.u32", d, sym(SMEM));
      return d;
    });
    const bases = slot.reg === null ? [start] : [start, slot.reg];
    return computedAddress(ctx, swizzle, thread.reg, fixed, bases, place.offset + slot.constant);
  }
  const element = swizzled(ctx, layout, thread, fixed);

  // Kept in registers, an address for each flip costs the loop nothing; recomputed, one register serves all K steps.
  const early = ctx.keeps.has("addresses");
  const origin = early && element.reg ? flipped(ctx, ctx.invariant, element.reg, element.flip) : element.reg;
  const base = ctx.invariant(`${buffer.name} at ${origin?.name ?? "0"}`, (code) => {
    const d = ctx.entry.reg("u32", "sb");
    code.emit(null, "mov.u32", d, sym(SMEM));
    if (origin) code.emit(null, "add.u32", d, d, origin);
    return d;
  });
  const { reg } = slot;
  const moved =
    reg === null
      ? base
      : ctx.perIteration(`${base.name}+${reg.name}`, (code) => {
          const d = ctx.entry.reg("u32", "sa");
          code.emit(null, "add.u32", d, base, reg);
          return d;
        });
  const constant = place.offset + element.constant + slot.constant;
  if (early) return addr(moved, constant);
  // Slots and the block's memory begin at multiples of every swizzle's span, so that the bits to flip are the thread's own.
  return addr(flipped(ctx, ctx.perIteration, moved, element.flip), constant);
}

/**
 * A position and a constant whose addresses add up. Along the axis of which a tile has panels, or that is interleaved, they do unless their sum may leave the run that
 * the thread's own part begins in: 48 columns of a warpgroup and 16 more lie two panels of 32 further, not one. The constant is then part of the position.
 */
function withoutCarry(
  ctx: Context,
  { panels, interleaved }: Layout,
  position: ThreadPosition,
  coordinate: readonly [number, number],
): { readonly position: ThreadPosition; readonly coordinate: readonly [number, number] } {
  const [axis, extent] =
    interleaved === undefined ? [panels?.axis, panels?.extent ?? 1] : [interleaved.axis, interleaved.runs];
  if (axis === undefined) return { position, coordinate };
  const name = axis === 0 ? "row" : "col";
  const { reg, bits, key } = position[name];
  const by = coordinate[axis];
  if (reg === null || by % extent === 0) return { position, coordinate };
  if (bits !== null && (bits & (extent - 1)) + (by % extent) < extent) return { position, coordinate };
  const all = { key: `${key}+${by}`, reg: ctx.values.sum(reg, imm(by)), bits: null };
  return {
    position: { ...position, [name]: all },
    coordinate: axis === 0 ? [0, coordinate[1]] : [coordinate[0], 0],
  };
}

/** The same in the slot of a pipeline: what follows from it holds until that goes on. */
function pipelineAddress(
  ctx: Context,
  view: View,
  layout: Layout,
  thread: ThreadOffset,
  fixed: number,
): AddressOperand {
  const { at, base, offset } = slotAddress(ctx, view);
  if (layout.swizzle && thread.reg && (thread.bits === null || (thread.bits & fixed) !== 0))
    return computedAddress(ctx, layout.swizzle, thread.reg, fixed, [base], offset);
  const { reg, flip, constant } = swizzled(ctx, layout, thread, fixed);
  const moved =
    reg === null
      ? base
      : ofSlot(at, `${base.name}+${reg.name}`, () => {
          const d = ctx.entry.reg("u32", "sa");
          ctx.body.emit(null, "add.u32", d, base, reg);
          return d;
        });
  // Slots begin at multiples of every swizzle's span, so that the bits to flip are the thread's own.
  const from =
    flip === 0
      ? moved
      : ofSlot(at, `${moved.name}^${flip}`, () => {
          const d = ctx.entry.reg("u32", "sx");
          ctx.body.emit(null, "xor.b32", d, moved, imm(flip));
          return d;
        });
  return addr(from, offset + constant);
}

/** An address part with the bits of `flip` inverted, as a value of the given scope. */
function flipped(ctx: Context, scope: Context["invariant"], from: Reg<"u32">, flip: number): Reg<"u32"> {
  if (flip === 0) return from;
  return scope.call(ctx, `${from.name}^${flip}`, (code) => {
    const d = ctx.entry.reg("u32", "sx");
    code.emit(null, "xor.b32", d, from, imm(flip));
    return d;
  }) as Reg<"u32">;
}

/**
 * The address of an element whose swizzle has no constant part to take out (tiles that are no powers of two): computed where it is used,
 * because a register for each such address of a kernel would be more than there are.
 */
function computedAddress(
  ctx: Context,
  swizzle: Swizzle,
  thread: Reg<"u32">,
  fixed: number,
  bases: readonly Reg<"u32">[],
  constant: number,
): AddressOperand {
  const { body } = ctx;
  const linear = ctx.entry.reg("u32", "sl");
  const d = ctx.entry.reg("u32", "sc");
  body.emit(null, "add.u32", linear, thread, imm(fixed));
  body.emit(null, "shr.u32", d, linear, imm(swizzle.base + swizzle.shift));
  body.emit(null, "and.b32", d, d, imm(2 ** swizzle.bits - 1));
  body.emit(null, "shl.b32", d, d, imm(swizzle.base));
  body.emit(null, "xor.b32", d, d, linear);
  for (const base of bases) body.emit(null, "add.u32", d, d, base);
  return addr(d, constant);
}

/** Byte offset that depends on the thread: a register (null for 0) and the bits it can have set, where known and carry-free. */
interface ThreadOffset {
  readonly reg: Reg<"u32"> | null;
  readonly bits: number | null;
}

function threadOffset(ctx: Context, buffer: Buffer, layout: Layout, position: ThreadPosition): ThreadOffset {
  const size = elementBytes(buffer);
  const joined = (r: ThreadOffset, c: ThreadOffset): ThreadOffset => {
    if (r.reg === null) return c;
    if (c.reg === null) return r;
    const disjoint = r.bits !== null && c.bits !== null && (r.bits & c.bits) === 0;
    return { reg: ctx.values.sum(r.reg, c.reg), bits: disjoint ? (r.bits ?? 0) | (c.bits ?? 0) : null };
  };
  const scaled = (reg: Reg<"u32">, bits: number | null, stride: number): ThreadOffset => {
    const step = stride * size;
    const exact = bits !== null && Number.isInteger(Math.log2(step));
    return { reg: ctx.values.scale(reg, step), bits: exact ? bits * step : null };
  };
  /** A coordinate of which every `extent` elements, `near` apart, begin `far` beyond the last: both parts are taken from the thread's own. */
  const cut = (
    reg: Reg<"u32">,
    bits: number | null,
    extent: number,
    near: number,
    far: number,
  ): ThreadOffset => {
    if (!isPowerOfTwo(extent))
      throw new CannotLower(
        `%${buffer.name}`,
        "its panels are not cut at a power of two, as its threads are",
      );
    const low = bits === null ? null : bits & (extent - 1);
    const high = bits === null || low === null ? null : (bits - low) / extent;
    const inside = (): ThreadOffset =>
      scaled(ctx.values.modulo(reg, extent, Number.POSITIVE_INFINITY), low, near);
    if (high === 0) return inside();
    const outside = scaled(ctx.values.divide(reg, extent), high, far);
    return low === 0 ? outside : joined(inside(), outside);
  };
  const part = (coord: ThreadCoord, axis: 0 | 1): ThreadOffset => {
    const stride = layout.stride[axis] ?? 0;
    const { panels, interleaved } = layout;
    if (coord.reg === null || stride === 0) return { reg: null, bits: 0 };
    if (interleaved?.axis === axis)
      return cut(coord.reg, coord.bits, interleaved.runs, interleaved.step, stride);
    const inOne = coord.bits !== null && panels !== undefined && coord.bits < panels.extent;
    // Of a vector panels follow each other as their elements do.
    if (panels?.axis !== axis || inOne || panels.step === panels.extent * stride)
      return scaled(coord.reg, coord.bits, stride);
    return cut(coord.reg, coord.bits, panels.extent, stride, panels.step);
  };
  return joined(part(position.row, 0), part(position.col, 1));
}

/**
 * Swizzled `thread + fixed`, which share no bits. A XOR swizzle is linear over the bits, so
 * sw(thread + fixed) = sw(thread) ^ sw(fixed): the constant's bits outside the thread's reach stay an offset, only the others (`flip`) cost an XOR.
 */
function swizzled(
  ctx: Context,
  layout: Layout,
  thread: ThreadOffset,
  fixed: number,
): { readonly reg: Reg<"u32"> | null; readonly flip: number; readonly constant: number } {
  const { swizzle } = layout;
  if (swizzle === null) return { reg: thread.reg, flip: 0, constant: fixed };
  if (thread.reg === null) return { reg: null, flip: 0, constant: applySwizzle(swizzle, fixed) };
  const { reg } = thread;
  const mask = 2 ** swizzle.bits - 1;
  const permute = (from: Reg<"u32">): Reg<"u32"> =>
    ctx.invariant(`${from.name}~${swizzle.bits},${swizzle.base},${swizzle.shift}`, (code) => {
      const d = ctx.entry.reg("u32", "sw");
      code.emit(null, "shr.u32", d, from, imm(swizzle.base + swizzle.shift));
      code.emit(null, "and.b32", d, d, imm(mask));
      code.emit(null, "shl.b32", d, d, imm(swizzle.base));
      code.emit(null, "xor.b32", d, d, from);
      return d;
    });
  const constant = applySwizzle(swizzle, fixed);
  const bits = thread.bits ?? 0;
  const flip = constant & (bits | spread(swizzle.bits, swizzle.base, swizzle.shift, bits));
  return { reg: permute(reg), flip, constant: constant - flip };
}

/** Bits that the swizzle can set given the bits of its input. */
const spread = (bits: number, base: number, shift: number, input: number): number =>
  ((input >>> (base + shift)) & (2 ** bits - 1)) << base;

/** Byte offset of a ring slot: a constant, or a register that the loop rotates. */
interface SlotOffset {
  readonly reg: Reg<"u32"> | null;
  readonly constant: number;
}

function slotOffset(ctx: Context, slot: Expr, slots: number, stride: number): SlotOffset {
  const e = ctx.fold(slot);
  if (e.kind === "const") return { reg: null, constant: e.value * stride };
  const { loop } = ctx;
  const chunk = e.kind === "mod" && e.divisor === slots ? ctx.linear(e.lhs) : null;
  if (!loop || !chunk || chunk.terms.size !== 1 || chunk.terms.get(loop.var) !== 1)
    return must<never>(null, "slots go round with the chunks of the loop (expressions)");
  const phase = ((chunk.constant % slots) + slots) % slots;
  const key = `slot+${phase} of ${slots}x${stride}`;
  const known = loop.running.get(key);
  if (known) return { reg: known as Reg<"u32">, constant: 0 };
  const reg = ctx.entry.reg("u32", "slot");
  loop.running.set(key, reg);
  loop.pre.emit(null, "mov.u32", reg, imm(((loop.from + phase) % slots) * stride));
  if (slots === 2) loop.latch.emit(null, "sub.u32", reg, imm(stride), reg);
  else {
    const wrapped = ctx.entry.reg("pred", "p");
    loop.latch.emit(null, "add.u32", reg, reg, imm(stride));
    loop.latch.emit(null, "setp.eq.u32", wrapped, reg, imm(slots * stride));
    loop.latch.emit(null, "selp.b32", reg, imm(0), reg, wrapped);
  }
  return { reg, constant: 0 };
}
