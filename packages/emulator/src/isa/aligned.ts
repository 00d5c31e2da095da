/** What the `.sync.aligned` instructions on matrices share: the wait for the warp's lanes, and its registers as a whole. */

import type { Operand, Register, WaitOperation } from "../load/types.ts";
import { type Execution, hex, type Machine, type Warp } from "../machine/state.ts";
import type { Decoder } from "./row.ts";

/** An instruction that the lanes of a warp meet at, tried until it says that it is done. */
export const together = (bind: WaitOperation["bind"]): WaitOperation => ({
  kind: "wait",
  members: "warp",
  divergence: "H023",
  bind,
});

/** An instruction that all 32 lanes execute together. */
export function aligned(bind: (machine: Machine) => (by: Execution, mask: number) => void): WaitOperation {
  return together((machine) => {
    const body = bind(machine);
    return (by, _group, mask) => {
      if (mask !== -1)
        by.report(
          "H023",
          () => `executed by lanes ${hex(mask)} of warp ${by.warp.id}; all 32 have to take part`,
        );
      body(by, mask);
      return true;
    };
  });
}

/** The registers of an operand that has to be `count` registers in braces, or one without. */
export function registersIn(d: Decoder, operand: Operand, count: number): readonly Register[] {
  const elements = operand.kind === "vector" ? operand.elements : [operand];
  const registers = elements.flatMap((x) => (x.kind === "register" ? [x.register] : []));
  if (registers.length !== count || elements.length !== count)
    return d.refuse(`an operand has to be ${count} registers here`);
  return registers;
}

/** Word of lane 0 of a 32-bit register; the other lanes follow. */
export const laneZero = (warp: Warp, register: Register): number => warp.registers + register.slot * 32;

/** Report the registers that some lane reads unwritten. */
export function checkWritten(by: Execution, registers: readonly Register[]): void {
  const { words } = by.machine.arena;
  for (const { written, name } of registers) {
    if (written === null) continue;
    const base = laneZero(by.warp, written);
    let lane = 0;
    while (lane < 32 && words[base + lane] === 255) lane++;
    if (lane < 32) notWritten(by, lane, name);
  }
}

// Apart, so that a register that has been written costs no closure.
function notWritten(by: Execution, lane: number, name: string): void {
  by.report("H008", () => `lane ${lane} reads ${name}, which it has not written`);
}

/** Note that all lanes have written the registers. */
export function markWritten(machine: Machine, warp: Warp, registers: readonly Register[]): void {
  for (const { written } of registers)
    if (written !== null)
      machine.arena.words.fill(255, laneZero(warp, written), laneZero(warp, written) + 32);
}
