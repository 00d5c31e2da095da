/** Registers of register tiles: one PTX register per (slot, element a thread holds). */
import {
  type Buffer,
  bufferOf,
  type Distribution,
  type OwnedRegister,
  type Ownership,
  ownedRegisters,
  registersPerThread,
  sizeOf,
  vectorsPerThread,
} from "@tilewright/ir";
import type { Reg } from "./code.ts";
import { CannotLower, type Context } from "./context.ts";
import type { Element } from "./convert.ts";

/** All registers of a buffer of `count` elements a thread and slot; made on first use. A buffer is always asked for with one type. */
function registersOf<T extends "f32" | "b16">(
  ctx: Context,
  buffer: Buffer,
  count: number,
  type: T,
): readonly Reg<T>[] {
  const known = ctx.registers.get(buffer.name);
  if (known) return known as readonly Reg<T>[];
  // The underscore keeps buffers apart from the prefixes that lowering uses itself.
  const made = ctx.entry.regs(type, count * buffer.slots, `${buffer.name}_`);
  ctx.registers.set(buffer.name, made);
  return made;
}

function pick<T extends Element>(registers: readonly T[], index: number, buffer: Buffer): T {
  const register = registers[index];
  if (!register) throw new CannotLower(`%${buffer.name}`, `has no register ${index}`);
  return register;
}

export const ownerOf = (buffer: Buffer): Ownership => {
  if (!buffer.own) throw new CannotLower(`%${buffer.name}`, "is a register tile without an owner");
  return buffer.own;
};

/** Access to the registers of an owned tile in one slot. Owned tiles feed arithmetic, so their registers are f32 whatever their dtype. */
export function ownedTile(
  ctx: Context,
  name: string,
  slot: number,
): { readonly elements: readonly OwnedRegister[]; readonly at: (register: number) => Reg<"f32"> } {
  const buffer = bufferOf(ctx.program, name);
  const own = ownerOf(buffer);
  const count = registersPerThread(own);
  const registers = registersOf(ctx, buffer, count, "f32");
  return {
    elements: ownedRegisters(own),
    at: (register) => pick(registers, slot * count + register, buffer),
  };
}

/** Registers of a staging tile, which holds elements as memory does: element `e` of the thread's vector `i`. */
export function stagedRegister(
  ctx: Context,
  name: string,
  dist: Distribution,
): (vector: number, element: number) => Element {
  const buffer = bufferOf(ctx.program, name);
  const count = vectorsPerThread(dist, buffer.shape) * dist.vector;
  const registers: readonly Element[] =
    sizeOf(buffer.dtype) === 2
      ? registersOf(ctx, buffer, count, "b16")
      : registersOf(ctx, buffer, count, "f32");
  return (vector, element) => pick(registers, vector * dist.vector + element, buffer);
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
