/**
 * Registers that an engine reads or writes behind the warp's back: wgmma's accumulators and operands from the issue to the wait.
 * Steps that touch such registers know it from the text; at run time they cost a look at a byte per register.
 */

import type { Instruction, Register } from "../load/types.ts";
import { type CarriedRegisters, carry, displace, noneCarried } from "./carried.ts";
import { Execution, type Machine, type Warp } from "./state.ts";

/** State of a register in a warp, bits of a byte. */
export const held = {
  /** The engine will write it: any use has to wait. */
  written: 1,
  /** The engine will read it: writing has to wait. */
  read: 2,
  /** The warp has written it since its last wgmma.fence. */
  dirty: 4,
  /** A tcgen05.ld will write it: any use has to wait. */
  loaded: 8,
} as const;

/** Of one warp. */
export interface HeldRegisters {
  /** By register number; grows. */
  state: Uint8Array;
  /** Registers in flight at all. */
  inFlight: boolean;
  /** The warp has executed wgmma.fence: until then nothing it has written is ordered. */
  fenced: boolean;
  /** Accumulators in flight that have been copied. */
  readonly carried: CarriedRegisters;
}

const ofWarps = new WeakMap<Warp, HeldRegisters>();

export function heldRegisters(warp: Warp): HeldRegisters {
  const known = ofWarps.get(warp);
  if (known !== undefined) return known;
  const made: HeldRegisters = {
    state: new Uint8Array(1024),
    inFlight: false,
    fenced: false,
    carried: noneCarried(),
  };
  ofWarps.set(warp, made);
  return made;
}

/** Set bits of a register's state. */
export function hold(registers: HeldRegisters, { id }: Register, bits: number): void {
  if (id >= registers.state.length) {
    const wider = new Uint8Array(2 * id);
    wider.set(registers.state);
    registers.state = wider;
  }
  registers.state[id] = (registers.state[id] ?? 0) | bits;
}

/** Touched registers of one instruction, numbers of those that some engine holds somewhere in the kernel. */
interface Touch {
  readonly instruction: Instruction;
  readonly uses: readonly Register[];
  readonly defs: readonly Register[];
  /** Target and source of an unguarded mov between registers. */
  readonly copy: readonly [Register, Register] | null;
}

/** What a step has to do before it runs; null when it touches no such register. */
export type TouchCheck = ((warp: Warp) => void) | null;

/** The registers that engines hold after some instruction of the kernel, and those that such a one may be copied to. */
export function registersHeld(instructions: readonly Instruction[]): ReadonlySet<Register> {
  const found = new Set<Register>();
  for (const { operation } of instructions)
    if (operation.kind === "wait") for (const register of operation.holds ?? []) found.add(register);
  if (found.size === 0) return found;
  const copies = instructions.map(copyOf).filter((copy) => copy !== null);
  for (let before = -1; before !== found.size; ) {
    before = found.size;
    for (const [to, from] of copies) if (found.has(from)) found.add(to);
  }
  return found;
}

/** Target and source of an unguarded mov from register to register. */
function copyOf({ mnemonic, guard, links }: Instruction): readonly [Register, Register] | null {
  const [link] = links;
  return link !== undefined && guard === null && mnemonic.startsWith("mov.") ? link : null;
}

/** The check of a run of instructions. Instructions that hold registers look after them on their own. */
export function touchCheck(
  machine: Machine,
  instructions: readonly Instruction[],
  holdable: ReadonlySet<Register>,
): TouchCheck {
  if (holdable.size === 0) return null;
  const touches: Touch[] = [];
  for (const instruction of instructions) {
    const { operation } = instruction;
    if (operation.kind === "wait" && operation.holds !== undefined) continue;
    const uses = instruction.uses.filter((r) => holdable.has(r));
    const defs = instruction.defs.filter((r) => holdable.has(r));
    if (uses.length + defs.length > 0) touches.push({ instruction, uses, defs, copy: copyOf(instruction) });
  }
  // Without checks only copies, and what takes the place of a copied value, matter.
  if (touches.length === 0 || (!machine.checked && touches.every(({ copy }) => copy === null))) return null;
  return (warp) => {
    const registers = heldRegisters(warp);
    for (const touch of touches) {
      if (registers.inFlight && touched(new Execution(machine, warp, touch.instruction), registers, touch))
        continue;
      for (const register of touch.defs) hold(registers, register, held.dirty);
    }
  };
}

/** Look at one instruction while registers are in flight. True where it hands on what is under way and writes nothing itself. */
function touched(by: Execution, registers: HeldRegisters, { uses, defs, copy }: Touch): boolean {
  const { carried } = registers;
  const isWritten = ({ id }: Register): boolean => ((registers.state[id] ?? 0) & held.written) !== 0;
  checkLoaded(by, uses, "read");
  checkLoaded(by, defs, "written");
  const carries = copy !== null && isWritten(copy[1]);
  if (!carries)
    for (const register of uses) if (isWritten(register)) report(by, register.name, "read", "writes");
  for (const register of defs) {
    const bits = registers.state[register.id] ?? 0;
    if ((bits & held.read) !== 0) report(by, register.name, "written", "reads");
    else if (isWritten(register) && !displace(carried, by.warp, by.machine.arena.words, register))
      report(by, register.name, "written", "writes");
    registers.state[register.id] = bits & ~held.written;
  }
  if (!carries) return false;
  const [to, from] = copy;
  carry(carried, from, to);
  hold(registers, to, held.written);
  return true;
}

/** Report the first of some registers that a tcgen05.ld in flight will write. */
export function checkLoaded(by: Execution, registers: readonly Register[], done: "read" | "written"): void {
  const { state } = heldRegisters(by.warp);
  const found = registers.find(({ id }) => ((state[id] ?? 0) & held.loaded) !== 0);
  if (found !== undefined)
    by.report(
      "H086",
      () => `${found.name} is ${done} by warp ${by.warp.id} while a tcgen05.ld in flight writes it`,
    );
}

function report(by: Execution, name: string, done: string, does: string): void {
  by.report(
    "H060",
    () =>
      `${name} is ${done} by warp ${by.warp.id} while a wgmma in flight ${does} it; wgmma.wait_group comes first`,
  );
}
