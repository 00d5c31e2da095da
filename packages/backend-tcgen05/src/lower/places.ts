/** Where a role stands in a ring: slot and parity as registers that roll on, across tiles too. */
import { CannotLower, type Context, type Reg } from "@tilewright/codegen";
import type { Ring } from "@tilewright/ir";
import { imm } from "@tilewright/ptx";
import type { RingPlace, RoleState } from "./state.ts";

/** A scheduler is on both sides of its ring, with a place on each. */
export type Side = "producer" | "consumer";

/** Begin a ring in a role: slot 0; a producer's first wait must pass, so it asks for the phase before the first (parity 1). */
export function beginPlace(ctx: Context, role: RoleState, ring: Ring, side: Side): void {
  const u32 = (prefix: string): Reg<"u32"> => ctx.entry.reg("u32", prefix);
  const slot = ring.slots > 1 ? u32(`${ring.name}_slot_`) : null;
  const parity = u32(`${ring.name}_parity_`);
  if (slot) ctx.body.emit(null, "mov.u32", slot, imm(0));
  ctx.body.emit(null, "mov.u32", parity, imm(side === "producer" ? 1 : 0));
  role.places.set(`${ring.name} ${side}`, { slot, parity, open: false });
}

export function placeOf(role: RoleState, ring: Ring, side: Side): RingPlace {
  const place = role.places.get(`${ring.name} ${side}`);
  if (place === undefined)
    throw new CannotLower(`%${ring.name}`, `role ${role.name} has no part in the ring`);
  return place;
}

/** The place before a wait or acquire; one chunk at a time may be open. */
export function openPlace(role: RoleState, ring: Ring, side: Side): RingPlace {
  const place = placeOf(role, ring, side);
  if (place.open)
    throw new CannotLower(`%${ring.name}`, "a role of this backend works on one chunk of a ring at a time");
  place.open = true;
  return place;
}

/** The chunk is done with: on to the next slot, in the other phase after the last. */
export function advance(ctx: Context, role: RoleState, ring: Ring, side: Side): void {
  const place = placeOf(role, ring, side);
  place.open = false;
  const { body } = ctx;
  const { slot, parity } = place;
  if (slot === null) {
    body.emit(null, "xor.b32", parity, parity, imm(1));
    return;
  }
  const wraps = ctx.entry.reg("pred", "wr");
  body.emit(null, "add.u32", slot, slot, imm(1));
  body.emit(null, "setp.eq.u32", wraps, slot, imm(ring.slots));
  body.emit(wraps, "mov.u32", slot, imm(0));
  body.emit(wraps, "xor.b32", parity, parity, imm(1));
}
