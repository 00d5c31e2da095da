/** Where transposed copies of A and B lie in the workspace. */
import { type Problem, WORKSPACE_ALIGN } from "@tilewright/core";
import { type TileProgram, transposedBytes, transposedOperands } from "@tilewright/ir";
import { imm } from "@tilewright/ptx";
import type { Reg } from "./code.ts";
import type { Context } from "./context.ts";
import { WORKSPACE } from "./workspace.ts";

/** A copy of an operand, of all matrices of a batch. Sizes in bytes. */
export interface TransposedCopy {
  readonly which: "a" | "b";
  /** From the start of the workspace. */
  readonly at: number;
  /** From one matrix of the batch to the next. */
  readonly stride: number;
}

const matricesOf = ({ batch }: Problem): number => (batch.kind === "none" ? 1 : batch.count);

/** The copies that a program reads, behind the first `used` bytes of the workspace; and where the last of them ends. */
export function transposedCopies(
  program: TileProgram,
  used: number,
): { readonly copies: readonly TransposedCopy[]; readonly end: number } {
  let end = used;
  const copies = transposedOperands(program).map((which): TransposedCopy => {
    const at = Math.ceil(end / WORKSPACE_ALIGN) * WORKSPACE_ALIGN;
    const stride = transposedBytes(program.problem, which);
    end = at + stride * matricesOf(program.problem);
    return { which, at, stride };
  });
  return { copies, end };
}

/** Pointer to a copy, of the first matrix of a batch. */
export const copyPointer = (ctx: Context, { which, at }: TransposedCopy): Reg<"u64"> =>
  ctx.invariant(`copy of ${which}`, (code) => {
    const d = ctx.entry.reg("u64", "copy");
    code.emit(null, "ld.param.u64", d, ctx.param(WORKSPACE));
    code.emit(null, "cvta.to.global.u64", d, d);
    if (at !== 0) code.emit(null, "add.s64", d, d, imm(at));
    return d;
  });
