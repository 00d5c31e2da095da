/** What the `.sync.aligned` instructions on matrices share: the wait for the warp's lanes, and its registers as a whole. */
import type { Instruction, Operand, Register, WaitOperation } from "../load/types.ts";
import { hex, type Machine, type Warp } from "../machine/state.ts";
import type { Decoder } from "./row.ts";

/** An instruction that all 32 lanes execute together; `run` is called once. */
export function aligned(
  run: (machine: Machine, instruction: Instruction) => (warp: Warp, mask: number) => void,
): WaitOperation {
  return {
    kind: "wait",
    members: "warp",
    divergence: "H023",
    bind: (machine, instruction) => {
      const body = run(machine, instruction);
      return (warp, _group, mask) => {
        if (mask !== -1)
          machine.report(
            "H023",
            instruction,
            warp,
            () => `executed by lanes ${hex(mask)} of warp ${warp.id}; all 32 have to take part`,
          );
        body(warp, mask);
        return true;
      };
    },
  };
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
export function checkWritten(
  machine: Machine,
  instruction: Instruction,
  warp: Warp,
  registers: readonly Register[],
): void {
  const { words } = machine.arena;
  for (const { written, name } of registers) {
    if (written === null) continue;
    const base = laneZero(warp, written);
    let lane = 0;
    while (lane < 32 && words[base + lane] === 255) lane++;
    if (lane < 32) notWritten(machine, instruction, warp, lane, name);
  }
}

// Apart, so that a register that has been written costs no closure.
function notWritten(
  machine: Machine,
  instruction: Instruction,
  warp: Warp,
  lane: number,
  name: string,
): void {
  machine.report("H008", instruction, warp, () => `lane ${lane} reads ${name}, which it has not written`);
}

/** Note that all lanes have written the registers. */
export function markWritten(machine: Machine, warp: Warp, registers: readonly Register[]): void {
  for (const { written } of registers)
    if (written !== null)
      machine.arena.words.fill(255, laneZero(warp, written), laneZero(warp, written) + 32);
}
