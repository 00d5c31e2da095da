/** Shared addresses as operands of instructions that run once for a warp: mbarriers, asynchronous stores, engines. */

import type { AddressOperand } from "../load/types.ts";
import { type Execution, hex, type SharedPlace } from "../machine/state.ts";
import { sharedTag } from "../memory/arena.ts";

/** `cta`: the block's own window; `cluster`: any block's; `generic`: a generic address of either. */
export type SharedSpace = "cta" | "cluster" | "generic";

/** The space that an instruction's modifier names. */
export const sharedSpace = (name: "shared" | "shared::cta" | "shared::cluster" | null): SharedSpace =>
  name === null ? "generic" : name === "shared::cluster" ? "cluster" : "cta";

/**
 * Where `size` bytes at an address operand lie, in one lane; null after reporting. `.shared::cta` addresses of another block
 * and generic addresses of another space are H003.
 */
export function sharedPlace(
  by: Execution,
  operand: AddressOperand,
  lane: number,
  space: SharedSpace,
  size: number,
): SharedPlace | null {
  const { machine, warp } = by;
  const address = machine.address(warp, operand, lane);
  const { base } = operand;
  const wide = base.kind === "register" && base.register.bits === 64;
  const high = wide ? machine.lane(warp, base, lane, 1) : 0;
  const expected = wide && space === "generic" ? sharedTag : 0;
  if (high !== expected || (space === "cta" && address >>> 24 !== warp.block.rank)) {
    by.report("H003", () =>
      high !== expected
        ? `lane ${lane} gives a 64-bit address that is no ${space === "generic" ? "generic address of" : "address in"} shared memory`
        : `lane ${lane} uses ${hex(address)}, an address in block ${address >>> 24} of the cluster, as its own`,
    );
    return null;
  }
  return by.window(address, size, size);
}
