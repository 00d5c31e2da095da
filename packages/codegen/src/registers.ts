/** Registers of register tiles: those that threads own elements of, and those that hold a copy under way as memory does. */
import type { DType } from "@tilewright/core";
import {
  type Buffer,
  bufferOf,
  type Distribution,
  must,
  type OwnedRegister,
  type Ownership,
  ownedRegisters,
  registersPerThread,
  vectorsPerThread,
} from "@tilewright/ir";
import { CannotLower } from "./cannotLower.ts";
import type { Reg } from "./code.ts";
import type { Context } from "./context.ts";
import type { Holding, RegisterType } from "./engine.ts";
import { runLength } from "./words.ts";

/** All registers of a buffer, `count` a thread and slot; made on first use. A buffer is always asked for with one type. */
function registersOf(ctx: Context, buffer: Buffer, count: number, type: RegisterType): readonly Reg[] {
  const known = ctx.registers.get(buffer.name);
  if (known) return known;
  // The underscore keeps buffers apart from the prefixes that lowering uses itself.
  const made = ctx.entry.regs(type, count * buffer.slots, `${buffer.name}_`);
  ctx.registers.set(buffer.name, made);
  return made;
}

export const ownerOf = (buffer: Buffer): Ownership =>
  must(buffer.own, "register tiles have owners (complete)");

/** One slot of a register tile as a thread holds it. */
export interface OwnedTile extends Holding {
  readonly dtype: DType;
  /** Elements with their numbers and coordinates. */
  readonly elements: readonly OwnedRegister[];
  readonly registers: readonly Reg[];
  /** The register that holds an element. */
  at(element: number): Reg;
}

export function ownedTile(ctx: Context, name: string, slot: number): OwnedTile {
  const buffer = bufferOf(ctx.program, name);
  const own = ownerOf(buffer);
  const holding = ctx.engine.holding(buffer.dtype);
  const { packed } = holding;
  const count = registersPerThread(own) / packed;
  if (!Number.isInteger(count))
    throw new CannotLower(
      `%${name}`,
      `${registersPerThread(own)} elements of ${buffer.dtype} fill no whole registers`,
    );
  const registers = registersOf(ctx, buffer, count, holding.type).slice(slot * count, (slot + 1) * count);
  return {
    ...holding,
    dtype: buffer.dtype,
    elements: ownedRegisters(own),
    registers,
    at: (element) => must(registers[Math.floor(element / packed)], "a thread has registers for its elements"),
  };
}

/** Registers of a staging tile, which holds elements as memory does: the run of the thread's vector `i`. */
export function stagedRun(
  ctx: Context,
  name: string,
  dist: Distribution,
): (vector: number) => readonly Reg[] {
  const buffer = bufferOf(ctx.program, name);
  const each = runLength(buffer.dtype, dist.vector);
  const count = vectorsPerThread(dist, buffer.shape) * each;
  const registers = registersOf(ctx, buffer, count, buffer.dtype === "f32" ? "f32" : "b32");
  return (vector) => registers.slice(vector * each, (vector + 1) * each);
}

/** Groups of `width` neighbours along `axis`; `width` divides the innermost register run. */
export function groupAlong(
  elements: readonly OwnedRegister[],
  axis: 0 | 1,
  width: number,
): readonly (readonly OwnedRegister[])[] {
  const along = (e: OwnedRegister): number => (axis === 0 ? e.row : e.col);
  const across = (e: OwnedRegister): number => (axis === 0 ? e.col : e.row);
  const sorted = [...elements].sort((x, y) => across(x) - across(y) || along(x) - along(y));
  const groups: OwnedRegister[][] = [];
  for (let i = 0; i < sorted.length; i += width) groups.push(sorted.slice(i, i + width));
  return groups;
}

/** Elements by words of a matrix instruction: two registers behind each other, which are no neighbours where atoms take the columns of a run in turn. */
export function fragmentWords(elements: readonly OwnedRegister[]): readonly (readonly OwnedRegister[])[] {
  const sorted = [...elements].sort((x, y) => x.register - y.register);
  return Array.from({ length: Math.ceil(sorted.length / 2) }, (_, i) => sorted.slice(2 * i, 2 * i + 2));
}
