/**
 * Runs: neighbours in memory as registers. f32 elements have a register each; all others lie in words of 32 bits as memory has them, so that
 * sixteen bytes of any dtype are one access.
 */

import { type DType, packedSize, sizeOf } from "@tilewright/core";
import { must } from "@tilewright/ir";
import { f32imm, imm, type Operand, vec } from "@tilewright/ptx";
import { asOthers, type CachePolicyUse } from "./cachePolicy.ts";
import type { Pred, Reg } from "./code.ts";
import type { Context } from "./context.ts";

export type Word = Reg<"b32">;

/** Types of accesses below a word; a register of 32 bits takes the value and zeros above it (PTX ISA, operand size exceeding instruction type). */
const narrow: Readonly<Record<number, string>> = { 1: "u8", 2: "u16", 4: "b32" };

/** Type and vector of an access to `count` elements: `v4.f32`, `v2.b32`, `u16`. */
function accessType(dtype: DType, count: number): string {
  if (dtype === "f32") return vectorOf(count, "f32");
  const bytes = count * packedSize(dtype);
  return narrow[bytes] ?? vectorOf(bytes / 4, "b32");
}

const vectorOf = (count: number, type: string): string =>
  must(vectors[count], "vectors are a power of two of at most 16 bytes (vectors)") + type;

const vectors: Readonly<Record<number, string>> = { 1: "", 2: "v2.", 4: "v4." };

/** Registers that a run of elements takes. */
export const runLength = (dtype: DType, count: number): number => Math.ceil((count * packedSize(dtype)) / 4);

/** Fresh registers for a run. A prefix has one type, so words get one of their own. */
export function freshRun(ctx: Context, dtype: DType, count: number, prefix: string): readonly Reg[] {
  const length = runLength(dtype, count);
  return dtype === "f32"
    ? Array.from({ length }, () => ctx.entry.reg("f32", prefix))
    : Array.from({ length }, () => ctx.entry.reg("b32", `${prefix}w`));
}

/** One register, or a vector of them. */
export function operandOf(registers: readonly Reg[]): Operand {
  const first = must(registers[0], "a run has elements");
  return registers.length === 1 ? first : vec(...registers);
}

const accessRun =
  (op: "ld" | "st") =>
  (
    ctx: Context,
    guard: Pred | null,
    space: "global" | "shared",
    dtype: DType,
    count: number,
    registers: readonly Reg[],
    address: Operand,
    { hint, operands }: CachePolicyUse = asOthers,
  ): void => {
    const run = operandOf(registers);
    const ends = op === "ld" ? [run, address] : [address, run];
    ctx.emitAny(guard, `${op}.${space}${hint}.${accessType(dtype, count)}`, ...ends, ...operands);
  };

/** A run of elements from memory, and to it. */
export const loadRun = accessRun("ld");
export const storeRun = accessRun("st");

/** Instruction and operand that put 0 into a register of a run. */
export const zeroOf = (dtype: DType): readonly [mnemonic: string, zero: Operand] =>
  dtype === "f32" ? ["mov.f32", f32imm(0)] : ["mov.b32", imm(0)];

/** `count` elements of a run from element `from` on, as a run of their own. Elements inside a word are moved to its low bits. */
export function sliceRun(
  ctx: Context,
  guard: Pred | null,
  dtype: DType,
  registers: readonly Reg[],
  from: number,
  count: number,
): readonly Reg[] {
  const size = sizeOf(dtype);
  const [first, bytes] = [from * size, count * size];
  const part = registers.slice(Math.floor(first / 4), Math.ceil((first + bytes) / 4));
  const [holder] = part;
  if (bytes % 4 === 0 || !holder) return part;
  return [shifted(ctx, guard, holder as Word, (first % 4) * 8)];
}

/** A word moved down by so many bits. */
export function shifted(ctx: Context, guard: Pred | null, from: Word, bit: number): Word {
  if (bit === 0) return from;
  const d = ctx.entry.reg("b32", "word");
  ctx.emit(guard, "shr.u32", d, from, imm(bit));
  return d;
}

/** Bytes 0 (or 0 and 1) of the first operand, then those of the second; the rest repeats (PTX ISA, prmt: each digit picks a byte of b:a). */
const pickBytes = 0x4040;
const pickHalves = 0x5410;

/** Put elements of `size` bytes, one a register, into as few registers as hold them; the first in the lowest bits. */
export function packElements(
  ctx: Context,
  guard: Pred | null,
  size: 1 | 2,
  elements: readonly Word[],
): readonly Word[] {
  const join = (parts: readonly Word[], selector: number): readonly Word[] => {
    const out: Word[] = [];
    for (let i = 0; i < parts.length; i += 2) {
      const [low, high] = [parts[i], parts[i + 1]];
      if (!low) continue;
      if (!high) {
        out.push(low);
        continue;
      }
      const d = ctx.entry.reg("b32", "word");
      ctx.emit(guard, "prmt.b32", d, low, high, imm(selector));
      out.push(d);
    }
    return out;
  };
  const halves = size === 1 ? join(elements, pickBytes) : elements;
  return halves.length > 1 ? join(halves, pickHalves) : halves;
}
