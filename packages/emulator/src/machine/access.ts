/** How what runs outside of generated code reads and writes operands, and finds memory, checked. */
import type { LaunchConfig } from "../api.ts";
import { type Findings, LaunchStopped } from "../checkers/findings.ts";
import type { RuleId } from "../checkers/rules.ts";
import type { Piece } from "../compile/blocks.ts";
import type { Scratch } from "../compile/environment.ts";
import type { CompiledRegion } from "../compile/region.ts";
import type { KernelProgram } from "../load/module.ts";
import type { AddressOperand, Instruction, Operand } from "../load/types.ts";
import { type Arena, globalTag } from "../memory/arena.ts";
import type { ExactSums } from "../numerics/exact-sums.ts";
import type { Recorder } from "../trace/recorder.ts";
import type { Interleaver } from "./interleave.ts";
import type { MemoryPaths } from "./paths.ts";
import type { Polls } from "./polls.ts";
import type { LaunchArea, LaunchShape } from "./shape.ts";
import { specialLane } from "./special.ts";
import { placeOf, registerWord, type Warp } from "./state.ts";

/** What a launch runs with. */
export interface RunFields {
  readonly arena: Arena;
  readonly program: KernelProgram;
  readonly regions: ReadonlyMap<Piece, CompiledRegion>;
  readonly shape: LaunchShape;
  readonly area: LaunchArea;
  readonly findings: Findings;
  readonly scratch: Scratch;
  readonly tally: Float64Array;
  readonly race: boolean;
  /** And of global memory. */
  readonly global: boolean;
  /** Whose schedule decides which warp runs; null where the order does. */
  readonly interleaver: Interleaver | null;
  /** What polling loops read is noted here. */
  readonly polls: Polls;
  readonly trace: Recorder | null;
  readonly sums: ExactSums | null;
  readonly progress: LaunchConfig["progress"];
}

export abstract class MachineAccess {
  readonly arena: Arena;
  /** The instruction that runs. */
  at: Instruction | null = null;
  /** The slow paths of the launch; null before it begins. */
  paths: MemoryPaths | null = null;
  protected readonly fields: RunFields;
  abstract get executed(): number;

  constructor(fields: RunFields) {
    this.fields = fields;
    this.arena = fields.arena;
  }

  lane(warp: Warp, operand: Operand, lane: number, part: 0 | 1 = 0): number {
    switch (operand.kind) {
      case "register": {
        const { register } = operand;
        if (part === 1 && register.bits !== 64) return 0;
        const { words } = this.arena;
        if (register.written !== null && words[registerWord(warp, register.written, lane, 0)] !== 255)
          this.report(
            "H008",
            this.at,
            warp,
            () => `lane ${lane} reads ${register.name}, which it has not written`,
          );
        const value = words[registerWord(warp, register, lane, part)] ?? 0;
        return operand.negated ? value ^ 1 : value;
      }
      case "immediate":
        return Number(BigInt.asIntN(32, part === 0 ? operand.bits : operand.bits >> 32n));
      case "symbol": {
        const { variable, offset } = operand;
        const global = variable.space === "global" || variable.space === "const";
        if (part === 1) return global ? globalTag : 0;
        return variable.space === "shared"
          ? warp.sharedAddress + variable.offset + offset
          : variable.offset + offset;
      }
      case "special":
        return specialLane(operand.name, warp, lane, this.fields.scratch, part, () => this.executed | 0);
      default:
        return 0;
    }
  }

  setLane(warp: Warp, operand: Operand, lane: number, value: number, high = 0): void {
    if (operand.kind !== "register") return;
    const { register } = operand;
    const { words } = this.arena;
    words[registerWord(warp, register, lane, 0)] = value;
    if (register.bits === 64) words[registerWord(warp, register, lane, 1)] = high;
    if (register.written !== null) words[registerWord(warp, register.written, lane, 0)] = 255;
  }

  address(warp: Warp, operand: AddressOperand, lane: number): number {
    return (this.lane(warp, operand.base, lane) + operand.offset) | 0;
  }

  global(
    w: Warp,
    lane: number,
    instruction: Instruction,
    low: number,
    high: number,
    size: number,
    mode: number,
    alignment: number,
  ): number {
    if (this.paths === null) return this.stop();
    if (high === globalTag && this.usual(low, size, alignment)) return low;
    // A short copy is checked for the alignment of the whole one, and read byte by byte.
    if ((low & (alignment - 1)) !== 0)
      return this.paths.global(w, lane, instruction.index, low, high, alignment, mode);
    for (let k = 0; k < size; k++) {
      const at = this.paths.global(w, lane, instruction.index, low + k, high, 1, mode);
      if (at !== (low + k) >>> 0) return at;
    }
    return low >>> 0;
  }

  shared(
    w: Warp,
    lane: number,
    instruction: Instruction,
    address: number,
    size: number,
    mode: number,
  ): number {
    if (this.paths === null) return this.stop();
    const offset = (address - w.sharedAddress) | 0;
    if ((offset & (size - 1)) !== 0 || offset >>> 0 > w.sharedSize - size)
      return this.paths.sharedFault(w, lane, instruction.index, address, 0, size);
    if (this.usual(w.sharedBase + offset, size, size)) return w.sharedBase + offset;
    return this.paths.shared(w, lane, instruction.index, w.sharedBase + offset, size, mode);
  }

  /** Aligned whole words, allocated and initialised: nothing to look into. */
  private usual(at: number, size: number, alignment: number): boolean {
    if ((at & (alignment - 1)) !== 0 || (size & 3) !== 0 || at < 0) return false;
    const { shadow } = this.arena;
    for (let k = at >> 2; k < (at + size) >> 2; k++) if (shadow[k] !== 0xff) return false;
    return true;
  }

  report(
    rule: RuleId,
    instruction: Instruction | null,
    place: Parameters<typeof placeOf>[0],
    message: () => string,
  ): void {
    this.fields.findings.add(rule, instruction, placeOf(place), message);
  }

  stop(): never {
    throw new LaunchStopped("fault");
  }
}
