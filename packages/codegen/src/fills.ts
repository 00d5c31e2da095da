/** Constants in the registers of a tile. */
import { f32imm, f64imm, imm, type Operand } from "@tilewright/ptx";
import type { Context } from "./context.ts";
import type { RegisterType, StmtOf } from "./engine.ts";
import { ownedTile } from "./registers.ts";

/** Constants of each register type. Packed elements begin with 0 only: their halves are not of one type. */
const constants: Readonly<Record<RegisterType, (value: number) => Operand>> = {
  f32: f32imm,
  f64: f64imm,
  s32: imm,
  b32: () => imm(0),
};

/** `once`: where the role begins, before its first work tile. */
export function lowerFill(ctx: Context, { dst, value, once }: StmtOf<"fill">): void {
  if (once === true) fillOnce(ctx, dst.buffer, value);
  else fillTile(ctx, dst.buffer, value, ctx.constant(dst.slot, "slot"));
}

/** Every register of a slot of a tile gets the value here. */
export function fillTile(ctx: Context, name: string, value: number, slot = 0): void {
  const tile = ownedTile(ctx, name, slot);
  const constant = constants[tile.type](value);
  for (const register of tile.registers) ctx.emitAny(null, `mov.${tile.type}`, register, constant);
}

/** The same at the start of the role's code, for all its work tiles together. */
export function fillOnce(ctx: Context, name: string, value: number): void {
  const tile = ownedTile(ctx, name, 0);
  const constant = constants[tile.type](value);
  ctx.roleValue(`${value} in ${name}`, (code) => {
    for (const register of tile.registers) code.emitAny(null, `mov.${tile.type}`, [register, constant]);
    return tile.at(0);
  });
}
