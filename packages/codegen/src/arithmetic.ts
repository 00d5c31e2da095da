/** Arithmetic of the epilogue on f32 registers. */
import { hasFeature } from "@tilewright/core";
import { f32imm } from "@tilewright/ptx";
import type { Pred, Reg } from "./code.ts";
import type { Context } from "./context.ts";

export type F32 = Reg<"f32">;

/** Emits f32 instructions under one predicate, each into a fresh register. */
export class Arithmetic {
  readonly #ctx: Context;
  readonly #guard: Pred | null;

  constructor(ctx: Context, guard: Pred | null) {
    this.#ctx = ctx;
    this.#guard = guard;
  }

  #make(emit: (d: F32) => void): F32 {
    const d = this.#ctx.entry.reg("f32", "e");
    emit(d);
    return d;
  }

  mul = (a: F32, b: F32 | number): F32 =>
    this.#make((d) => this.#ctx.emit(this.#guard, "mul.rn.f32", d, a, value(b)));
  add = (a: F32, b: F32 | number): F32 =>
    this.#make((d) => this.#ctx.emit(this.#guard, "add.rn.f32", d, a, value(b)));
  fma = (a: F32, b: F32 | number, c: F32 | number): F32 =>
    this.#make((d) => this.#ctx.emit(this.#guard, "fma.rn.f32", d, a, value(b), value(c)));
  abs = (a: F32): F32 => this.#make((d) => this.#ctx.emit(this.#guard, "abs.f32", d, a));
  exp2 = (a: F32): F32 => this.#make((d) => this.#ctx.emit(this.#guard, "ex2.approx.f32", d, a));
  /** Results below 2^-126 are 0: without ftz ptxas scales around the instruction, four more of them. */
  exp2Ftz = (a: F32): F32 => this.#make((d) => this.#ctx.emit(this.#guard, "ex2.approx.ftz.f32", d, a));
  floor = (a: F32): F32 => this.#make((d) => this.#ctx.emit(this.#guard, "cvt.rmi.f32.f32", d, a));
  log2 = (a: F32): F32 => this.#make((d) => this.#ctx.emit(this.#guard, "lg2.approx.f32", d, a));
  reciprocalFtz = (a: F32): F32 => this.#make((d) => this.#ctx.emit(this.#guard, "rcp.approx.ftz.f32", d, a));
  tanhApprox = (a: F32): F32 => this.#make((d) => this.#ctx.emit(this.#guard, "tanh.approx.f32", d, a));
  withSignOf = (magnitude: F32, sign: F32): F32 =>
    this.#make((d) => this.#ctx.emit(this.#guard, "copysign.f32", d, sign, magnitude));

  sub = (a: F32, b: F32 | number): F32 =>
    this.#make((d) => this.#ctx.emit(this.#guard, "sub.rn.f32", d, a, value(b)));
  div = (a: F32, b: F32 | number): F32 =>
    this.#make((d) => this.#ctx.emit(this.#guard, "div.rn.f32", d, a, value(b)));
  neg = (a: F32): F32 => this.#make((d) => this.#ctx.emit(this.#guard, "neg.f32", d, a));
  sqrt = (a: F32): F32 => this.#make((d) => this.#ctx.emit(this.#guard, "sqrt.approx.f32", d, a));
  rsqrt = (a: F32): F32 => this.#make((d) => this.#ctx.emit(this.#guard, "rsqrt.approx.f32", d, a));
  /** A constant in a register of its own. */
  register = (x: F32 | number): F32 => (typeof x === "number" ? this.constant(x) : x);
  constant = (x: number): F32 => this.#make((d) => this.#ctx.emit(this.#guard, "mov.f32", d, f32imm(x)));

  /** x, or a limit where x is below it; NaN stays NaN. */
  atLeast = (x: F32, limit: number): F32 => this.#limited("max.NaN.f32", "setp.lt.f32", x, limit);
  /** x, or a limit where x is above it; NaN stays NaN. */
  atMost = (x: F32, limit: number): F32 => this.#limited("min.NaN.f32", "setp.gt.f32", x, limit);

  /** By a comparison on targets whose max and min take the limit instead of NaN. */
  #limited(mnemonic: string, beyond: "setp.lt.f32" | "setp.gt.f32", x: F32, limit: number): F32 {
    if (!hasFeature(this.#ctx.target, "max.NaN")) return this.#select(beyond, x, limit, limit, x);
    return this.#make((d) => this.#ctx.emitAny(this.#guard, mnemonic, d, x, f32imm(limit)));
  }

  /** x < limit ? then : otherwise. A NaN takes `otherwise`. */
  selectBelow = (x: F32, limit: F32 | number, then: F32 | number, otherwise: F32): F32 =>
    this.#select("setp.lt.f32", x, limit, then, otherwise);
  /** x > limit ? then : otherwise. A NaN takes `otherwise`. */
  selectAbove = (x: F32, limit: F32 | number, then: F32 | number, otherwise: F32): F32 =>
    this.#select("setp.gt.f32", x, limit, then, otherwise);

  #select(
    mnemonic: "setp.lt.f32" | "setp.gt.f32",
    x: F32,
    limit: F32 | number,
    then: F32 | number,
    otherwise: F32,
  ): F32 {
    const p = this.#ctx.entry.reg("pred", "p");
    this.#ctx.emit(this.#guard, mnemonic, p, x, value(limit));
    return this.#make((d) => this.#ctx.emit(this.#guard, "selp.f32", d, value(then), otherwise, p));
  }
}

const value = (x: F32 | number) => (typeof x === "number" ? f32imm(x) : x);
