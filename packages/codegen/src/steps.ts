/** The epilogue's chain of steps on one element at a time, and the reductions that it feeds. */
import { type DType, type EpilogueStep, mapOf, type Operand, sizeOf } from "@tilewright/core";
import { must, type Ownership, registerRun, registersPerThread, type Stmt } from "@tilewright/ir";
import { type AddressOperand, addr, f32imm, imm } from "@tilewright/ptx";
import { lowerActivation } from "./activations.ts";
import type { Pred, Reg } from "./code.ts";
import type { Context } from "./context.ts";
import { lowerExpression } from "./expressions.ts";
import { cast, clamped, loadElements, storeElements } from "./formats.ts";
import { arrayAddress, arrayAlign, arrayOf, axisBound, pointer } from "./globalAddress.ts";
import { registersOf } from "./roles.ts";
import { sharedAddress } from "./sharedAddress.ts";
import { NOWHERE, type ThreadPosition } from "./threads.ts";

type Epilogue = Extract<Stmt, { kind: "epilogue" }>;
type F32 = Reg<"f32">;

/** One element of the tile: its constant coordinates beside the thread's, and the predicate of its store. */
export interface Element {
  readonly row: number;
  readonly col: number;
  readonly guard: Pred | null;
}

/**
 * A thread's part of a reduction: one register per row, per column, or in all. A sum is a float; an amax is the bits of one, which order
 * like the float where it is not negative, NaN above all others.
 */
interface Partial {
  readonly sum: F32;
  readonly bits: Reg<"u32">;
  readonly row: number;
  readonly col: number;
}

/** What expressions read of an element beside its value: what steps have loaded, by position, and the second sum of a gated product. */
interface Loaded {
  readonly steps: Map<number, F32>;
  readonly up: F32 | null;
}

/** Registers beside the sums with which loads in pairs spill nothing: of 40 and an exact gelu 160 bytes (mma, 128 sums, ptxas 13.0). */
const PAIRED_ROOM = 48;

/** The steps of one epilogue. `apply` per element, in any order; `finish` once after all of them. */
export class StepChain {
  readonly #ctx: Context;
  readonly #stmt: Epilogue;
  readonly #position: ThreadPosition;
  /** The thread's position in shared tiles. */
  readonly #inside: ThreadPosition;
  readonly #own: Ownership;
  readonly #vectors = new Map<string, F32>();
  /** Whether an expression reads what steps load. */
  readonly #mapped: boolean;
  readonly #partials = new Map<number, Map<string, Partial>>();

  constructor(
    ctx: Context,
    stmt: Epilogue,
    own: Ownership,
    position: ThreadPosition,
    inside: ThreadPosition,
  ) {
    this.#ctx = ctx;
    this.#own = own;
    this.#inside = inside;
    this.#stmt = stmt;
    this.#mapped = stmt.steps.some(({ kind }) => kind === "map");
    this.#position = position;
  }

  /** `up`: the second sum of the element, of a gated product. */
  apply(x: F32, at: Element, up: F32 | null = null): F32 {
    const loaded = { steps: new Map<number, F32>(), up };
    return this.#stmt.steps.reduce((value, step, index) => this.#step(value, step, index, at, loaded), x);
  }

  /** Combine the thread's parts of the reductions with those of all others. */
  finish(): void {
    this.#stmt.steps.forEach((step, index) => {
      if (step.kind === "reduce")
        for (const partial of this.#partials.get(index)?.values() ?? []) this.#combine(step, index, partial);
    });
  }

  #step(x: F32, step: EpilogueStep, index: number, at: Element, loaded: Loaded): F32 {
    const ctx = this.#ctx;
    const factor = (by: "scalar" | "m" | "n" | "tensor", dtype: DType): F32 =>
      by === "m" || by === "n" ? this.#vector(index, by, dtype, at) : this.#single(index, by, dtype);
    const matrix = (operand: Operand): F32 => {
      const tile = this.#tile(index, at.row, at.col);
      const from = tile ?? this.#input(index, at.row, at.col);
      return this.#load(operand.dtype, at.guard, from, "m", tile !== null);
    };
    switch (step.kind) {
      case "bias":
        return this.#arithmetic("add.rn.f32", x, this.#vector(index, step.along, step.dtype, at), at);
      case "scale":
        return this.#arithmetic("mul.rn.f32", x, factor(step.by, step.dtype), at);
      // Statements before the epilogue may have read it already.
      case "load":
        if (this.#mapped) loaded.steps.set(index, factor(step.by, step.dtype));
        return x;
      case "source":
        if (this.#mapped) loaded.steps.set(index, matrix(step.operand));
        return x;
      case "factor":
      case "result":
      case "gather":
      case "scatter":
      // Of all values of a group together.
      case "quantize":
        return x;
      case "map":
        return lowerExpression(ctx, at.guard, mapOf(this.#stmt.steps, index), {
          acc: x,
          up: loaded.up,
          loaded: (from) => loaded.steps.get(from) ?? x,
        });
      case "activation":
        return lowerActivation(ctx, at.guard, step.fn, x);
      case "clamp":
        return clamped(ctx, at.guard, x, step.min, step.max);
      case "residual":
        return this.#arithmetic("add.rn.f32", x, matrix(step.operand), at);
      case "gate":
        return this.#arithmetic("mul.rn.f32", x, matrix(step.operand), at);
      case "output":
        storeElements(ctx, at.guard, "f32", step.operand.dtype, [x], this.#input(index, at.row, at.col));
        return x;
      case "reduce":
        this.#accumulate(x, step, index, at);
        return x;
      case "cast":
        return cast(ctx, at.guard, step, x);
    }
  }

  #load(dtype: DType, guard: Pred | null, address: AddressOperand, prefix: string, shared = false): F32 {
    const [value] = this.#loadRun(dtype, guard, 1, address, prefix, shared);
    return must(value, "a run has its elements");
  }

  #loadRun(
    dtype: DType,
    guard: Pred | null,
    count: 1 | 2,
    address: AddressOperand,
    prefix: string,
    shared: boolean,
  ): readonly F32[] {
    const space = shared ? "shared" : "global";
    return loadElements(this.#ctx, guard, "f32", dtype, count, address, prefix, space) as readonly F32[];
  }

  /** Where an element of what a step reads lies in shared memory; null where bulk copies have not brought it. */
  #tile(index: number, row: number, col: number): AddressOperand | null {
    const ctx = this.#ctx;
    const view = this.#stmt.inputs?.find(({ step }) => step === index)?.view;
    if (view === undefined) return null;
    const step = this.#stmt.steps[index];
    const vector = step?.kind === "bias" ? step.along : step !== undefined && "by" in step ? step.by : null;
    const across = vector === "m" ? 1 : vector === "n" ? 0 : null;
    const { row: own, col: ownCol } = this.#inside;
    const position = { row: across === 0 ? NOWHERE : own, col: across === 1 ? NOWHERE : ownCol };
    return sharedAddress(ctx, view, position, across === 0 ? 0 : row, across === 1 ? 0 : col);
  }

  #arithmetic(mnemonic: "add.rn.f32" | "mul.rn.f32", x: F32, y: F32, at: Element): F32 {
    const d = this.#ctx.entry.reg("f32", "e");
    this.#ctx.emit(at.guard, mnemonic, d, x, y);
    return d;
  }

  /** The element's value of a vector along m or n: loaded once for all elements that share it, with its neighbour where both are a pair, under the bound of that axis alone. */
  #vector(index: number, along: "m" | "n", dtype: DType, at: Element): F32 {
    const axis = along === "m" ? 0 : 1;
    const place = axis === 0 ? at.row : at.col;
    const key = (of: number): string => `${index} ${axis} ${of}`;
    const known = this.#vectors.get(key(place));
    if (known) return known;
    const count = this.#pairs(index, axis, dtype) ? 2 : 1;
    const first = place - (place % count);
    const [row, col] = axis === 0 ? [first, 0] : [0, first];
    const tile = this.#tile(index, row, col);
    // What lies in a tile is there for all its elements: outside of D zeros.
    const bound = tile === null ? this.#bound(axis, first) : null;
    const from = tile ?? this.#input(index, row, col);
    for (const [i, value] of this.#loadRun(dtype, bound, count, from, "b", tile !== null).entries())
      this.#vectors.set(key(first + i), value);
    return must(this.#vectors.get(key(place)), "a run has its elements");
  }

  /**
   * Whether a thread has neighbours along an axis in pairs that are pairs of a vector, too: as many elements before them as make pairs, and a vector of whole pairs. And whether it has
   * registers for values that come before they are used.
   */
  #pairs(index: number, axis: 0 | 1, dtype: DType): boolean {
    const ctx = this.#ctx;
    const { constant, terms } = ctx.linear(this.#stmt.dst.origin[axis]);
    const { bits } = axis === 0 ? this.#position.row : this.#position.col;
    const even = [constant, ...terms.values()].every((each) => each % 2 === 0);
    return (
      registerRun(axis === 0 ? this.#own.rows : this.#own.cols) % 2 === 0 &&
      registersPerThread(this.#own) + PAIRED_ROOM <= registersOf(ctx) &&
      even &&
      (bits ?? 1) % 2 === 0 &&
      arrayAlign(ctx, `epilogue${index}`) % (2 * sizeOf(dtype)) === 0
    );
  }

  /** A factor for all elements: a parameter, or one value in device memory. */
  #single(index: number, by: "scalar" | "tensor", dtype: DType): F32 {
    const ctx = this.#ctx;
    const name = `epilogue${index}`;
    return ctx.invariant(`factor ${index}`, (code) => {
      if (by === "tensor")
        return ctx.into(code, () => this.#load(dtype, null, addr(pointer(ctx, name)), "s"));
      const d = ctx.entry.reg("f32", "s");
      code.emit(null, "ld.param.f32", d, ctx.param(name));
      return d;
    });
  }

  #input(index: number, row: number, col: number): AddressOperand {
    const array = arrayOf(this.#ctx, `epilogue${index}`);
    return arrayAddress(this.#ctx, array, this.#stmt.dst.origin, this.#position, row, col);
  }

  /** Predicate of one axis of D; null where the tile cannot leave it. Elements that are outside for every thread are never asked for. */
  #bound(axis: 0 | 1, offset: number): Pred | null {
    if (!this.#stmt.guard[axis]) return null;
    const coord = axis === 0 ? this.#position.row : this.#position.col;
    const bound = axisBound(this.#ctx, this.#stmt.dst, axis, coord, offset);
    return typeof bound === "string" ? null : bound;
  }

  #accumulate(x: F32, step: Extract<EpilogueStep, { kind: "reduce" }>, index: number, at: Element): void {
    const ctx = this.#ctx;
    const parts = this.#partials.get(index) ?? new Map<string, Partial>();
    this.#partials.set(index, parts);
    const [row, col] = step.over === "n" ? [at.row, 0] : step.over === "m" ? [0, at.col] : [0, 0];
    const key = `${row},${col}`;
    let part = parts.get(key);
    if (!part) {
      part = { sum: ctx.entry.reg("f32", "q"), bits: ctx.entry.reg("u32", "qb"), row, col };
      parts.set(key, part);
      if (step.op === "sum") ctx.emit(null, "mov.f32", part.sum, f32imm(0));
      else ctx.emit(null, "mov.u32", part.bits, imm(0));
    }
    if (step.op === "sum") ctx.emit(at.guard, "add.rn.f32", part.sum, part.sum, x);
    else {
      const magnitude = ctx.entry.reg("u32", "eb");
      ctx.emit(at.guard, "mov.b32", magnitude, x);
      ctx.emit(at.guard, "and.b32", magnitude, magnitude, imm(0x7fffffff));
      ctx.emit(at.guard, "max.u32", part.bits, part.bits, magnitude);
    }
  }

  #combine(step: Extract<EpilogueStep, { kind: "reduce" }>, index: number, part: Partial): void {
    const ctx = this.#ctx;
    const guard =
      step.over === "n" ? this.#bound(0, part.row) : step.over === "m" ? this.#bound(1, part.col) : null;
    const address = this.#input(index, part.row, part.col);
    if (step.op === "sum") ctx.emit(guard, "red.global.add.f32", address, part.sum);
    else ctx.emit(guard, "red.global.max.u32", address, part.bits);
  }
}
