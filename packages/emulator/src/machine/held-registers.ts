/**
 * Registers that an engine reads or writes behind the warp's back: wgmma's accumulators and operands from the issue to the wait.
 * Steps that touch such registers know it from the text; at run time they cost a look at a byte per register.
 */
import type { Instruction, Register } from "../load/types.ts";
import type { Machine, Warp } from "./state.ts";

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
}

const ofWarps = new WeakMap<Warp, HeldRegisters>();

export function heldRegisters(warp: Warp): HeldRegisters {
  const known = ofWarps.get(warp);
  if (known !== undefined) return known;
  const made: HeldRegisters = { state: new Uint8Array(1024), inFlight: false, fenced: false };
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
}

/** What a step has to do before it runs; null when it touches no such register. */
export type TouchCheck = ((warp: Warp) => void) | null;

/** The registers that engines hold after some instruction of the kernel. */
export function registersHeld(instructions: readonly Instruction[]): ReadonlySet<Register> {
  const found = new Set<Register>();
  for (const { operation } of instructions)
    if (operation.kind === "wait") for (const register of operation.holds ?? []) found.add(register);
  return found;
}

/** The check of a run of instructions. Instructions that hold registers look after them on their own. */
export function touchCheck(
  machine: Machine,
  instructions: readonly Instruction[],
  holdable: ReadonlySet<Register>,
): TouchCheck {
  if (holdable.size === 0 || !machine.checked) return null;
  const touches: Touch[] = [];
  for (const instruction of instructions) {
    const { operation } = instruction;
    if (operation.kind === "wait" && operation.holds !== undefined) continue;
    const uses = instruction.uses.filter((r) => holdable.has(r));
    const defs = instruction.defs.filter((r) => holdable.has(r));
    if (uses.length + defs.length > 0) touches.push({ instruction, uses, defs });
  }
  if (touches.length === 0) return null;
  const written = touches.flatMap((t) => t.defs);
  return (warp) => {
    const registers = heldRegisters(warp);
    const { state } = registers;
    if (registers.inFlight)
      for (const { instruction, uses, defs } of touches) {
        checkLoaded(machine, instruction, warp, uses, "read");
        checkLoaded(machine, instruction, warp, defs, "written");
        for (const { id, name } of uses)
          if (((state[id] ?? 0) & held.written) !== 0)
            report(machine, instruction, warp, name, "read", "writes");
        for (const { id, name } of defs) {
          const bits = state[id] ?? 0;
          if ((bits & (held.written | held.read)) !== 0)
            report(
              machine,
              instruction,
              warp,
              name,
              "written",
              (bits & held.written) !== 0 ? "writes" : "reads",
            );
        }
      }
    for (const register of written) hold(registers, register, held.dirty);
  };
}

/** Report the first of some registers that a tcgen05.ld in flight will write. */
export function checkLoaded(
  machine: Machine,
  instruction: Instruction,
  warp: Warp,
  registers: readonly Register[],
  done: "read" | "written",
): void {
  const { state } = heldRegisters(warp);
  const found = registers.find(({ id }) => ((state[id] ?? 0) & held.loaded) !== 0);
  if (found !== undefined)
    machine.report(
      "H086",
      instruction,
      warp,
      () => `${found.name} is ${done} by warp ${warp.id} while a tcgen05.ld in flight writes it`,
    );
}

function report(
  machine: Machine,
  instruction: Instruction,
  warp: Warp,
  name: string,
  done: string,
  does: string,
): void {
  machine.report(
    "H060",
    instruction,
    warp,
    () =>
      `${name} is ${done} by warp ${warp.id} while a wgmma in flight ${does} it; wgmma.wait_group comes first`,
  );
}
