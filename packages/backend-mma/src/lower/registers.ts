/** Registers of register tiles. Elements of fewer than 32 bits are packed, in the order of their numbers. */
import {
  type Buffer,
  bufferOf,
  type DType,
  dtypes,
  elementsPerRegister,
  type OwnedRegister,
  type Ownership,
  ownedRegisters,
  registersPerThread,
} from "@tilewright/ir";
import type { Reg } from "./code.ts";
import { CannotLower, type Context } from "./context.ts";

/** Type of the registers that hold a tile of a dtype; packed ones and tf32, which no arithmetic takes, are untyped. */
export const registerType = (dtype: DType): "f32" | "f64" | "s32" | "b32" =>
  dtype === "f32" || dtype === "f64" || dtype === "s32" ? dtype : "b32";

/** All registers of a buffer, `count` a thread and slot; made on first use. */
function registersOf(ctx: Context, buffer: Buffer, count: number): readonly Reg[] {
  const known = ctx.registers.get(buffer.name);
  if (known) return known;
  // The underscore keeps buffers apart from the prefixes that lowering uses itself.
  const made = ctx.entry.regs(registerType(buffer.dtype), count * buffer.slots, `${buffer.name}_`);
  ctx.registers.set(buffer.name, made);
  return made;
}

export const ownerOf = (buffer: Buffer): Ownership => {
  if (!buffer.own) throw new CannotLower(`%${buffer.name}`, "is a register tile without an owner");
  return buffer.own;
};

/** One slot of a register tile as a thread holds it. */
export interface OwnedTile {
  readonly dtype: DType;
  /** Elements with their numbers and coordinates; element e is part e % `packed` of register e / `packed`. */
  readonly elements: readonly OwnedRegister[];
  readonly packed: number;
  readonly registers: readonly Reg[];
  /** The register that holds an element. */
  at(element: number): Reg;
}

export function ownedTile(ctx: Context, name: string, slot: number): OwnedTile {
  const buffer = bufferOf(ctx.program, name);
  const own = ownerOf(buffer);
  const packed = elementsPerRegister(buffer.dtype);
  const count = registersPerThread(own) / packed;
  if (!Number.isInteger(count))
    throw new CannotLower(
      `%${name}`,
      `its ${dtypes[buffer.dtype].bits}-bit elements fill no whole registers`,
    );
  const registers = registersOf(ctx, buffer, count).slice(slot * count, (slot + 1) * count);
  return {
    dtype: buffer.dtype,
    elements: ownedRegisters(own),
    packed,
    registers,
    at(element) {
      const register = registers[Math.floor(element / packed)];
      if (!register) throw new CannotLower(`%${name}`, `has no element ${element}`);
      return register;
    },
  };
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
