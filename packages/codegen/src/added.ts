/** Stores that add to what memory holds, one element after the other in any order (PTX ISA 9.0 §9.7.13.7, red). */
import { type AddedDType, type DType, hasFeature } from "@tilewright/core";
import { must } from "@tilewright/ir";
import type { AddressOperand } from "@tilewright/ptx";
import type { Pred, Reg } from "./code.ts";
import type { Context } from "./context.ts";
import { type Kind, roundedWords } from "./formats.ts";
import { operandOf, type Word } from "./words.ts";

/** How a register of each dtype is added: bytes of the register, the instruction, whether it takes vectors, and of halves that share one that for a single one. */
interface Addition {
  readonly bytes: number;
  readonly red: string;
  readonly vectors: boolean;
  readonly half?: string;
}

/** Of halves subnormals stay, as they do in registers. */
const additions: Readonly<Record<AddedDType, Addition>> = {
  f32: { bytes: 4, red: "f32", vectors: true },
  f64: { bytes: 8, red: "f64", vectors: false },
  s32: { bytes: 4, red: "s32", vectors: false },
  f16: { bytes: 4, red: "f16x2", vectors: true, half: "f16" },
  bf16: { bytes: 4, red: "bf16x2", vectors: true, half: "bf16" },
};

/** Neighbours, rounded to the dtype of memory, added to what is there. */
export function addElements(
  ctx: Context,
  guard: Pred | null,
  kind: Kind,
  dtype: DType,
  values: readonly Reg[],
  address: AddressOperand,
): void {
  const run = kind === dtype ? values : roundedWords(ctx, guard, dtype, values as readonly Reg<"f32">[]);
  addRun(ctx, guard, dtype, values.length, run, address);
}

/** The same of a run of `count` elements. */
export function addRun(
  ctx: Context,
  guard: Pred | null,
  dtype: DType,
  count: number,
  registers: readonly Reg[],
  address: AddressOperand,
): void {
  const added: Readonly<Partial<Record<DType, Addition>>> = additions;
  const { bytes, red, vectors, half } = must(added[dtype], "memory adds elements of D's dtype (problem)");
  const mnemonic = `red.relaxed.gpu.global.add${half === undefined ? "" : ".noftz"}`;
  if (half !== undefined && count === 1) {
    const narrow = ctx.entry.reg("b16", "h");
    ctx.emitAny(guard, "cvt.u16.u32", narrow, registers[0] as Word);
    ctx.emitAny(guard, `${mnemonic}.${half}`, address, narrow);
    return;
  }
  const together = vectors && hasFeature(ctx.target, "red.vector") ? registers.length : 1;
  for (let i = 0; i < registers.length; i += together)
    ctx.emitAny(
      guard,
      `${mnemonic}${together > 1 ? `.v${together}` : ""}.${red}`,
      { ...address, offset: address.offset + BigInt(i * bytes) },
      operandOf(registers.slice(i, i + together)),
    );
}
