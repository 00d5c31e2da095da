/** Addresses and bounds of global memory: base pointer in the prologue, running pointer along the chunk loop, constants as offsets. */

import { type BatchAxis, exchangedOf, packedSize, pointerOf } from "@tilewright/core";
import { type ArrayDeclaration, bufferOf, type Distance, must, type View } from "@tilewright/ir";
import { type AddressOperand, addr, imm, special } from "@tilewright/ptx";
import type { Code, Pred, Reg } from "./code.ts";
import { rangeOfForm } from "./conditions.ts";
import type { Context } from "./context.ts";
import { expertSteps, groupField, groupNumber, isGrouped } from "./groups.ts";
import { advance, copyPointer, resultsPointer } from "./pointers.ts";
import { type BatchStride, extentOf, type Stride, strideKey, strideRegister } from "./sizes.ts";
import type { ThreadCoord, ThreadPosition } from "./threads.ts";

/** Offsets beyond this go into the base pointer: an address holds a signed 32-bit offset (PTX ISA, operands: addresses). */
const OFFSET_GRAIN = 2 ** 30;

/** The declared array of a global buffer. */
export function globalArray(ctx: Context, buffer: string): GlobalArray {
  const own = exchangedOf(buffer);
  if (own !== null) {
    const { rowStride, colStride, ...array } = globalArray(ctx, own);
    return { ...array, rowStride: colStride, colStride: rowStride };
  }
  return arrayOf(ctx, pointerOf(buffer));
}

/** An array of the kernel as it is declared, by the name of its pointer. */
const declared = (ctx: Context, name: string): ArrayDeclaration =>
  must(ctx.arrays.get(name), `%${name} is an array of the kernel (launches)`);

/** Coordinates of the block's problem in the map of a global buffer, the innermost first; of groups, whose maps show `apart` where each has a part of it, the group's number. */
export function batchCoordinates(ctx: Context, buffer: string, apart: boolean): readonly Reg<"u32">[] {
  const { axes } = declared(ctx, pointerOf(buffer));
  if (isGrouped(ctx)) return apart ? [groupNumber(ctx)] : [];
  if (axes !== undefined) return axes.toReversed().map((axis) => batchCoordinate(ctx, axis));
  const problem = batchIndex(ctx);
  return problem === null ? [] : [problem];
}

/** An array of the kernel, by the name of its pointer. */
export function arrayOf(ctx: Context, name: string): GlobalArray {
  const { dtype, strides, region, batch, axes } = declared(ctx, name);
  const unit = packedSize(dtype);
  const bytes = ({ times, sizes }: Distance): Stride =>
    sizes.length === 0 ? times * unit : { unit: times * unit, sizes };
  const step = /^epilogue(\d+)$/.exec(name)?.[1];
  const pointed = (): Reg<"u64"> =>
    step === undefined ? copyPointer(ctx, name === "a" ? name : "b") : resultsPointer(ctx, Number(step));
  const base = region === undefined ? null : pointed();
  return {
    name,
    ...(base === null ? {} : { base }),
    rowStride: bytes(strides[0]),
    colStride: bytes(strides[1]),
    batchStride:
      axes === undefined
        ? bytes(batch ?? { times: 0, sizes: [] })
        : { axes: axes.map((axis) => ({ ...axis, stride: axis.stride * unit })) },
  };
}

/** Bytes that the array of each problem begins at a multiple of, as its pointer is declared. */
export function arrayAlign({ kernel }: Context, name: string): number {
  const pointers = [...kernel.params, ...(kernel.row?.fields ?? [])];
  const found = pointers.find((each) => each.kind === "pointer" && each.name === name);
  return found?.kind === "pointer" ? found.align : 1;
}

/** An array in global memory: its parameter, and its strides in bytes (0 along an axis that it does not have). */
export interface GlobalArray {
  readonly name: string;
  /** Where it begins, if that is not what its parameter says. */
  readonly base?: Reg<"u64">;
  readonly rowStride: Stride;
  readonly colStride: Stride;
  /** Between the arrays of consecutive problems of a batch. */
  readonly batchStride: BatchStride;
}

/** Address of element `origin` + the thread's position + (row, col) of an array that is indexed like D. */
export function arrayAddress(
  ctx: Context,
  array: GlobalArray,
  origin: View["origin"],
  position: ThreadPosition,
  row: number,
  col: number,
): AddressOperand {
  const { base, offset } = arrayPlace(ctx, array, origin, position, row, col);
  return addr(base, offset);
}

/** The same as a register and bytes beside it. */
export function arrayPlace(
  ctx: Context,
  array: GlobalArray,
  origin: View["origin"],
  position: ThreadPosition,
  row: number,
  col: number,
): { readonly base: Reg<"u64">; readonly offset: number } {
  const { rowStride, colStride } = array;
  const [r, c] = [ctx.linear(origin[0]), ctx.linear(origin[1])];
  const offsets = [
    [rowStride, r.constant + row],
    [colStride, c.constant + col],
  ] as const;
  const bytes = offsets.reduce(
    (sum, [stride, at]) => (typeof stride === "number" ? sum + stride * at : sum),
    0,
  );
  const far = Math.trunc(bytes / OFFSET_GRAIN) * OFFSET_GRAIN;

  let base = ofProblem(ctx, array.base ?? pointer(ctx, array.name), array.batchStride);
  base = advance(ctx, base, axisIndex(ctx, r.terms, position.row), rowStride);
  base = advance(ctx, base, axisIndex(ctx, c.terms, position.col), colStride);
  if (far !== 0) {
    const near = base;
    base = ctx.invariant(`${near.name}+${far}`, (code) => {
      const d = ctx.entry.reg("u64", "far");
      code.emit(null, "add.s64", d, near, imm(far));
      return d;
    });
  }
  const { loop } = ctx;
  if (loop) {
    const steps = [
      [rowStride, r.terms.get(loop.var) ?? 0],
      [colStride, c.terms.get(loop.var) ?? 0],
    ] as const;
    for (const [stride, factor] of steps) {
      if (factor === 0 || stride === 0) continue;
      base = runningPointer(ctx, base, typeof stride === "number" ? stride * factor : { stride, factor });
    }
  }
  // Distances that only the launch knows are no offsets of instructions.
  for (const [stride, at] of offsets)
    if (typeof stride !== "number") base = ahead(ctx, array.name, base, stride, at);
  return { base, offset: bytes - far };
}

/**
 * `at` strides beyond a pointer, computed where it is used from the last such pointer of the array: rows follow each other at few distances, and a pointer
 * for each of them would take the registers of a main loop or an epilogue.
 */
function ahead(
  ctx: Context,
  array: string,
  base: Reg<"u64">,
  stride: Exclude<Stride, number>,
  at: number,
): Reg<"u64"> {
  const last = ctx.recent.get(array);
  const from = last?.base === base ? last : { at: 0, pointer: base };
  const steps = at - from.at;
  let { pointer } = from;
  if (steps !== 0) {
    const bytes = strideRegister(ctx, stride, steps);
    pointer = ctx.entry.reg("u64", "gp");
    ctx.body.emit(null, "add.s64", pointer, from.pointer, bytes);
  }
  ctx.recent.set(array, { base, at, pointer });
  return pointer;
}

/** Which problem of the batch this block works on: the grid's second axis, unless something says so for every tile. Null without a batch. */
export function batchIndex(ctx: Context): Reg<"u32"> | null {
  if (ctx.problems === null) return null;
  if (ctx.batch !== null) return ctx.batch;
  return ctx.values.memo("ctaid.y", "batch", (d) =>
    ctx.prologue.emit(null, "mov.u32", d, special("%ctaid.y")),
  );
}

/** Which neighbour along an axis of the batch the block's problem is. */
function batchCoordinate(ctx: Context, { extent, below }: BatchAxis): Reg<"u32"> {
  const problem = must(batchIndex(ctx), "axes are of a batch (launches)");
  // Axes are of batches of fixed count.
  const problems = typeof ctx.problems === "number" ? ctx.problems : Number.POSITIVE_INFINITY;
  if (below === 1 && extent >= problems) return problem;
  return ctx.invariant(`${problem.name}/${below}%${extent}`, (code) => {
    const d = ctx.entry.reg("u32", "along");
    if (below > 1) code.emit(null, "div.u32", d, problem, imm(below));
    if (extent * below < problems) code.emit(null, "rem.u32", d, below > 1 ? d : problem, imm(extent));
    return d;
  });
}

/** Where the matrix of the block's problem begins, of those that begin at `base`. */
export function ofProblem(ctx: Context, base: Reg<"u64">, stride: BatchStride): Reg<"u64"> {
  if (typeof stride === "number" || "unit" in stride) return advance(ctx, base, batchIndex(ctx), stride);
  return stride.axes.reduce((at, axis) => advance(ctx, at, batchCoordinate(ctx, axis), axis.stride), base);
}

/** The operand's pointer, in the global window; of groups that of the one at hand. */
export function pointer(ctx: Context, name: string): Reg<"u64"> {
  const base = ctx.invariant(`pointer ${name}`, (code) => {
    const d = ctx.entry.reg("u64", "ptr");
    const place = groupField(ctx, name);
    if (place === null) code.emit(null, "ld.param.u64", d, ctx.param(name));
    else code.emit(null, "ld.global.u64", d, place);
    code.emit(null, "cvta.to.global.u64", d, d);
    return d;
  });
  return expertSteps(ctx, name).reduce((at, [index, bytes]) => advance(ctx, at, index, bytes), base);
}

/** Bytes of one iteration. */
type Step = number | { readonly stride: Exclude<Stride, number>; readonly factor: number };

/** A pointer that moves by `step` each iteration of the open loop. */
function runningPointer(ctx: Context, base: Reg<"u64">, step: Step): Reg<"u64"> {
  const { loop } = ctx;
  if (!loop) return base;
  const key = `${base.name}@${typeof step === "number" ? step : `${strideKey(step.stride)}*${step.factor}`}`;
  const times = (count: number) =>
    typeof step === "number" ? imm(step * count) : strideRegister(ctx, step.stride, step.factor * count);
  const known = loop.running.get(key);
  if (known) return known as Reg<"u64">;
  const d = ctx.entry.reg("u64", "run");
  loop.running.set(key, d);
  if (loop.from === 0) loop.pre.emit(null, "mov.u64", d, base);
  else loop.pre.emit(null, "add.s64", d, base, times(loop.from));
  loop.latch.emit(null, "add.s64", d, d, times(1));
  return d;
}

/** Invariant part of an index along one axis: tile coordinates plus the thread's part; null when it is 0. */
export function axisIndex(
  ctx: Context,
  terms: ReadonlyMap<string, number>,
  thread: ThreadCoord,
): Reg<"u32"> | null {
  let sum: Reg<"u32"> | null = null;
  for (const [name, factor] of terms) {
    const tile = ctx.tileVars.get(name);
    if (!tile?.reg) continue;
    const term = ctx.values.scale(tile.reg, factor);
    sum = sum === null ? term : ctx.values.sum(sum, term);
  }
  if (thread.reg === null) return sum;
  return sum === null ? thread.reg : ctx.values.sum(sum, thread.reg);
}

/** Whether an index lies inside its axis: always, never, or as a predicate says. */
export type Bound = "inside" | "outside" | Pred;

/** Bound of element `offset` (beside the thread's own coordinate) of a view along one axis. */
export function axisBound(ctx: Context, view: View, axis: 0 | 1, thread: ThreadCoord, offset: number): Bound {
  const extent = extentOf(ctx, view.buffer, axis, bufferOf(ctx.program, view.buffer).shape);
  const { constant, terms } = ctx.linear(view.origin[axis]);
  const range =
    bufferOf(ctx.program, view.buffer).paged === undefined ? rangeOfForm(ctx, terms, constant) : null;
  // A view that never leaves its matrix has no element that does; of pages a problem's own rows end anywhere.
  const last = range === null ? null : range[1] + view.extent[axis];
  if (typeof extent === "number" && range !== null && range[0] >= 0 && last !== null && last <= extent)
    return "inside";
  const at = constant + offset;
  const fixed = axisIndex(ctx, terms, thread);
  const { loop } = ctx;
  const factor = loop === null ? 0 : (terms.get(loop.var) ?? 0);
  const moves = loop !== null && factor !== 0;
  const make = <T extends Reg>(key: string, code: (code: Code) => T): T =>
    moves ? ctx.perIteration(key, code) : ctx.loopInvariant(key, code);
  const index = !moves
    ? fixed
    : make(`${fixed?.name ?? "0"}+${loop.counter.name}*${factor}`, (code) => {
        const d = ctx.entry.reg("u32", "idx");
        if (fixed) code.emit(null, "mad.lo.u32", d, loop.counter, imm(factor), fixed);
        else code.emit(null, "mul.lo.u32", d, loop.counter, imm(factor));
        return d;
      });
  if (typeof extent === "number") {
    const limit = extent - at;
    if (index === null) return limit > 0 ? "inside" : "outside";
    return make(`${index.name}<${limit}`, (code) => {
      const p = ctx.entry.reg("pred", "p");
      code.emit(null, "setp.lt.s32", p, index, imm(limit));
      return p;
    });
  }
  // What is left of an extent of the launch, compared with each constant: extents less the constants would have a register each.
  const left =
    index === null
      ? extent
      : !moves
        ? ctx.values.difference(extent, index)
        : make(`${extent.name}-${index.name}`, (code) => {
            const d = ctx.entry.reg("u32", "left");
            code.emit(null, "sub.u32", d, extent, index);
            return d;
          });
  return make(`${left.name}>${at}`, (code) => {
    const p = ctx.entry.reg("pred", "p");
    code.emit(null, "setp.gt.s32", p, left, imm(at));
    return p;
  });
}
