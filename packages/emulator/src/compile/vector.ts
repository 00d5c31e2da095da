/**
 * Runs of f32 arithmetic as WebAssembly SIMD: two lanes at a time in f64x2, which is what an exact `fma.rn.f32` needs. It is
 * several times faster than the JavaScript form of the same run and, above all, fast from the first call: the exact FMA costs
 * some 400 ns a lane while V8 still interprets it, and an optimised version of 256 of them takes V8 up to a second.
 */
import { InternalError } from "@tilewright/core";
import type { Instruction, Operand, Register, VectorForm } from "../load/types.ts";
import { numberOf } from "./emitter.ts";
import { FunctionCode } from "./wasm.ts";

/** Fewest vector instructions that make a piece of their own: below, the switch between the two costs more than it saves. */
const shortestVectorRun = 8;

/** The vector form of an instruction, if it has one and its registers are all of class f32. */
function vectorForm(instruction: Instruction): VectorForm | null {
  const { operation, guard } = instruction;
  if (operation.kind !== "lane" || guard !== null || operation.vector === undefined) return null;
  const { vector } = operation;
  const fits = (operand: Operand): boolean =>
    operand.kind === "immediate" ||
    (operand.kind === "register" && operand.register.cls === "f32" && operand.register.written === null);
  return fits(vector.to) && vector.to.kind === "register" && vector.from.every(fits) ? vector : null;
}

/**
 * Reorder a run so that vector instructions stand together: other instructions move up past vector instructions that they
 * do not depend on. Lanes are independent and vector instructions touch registers only, so this changes no result.
 * Returns stretches in order, each all vector or not.
 */
export function gatherVectors(
  run: readonly Instruction[],
): readonly { readonly vector: boolean; readonly run: readonly Instruction[] }[] {
  const out: { vector: boolean; run: Instruction[] }[] = [];
  let waiting: Instruction[] = [];
  let read = new Set<Register>();
  let written = new Set<Register>();
  const append = (vector: boolean, items: readonly Instruction[]): void => {
    const last = out.at(-1);
    if (last !== undefined && last.vector === vector) last.run.push(...items);
    else if (items.length > 0) out.push({ vector, run: [...items] });
  };
  const flush = (): void => {
    append(waiting.length >= shortestVectorRun, waiting);
    waiting = [];
    read = new Set();
    written = new Set();
  };
  for (const instruction of run) {
    if (vectorForm(instruction) !== null) {
      waiting.push(instruction);
      for (const r of instruction.uses) read.add(r);
      for (const r of instruction.defs) written.add(r);
      continue;
    }
    const depends =
      instruction.uses.some((r) => written.has(r)) ||
      instruction.defs.some((r) => written.has(r) || read.has(r));
    if (depends) flush();
    append(false, [instruction]);
  }
  flush();
  return out;
}

/** Lanes that one iteration handles, and how many iterations a warp takes. */
const lanesAtOnce = 2;
const laneBytes = 4;
const slotBytes = 32 * laneBytes;

const smallestNormal = 2 ** -126;

/**
 * A function that runs a vector stretch for all 32 lanes. Its argument is the byte offset of the warp's register file, which
 * is a multiple of 128.
 */
export function emitVectorRun(
  run: readonly Instruction[],
  liveAfter: (register: Register) => boolean,
): FunctionCode {
  const code = new FunctionCode();
  const locals = new Map<Register, number>();
  const dirty = new Set<Register>();
  const scratch = {
    p: code.local(),
    s: code.local(),
    f: code.local(),
    d: code.local(),
    t: code.local(),
    b: code.local(),
  };
  const base = 0;
  code.loop();
  const read = (operand: Operand): void => {
    if (operand.kind === "register") {
      let local = locals.get(operand.register);
      if (local === undefined) {
        local = code.local();
        locals.set(operand.register, local);
        code
          .get(base)
          .load64(operand.register.slot * slotBytes)
          .op("f64x2.promote")
          .set(local);
      }
      code.get(local);
    } else if (operand.kind === "immediate") code.f64Pair(numberOf(operand));
  };
  const write = (operand: Operand): void => {
    if (operand.kind !== "register") return;
    let local = locals.get(operand.register);
    if (local === undefined) {
      local = code.local();
      locals.set(operand.register, local);
    }
    dirty.add(operand.register);
    code.set(local);
  };
  for (const instruction of run) {
    const form = vectorForm(instruction);
    if (form === null) throw new InternalError(`${instruction.text} has no vector form`);
    // Operands are loaded outside of branches: a first use inside would leave the local unset on the other path.
    const [a, b, c] = form.from;
    if (a === undefined) continue;
    const signed = (operand: Operand, at: number): void => {
      read(operand);
      if (form.negated?.includes(at) === true) code.op("f64x2.neg");
    };
    switch (form.op) {
      case "mov":
        read(a);
        break;
      case "add":
      case "sub":
      case "mul":
        read(a);
        if (b !== undefined) read(b);
        code.op(`f64x2.${form.op}`).op("f32x4.demote").op("f64x2.promote");
        break;
      case "fma":
        if (b !== undefined && c !== undefined)
          fused(
            code,
            scratch,
            () => signed(a, 0),
            () => read(b),
            () => signed(c, 2),
          );
        break;
      default:
        form.op satisfies never;
    }
    write(form.to);
  }
  for (const register of dirty) {
    if (!liveAfter(register)) continue;
    code.get(base);
    code
      .get(locals.get(register) ?? 0)
      .op("f32x4.demote")
      .store64(register.slot * slotBytes);
  }
  // The base walks through the 128 bytes of a slot; its low bits are zero again after the last pair.
  code
    .get(base)
    .i32(lanesAtOnce * laneBytes)
    .i32Add()
    .tee(base)
    .i32(slotBytes - 1)
    .i32And()
    .branchIf(0)
    .end();
  return code;
}

interface Scratch {
  readonly p: number;
  readonly s: number;
  readonly f: number;
  readonly d: number;
  readonly t: number;
  readonly b: number;
}

/**
 * Leaves fma(a, b, c) on the stack. The double sum s of the exact product can only round wrongly twice where it is a tie
 * between two f32: its low 29 bits are then exactly half a unit, or it is below the normal range, where more bits are cut.
 * Only then the full repair of the branch-free form (isa/float.ts) is computed.
 */
function fused(code: FunctionCode, x: Scratch, a: () => void, b: () => void, c: () => void): void {
  a();
  b();
  code.op("f64x2.mul").tee(x.p);
  c();
  code.op("f64x2.add").tee(x.s);
  code.op("f32x4.demote").op("f64x2.promote").set(x.f);
  code.get(x.s).i64Pair(0x1fffffff).op("v128.and").i64Pair(0x10000000).op("i64x2.eq");
  code.get(x.s).op("f64x2.abs").f64Pair(smallestNormal).op("f64x2.lt").op("v128.or");
  code.op("v128.any_true").if();
  // d = s - f; t = f + 2d; bb = s - p; e = ((p - (s - bb)) + (c - bb)) * d; f = t is an f32 and e > 0 ? t : f
  code.get(x.s).get(x.f).op("f64x2.sub").tee(x.d);
  code.get(x.d).op("f64x2.add").get(x.f).op("f64x2.add").set(x.t);
  code.get(x.s).get(x.p).op("f64x2.sub").set(x.b);
  code.get(x.t);
  code.get(x.f);
  code.get(x.p).get(x.s).get(x.b).op("f64x2.sub").op("f64x2.sub");
  c();
  code.get(x.b).op("f64x2.sub").op("f64x2.add").get(x.d).op("f64x2.mul").f64Pair(0).op("f64x2.gt");
  code.get(x.t).op("f32x4.demote").op("f64x2.promote").get(x.t).op("f64x2.eq").op("v128.and");
  code.op("v128.bitselect").set(x.f);
  code.end();
  code.get(x.f);
}
